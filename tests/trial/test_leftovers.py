"""What a job has left is found, and nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_supervisor.trial.sequence import SHARED_MEMORY, Traces

MARK = f"TRIAL_TEST_{os.getpid()}"
SHARES = """
import mmap, sys
for name in sys.argv[1:]:
    with open(name, "w+b") as file:
        file.truncate(4096)
        kept = globals().setdefault(name, mmap.mmap(file.fileno(), 4096))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A file of shared memory."""
    path = Path(SHARED_MEMORY, f"{MARK}-of-a-rank")
    yield path
    path.unlink(missing_ok=True)


def started(shared: Path, mark: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", SHARES, str(shared)],
        env={**os.environ, mark: "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_processes_shared_memory_and_sockets_are_told_until_they_are_gone(tmp_path, shared):
    traces = Traces(MARK, ())
    process = started(shared, MARK)
    traces.look()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    found = traces.left_in(tmp_path, 0.0)
    assert found[0].startswith(f"process {process.pid} (state ")
    assert found[1:] == (f"shared memory {shared}", f"socket {tmp_path}/socket")
    traces.end()
    process.communicate()
    assert process.returncode == -9
    assert traces.left_in(tmp_path, 0.0) == found[1:]
    shared.unlink()
    (tmp_path / "socket").unlink()
    assert traces.left_in(tmp_path) == ()


def test_what_others_have_made_is_not_told(tmp_path, shared):
    traces = Traces(MARK, ())
    process = started(shared, f"{MARK}_OF_OTHERS")
    traces.look()
    assert traces.left_in(tmp_path) == ()
    end(process)
    assert traces.left_in(tmp_path) == ()


def test_a_device_that_is_held_is_told(tmp_path):
    device = tmp_path / "davinci0"
    device.touch()
    with device.open():
        (held,) = Traces(MARK, (str(device),)).left_in(tmp_path, 0.0)
    assert held.startswith(f"an NPU is held by process {os.getpid()} ")
    assert Traces(MARK, (str(device),)).left_in(tmp_path) == ()
