"""A process is meant, not its number."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ascend_supervisor.processes.pid import Pid


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(("sleep", "600")) as started:
        yield started
        started.kill()


@pytest.fixture(params=["room", "one descriptor left"])
def descriptors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where one is left, there is room to look or for a pidfd, and not for both."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if request.param != "room":
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
        if free <= highest:  # fill what lies below the highest
            filled = [os.open(os.devnull, os.O_RDONLY) for _ in range(highest - free + 1)]
        else:
            filled = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (max([highest, *filled]) + 2, hard))
        yield
        for number in filled:
            os.close(number)
    else:
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_is_its_number_and_its_start(process):
    pid = Pid.of(process.pid)
    assert pid is not None
    assert pid == Pid.of(process.pid)
    assert pid.number == process.pid
    assert pid.lives


def test_a_signal_reaches_it(process, descriptors):
    pid = Pid.of(process.pid)
    assert pid is not None
    assert pid.send(signal.SIGTERM)
    assert process.wait(20) == -signal.SIGTERM


def test_whoever_has_its_number_now_is_not_signalled(process, descriptors):
    pid = Pid.of(process.pid)
    assert pid is not None
    predecessor = replace(pid, start=pid.start - 1)
    assert not predecessor.lives
    assert not predecessor.send(signal.SIGKILL)
    assert pid.send(signal.SIGTERM)
    assert process.wait(20) == -signal.SIGTERM


def test_a_zombie_has_its_number_still_and_does_not_live(process):
    pid = Pid.of(process.pid)
    assert pid is not None
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert Pid.of(process.pid) == pid
    assert not pid.lives
    process.wait()
    assert Pid.of(process.pid) is None
    assert not pid.send(signal.SIGTERM)


def test_what_we_may_not_signal_is_told():
    if os.geteuid() == 0:
        pytest.skip("root may signal everybody")
    init = Pid.of(1)
    assert init is not None
    assert not init.send(signal.SIGCONT)
