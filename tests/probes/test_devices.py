"""No generation starts while a process holds a device; devices are files here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.cluster.own_devices import npu_files
from ascend_supervisor.errors import Unavailable
from ascend_supervisor.events import Event
from ascend_supervisor.events.leftovers import ReleaseWaiting, WaitEnded
from ascend_supervisor.probes.devices import MOST_SECONDS, Devices
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.clocks import LeapingClock
from tests.running import END_MAIN_THREAD, wait_until

HOLD = "import sys; file = open(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
HOLDS_IN_A_THREAD = f"""
import os, sys, threading
file = open(sys.argv[1])
threading.Thread(target=lambda: os.write(1, b"held\\n") and sys.stdin.read()).start()
{END_MAIN_THREAD}
"""


def test_npus_are_told_from_the_other_device_files(tmp_path):
    for name in ("davinci0", "davinci11", "davinci_manager", "davinci0x", "null"):
        (tmp_path / name).touch()
    assert npu_files(tmp_path) == (str(tmp_path / "davinci0"), str(tmp_path / "davinci11"))


async def test_devices_that_nobody_holds_are_ready_at_once(tmp_path):
    events: list[Event] = []
    (tmp_path / "davinci0").touch()
    with anyio.fail_after(20):
        await Devices(npu_files(tmp_path), MonotonicClock(), events.append).released()
    assert events == []


async def test_a_device_that_is_held_is_waited_for_and_the_holder_told(tmp_path):
    with holder(tmp_path) as process:
        events: list[Event] = []

        def report(event: Event) -> None:
            events.append(event)
            assert process.stdin is not None
            process.stdin.close()

        with anyio.fail_after(20):
            await Devices(npu_files(tmp_path), MonotonicClock(), report).released()
    event, end = events
    assert isinstance(event, ReleaseWaiting)
    assert isinstance(end, WaitEnded)
    assert event.remaining[0].startswith(f"{process.pid} (state ")


async def test_a_holder_whose_main_thread_has_ended_is_waited_for(tmp_path):
    with holder(tmp_path, HOLDS_IN_A_THREAD) as process:
        stat = Path("/proc", str(process.pid), "stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
        with anyio.fail_after(20), pytest.raises(Unavailable, match=f"held by: {process.pid} "):
            await Devices(
                npu_files(tmp_path), LeapingClock(MOST_SECONDS), lambda _: None
            ).released()
        process.kill()


def holder(directory: Path, program: str = HOLD) -> subprocess.Popen[bytes]:
    device = directory / "davinci0"
    device.touch()
    words = [sys.executable, "-c", program, str(device)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


async def test_a_device_that_is_never_released_is_unavailable(tmp_path):
    with holder(tmp_path) as process:
        with anyio.fail_after(20), pytest.raises(Unavailable, match=f"held by: {process.pid} "):
            await Devices(
                npu_files(tmp_path), LeapingClock(MOST_SECONDS), lambda _: None
            ).released()
        process.kill()


async def test_holders_are_told_at_growing_intervals(tmp_path):
    events: list[Event] = []
    with holder(tmp_path) as process:
        with anyio.fail_after(60), pytest.raises(Unavailable):
            await Devices(npu_files(tmp_path), LeapingClock(9.5), events.append).released()
        process.kill()
    *told, end = events
    assert isinstance(end, WaitEnded)
    assert [event.waited_seconds for event in told if isinstance(event, ReleaseWaiting)] == [
        *(0, 10, 30, 70, 130, 190, 250, 310, 370, 430, 490, 550)
    ]
    assert end.waited_seconds > MOST_SECONDS


class Stopped(LeapingClock):
    """A clock on which we stand still for ten minutes in every sleep."""

    def now(self) -> float:
        return 0.0

    def elapsed(self) -> float:
        return self.time


async def test_time_in_which_we_stood_still_is_not_the_holders_but_is_told(tmp_path):
    waited: list[float] = []
    with holder(tmp_path) as process:

        def report(event: Event) -> None:
            if isinstance(event, WaitEnded):
                return
            assert isinstance(event, ReleaseWaiting)
            waited.append(event.waited_seconds)
            if len(waited) == 2:
                process.kill()
                process.wait()

        with anyio.fail_after(20):
            await Devices(npu_files(tmp_path), Stopped(MOST_SECONDS), report).released()
    assert waited[0] == 0
    assert waited[1] > MOST_SECONDS
