"""One supervisor a place: who has the lock, who is waited for, and who is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ascend_supervisor.errors import Unavailable
from ascend_supervisor.events import Event
from ascend_supervisor.files.reserved_descriptor import Reserve
from ascend_supervisor.processes.proc import main_thread_has_ended
from ascend_supervisor.program.single_instance import Holder, SingleInstance, take_lock
from ascend_supervisor.tasks.clock import Clock, MonotonicClock
from tests.clocks import LeapingClock
from tests.running import wait_until

HOLDER = """
import ctypes, sys, threading, time
from pathlib import Path
from ascend_supervisor.program.single_instance import take_lock
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.program.single_instance import Holder

ourselves = Holder.ourselves("pod-0", 0)
assert take_lock(Path(sys.argv[1]), to_json(ourselves))
print(ourselves.start_time, flush=True)
if sys.argv[2] == "half dead":  # its files stay open as long as one thread lives
    threading.Thread(target=time.sleep, args=(600,)).start()
    ctypes.CDLL(None).pthread_exit(None)
time.sleep(600)
"""


class Predecessor:
    """A process that holds the lock of ``state_file``."""

    def __init__(self, state_file: Path, how: str) -> None:
        lock = state_file.with_name(f"{state_file.name}.lock")
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(lock), how], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.start_time = int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def state_file(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "job-supervisor-pod.json"


@pytest.fixture
def predecessor(state_file: Path, request: pytest.FixtureRequest) -> Iterator[Predecessor]:
    made = Predecessor(state_file, getattr(request, "param", "healthy"))
    yield made
    made.end()


def write_state(path: Path, pid: int, start_time: int, phase: str) -> None:
    facts = {"job_id": "job", "pod": "pod-0", "version": "0", "why": "", "ranks": []}
    path.write_text(json.dumps({**facts, "pid": pid, "start_time": start_time, "phase": phase}))


def instance(state_file: Path, events: list[Event], clock: Clock) -> SingleInstance:
    ourselves = Holder.ourselves("pod-0", 20)
    return SingleInstance(state_file, ourselves, Reserve(), clock, events.append)


async def claimed(state_file: Path, events: list[Event]) -> bool:
    with anyio.fail_after(30):
        return await instance(state_file, events, LeapingClock()).claim(anyio.sleep_forever)


def told(events: list[Event]) -> str:
    (event,) = events
    return event.msg


async def test_a_place_that_nobody_has_is_ours_and_the_lock_says_so(state_file):
    events: list[Event] = []
    assert await claimed(state_file, events)
    assert events == []
    lock = state_file.with_name(f"{state_file.name}.lock")
    assert json.loads(lock.read_text())["pid"] == os.getpid()
    assert json.loads(lock.read_text())["ends_within"] == 50
    assert not take_lock(lock, b"")


async def test_a_place_that_a_healthy_supervisor_has_is_refused(state_file, predecessor):
    events: list[Event] = []
    with pytest.raises(Unavailable) as refusal:
        await claimed(state_file, events)
    assert f"process {predecessor.process.pid}, started " in str(refusal.value)
    assert " s ago; end it first" in str(refusal.value)
    assert str(state_file) in str(refusal.value)
    assert events == []


@pytest.mark.parametrize("phase", ["stopping", "ended"])
async def test_who_says_that_it_ends_is_waited_for(state_file, predecessor, phase):
    write_state(state_file, predecessor.process.pid, predecessor.start_time, phase)
    await is_waited_for(state_file, predecessor)


@pytest.mark.parametrize("predecessor", ["half dead"], indirect=True)
async def test_who_is_gone_but_for_its_kernel_remains_is_waited_for(state_file, predecessor):
    wait_until(lambda: main_thread_has_ended(predecessor.process.pid))
    await is_waited_for(state_file, predecessor)


async def is_waited_for(state_file: Path, predecessor: Predecessor) -> None:
    events: list[Event] = []
    done: list[bool] = []

    async def claim() -> None:
        done.append(await instance(state_file, events, MonotonicClock()).claim(anyio.sleep_forever))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(claim)
            while not events:
                await anyio.sleep(0.005)
            assert done == []
            await anyio.to_thread.run_sync(predecessor.end)
    assert done == [True]
    assert f"is ending: process {predecessor.process.pid}, started " in told(events)
    assert "30 s at most" in told(events)


async def test_a_state_that_another_supervisor_has_written_makes_nobody_end(
    state_file, predecessor
):
    write_state(state_file, predecessor.process.pid, predecessor.start_time - 1, "ended")
    with pytest.raises(Unavailable):
        await claimed(state_file, [])


async def test_who_is_told_to_stop_does_not_wait(state_file, predecessor):
    write_state(state_file, predecessor.process.pid, predecessor.start_time, "stopping")
    stop = anyio.Event()
    events: list[Event] = []
    done: list[bool] = []

    async def claim() -> None:
        done.append(await instance(state_file, events, MonotonicClock()).claim(stop.wait))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(claim)
            while not events:
                await anyio.sleep(0.005)
            stop.set()
    assert done == [False]
    assert predecessor.process.poll() is None


async def test_a_lock_file_that_was_removed_lets_nobody_in(state_file, predecessor):
    write_state(state_file, predecessor.process.pid, predecessor.start_time, "running")
    state_file.with_name(f"{state_file.name}.lock").unlink()
    with pytest.raises(Unavailable, match=f"process {predecessor.process.pid}, started "):
        await claimed(state_file, [])


async def test_a_supervisor_of_another_container_is_told_apart(state_file, predecessor):
    """Its pid says nothing here: it may be healthy although there is no such process."""
    lock = state_file.with_name(f"{state_file.name}.lock")
    holder = {**json.loads(lock.read_text()), "realm": "elsewhere", "pid": 1}
    lock.write_text(json.dumps(holder))
    with pytest.raises(Unavailable) as refusal:
        await claimed(state_file, [])
    sentence = f"process 1 of pod-0 in another container, started at {holder['began']}"
    assert sentence in str(refusal.value)


@pytest.mark.parametrize("content", ["", "{}", "[]", "\0", '{"pid": "x"}', "x" * 9000])
async def test_a_lock_that_does_not_say_who_has_it_is_one_all_the_same(
    state_file, predecessor, content
):
    state_file.with_name(f"{state_file.name}.lock").write_text(content)
    with pytest.raises(Unavailable, match="a process that has not said its pid"):
        await claimed(state_file, [])


OBSTACLES: dict[str, Callable[[Path, Path], object]] = {
    "directory": lambda lock, _: lock.mkdir(),
    "link": lambda lock, elsewhere: lock.symlink_to(elsewhere),
    "hard link": lambda lock, elsewhere: lock.hardlink_to(elsewhere),
    "pipe": lambda lock, _: os.mkfifo(lock),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
async def test_where_nothing_can_be_locked_that_is_told_and_the_place_is_ours(state_file, obstacle):
    lock = state_file.with_name(f"{state_file.name}.lock")
    lock.parent.mkdir()
    elsewhere = lock.parent / "elsewhere"
    elsewhere.write_text("words of others")
    OBSTACLES[obstacle](lock, elsewhere)
    events: list[Event] = []
    assert await claimed(state_file, events)
    assert f"{lock} cannot be locked: " in told(events)
    assert elsewhere.read_text() == "words of others"


@pytest.mark.parametrize(
    ("pod", "other", "realm", "is_told"),
    [
        ("p" * 63, "p" * 63, "elsewhere", True),
        ("p" * 62, "p" * 62, "elsewhere", True),  # with a dot at the end, before it was cut
        ("p" * 63, "q" * 63, "elsewhere", False),
        ("pod-0", "pod-0", "elsewhere", False),
        ("p" * 63, "p" * 63, None, False),
    ],
)
async def test_of_two_pods_with_one_cut_name_it_is_said_how_to_tell_them_apart(
    state_file, predecessor, pod, other, realm, is_told
):
    """Kubernetes cuts HOSTNAME, so they have one state file in a directory that they share."""
    lock = state_file.with_name(f"{state_file.name}.lock")
    holder = json.loads(lock.read_text())
    lock.write_text(json.dumps({**holder, "pod": other, "realm": realm or holder["realm"]}))
    clock = LeapingClock()
    ours = SingleInstance(state_file, Holder.ourselves(pod, 0), Reserve(), clock, lambda _: None)
    with pytest.raises(Unavailable) as refusal:
        await ours.claim(anyio.sleep_forever)
    advice = "set POD_NAME to the whole name (metadata.name)"
    assert str(refusal.value).endswith(advice) == is_told
