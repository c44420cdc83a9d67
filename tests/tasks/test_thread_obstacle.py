"""Why no thread can be started: found out in processes of which each lacks something else."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys

import pytest

from ascend_supervisor.tasks.threads import LIMITS, thread_obstacle
from tests.faults.facilities import cgroup, inside
from tests.running import FORBIDS

TRIES = """
import resource, sys
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import start_thread
from ascend_supervisor.tasks.threads import thread_obstacle
import ctypes, threading
if sys.argv[1:]:
    name, number = sys.argv[1], int(sys.argv[2])
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    used = int(lines[name].split()[0]) << 10
    resource.setrlimit(number, (used + (4 << 20), used + (4 << 20)))
never = threading.Event()
try:
    while True:
        start_thread(never.wait, "a thread")
except NoThread as error:
    print(error, flush=True)
    import os
    os._exit(0)
"""


NARROW = """
import anyio, ctypes, os, resource, signal, sys
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call, start_thread

field, limit, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def bound(pages):
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    size = (int(lines[field].split()[0]) << 10) + (8 << 20) + pages * 4096
    resource.setrlimit(limit, (size, size))

async def in_loop(pages):
    bound(pages)
    assert await Call(lambda: 5).result() == 5

def there(pages):
    bound(pages)
    start_thread(lambda: 5, "a thread").join()

def child(pages):
    signal.alarm(60)
    try:
        there(pages) if way == "start" else anyio.run(in_loop, pages)
    except (NoThread, MemoryError):
        os._exit(1)
    os._exit(0)

resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
for arenas in 0, 1, 2:
    for pages in range(9):
        pid = os.fork() or child((arenas << 14) + pages)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(status, flush=True)
        assert status in (0, 1), (arenas, pages)
"""
"""Leaves room for a stack of 8 MiB, for what malloc takes at most, and for some pages more."""


def said(*before: str, words: tuple[str, ...] = ()) -> str:
    ended = subprocess.run(
        (*before, sys.executable, "-c", TRIES, *words),
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return ended.stdout.strip()


@pytest.mark.parametrize(("name", "field"), [("ulimit -v", "VmSize"), ("ulimit -d", "VmData")])
def test_a_limit_of_memory_is_told_as_such(name, field):
    sentence = said(words=(field, str(LIMITS[name])))
    assert sentence.startswith("there is no memory for the stack of another thread (")
    assert f": raise {name} (" in sentence
    assert "pids" not in sentence


@pytest.mark.parametrize("way", ["start", "call"])
@pytest.mark.parametrize(("name", "field"), [("ulimit -v", "VmSize"), ("ulimit -d", "VmData")])
def test_a_thread_that_has_its_stack_and_nothing_more_is_not_waited_for(name, field, way):
    """It fails before it has said that it runs; threading.Thread.start waits for that."""
    ended = subprocess.run(
        (sys.executable, "-c", NARROW, field, str(LIMITS[name]), way),
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert set(ended.stdout.split()) <= {"0", "1"}
    assert len(ended.stdout.split()) == 27


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES + 1000])
def test_a_runtime_that_forbids_clone3_is_told_as_such(number):
    """Only EPERM is an old runtime; an error that nobody knows is told as a lack of room."""
    before = (sys.executable, "-c", FORBIDS, str(number), "435", "--")
    sentence = said(*before)
    if number == errno.EPERM:
        assert sentence.startswith("another thread is forbidden (Operation not permitted): ")
        assert "Docker 20.10.10 or later" in sentence
    else:
        assert sentence.startswith("the machine has no room for another thread: ")


def test_a_limit_of_pids_is_told_as_such():
    with cgroup("pids", max="20") as group:
        sentence = said(*inside(group))
    assert sentence.startswith("the machine has no room for another thread: raise the container's")


def test_a_lack_that_is_over_is_told_without_a_guess():
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    sentence = thread_obstacle()
    assert sentence.startswith("there was no room for another thread at that moment: raise ")
    assert "or give the container more memory" in sentence
