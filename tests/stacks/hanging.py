"""Programs of ranks that hang, each in a way of its own, after their first word ``up``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio

from ascend_supervisor.processes import proc
from ascend_supervisor.stacks.kernel_side import system_call
from tests.running import DEADLINE_SECONDS, END_MAIN_THREAD

UP = "import os, threading, time; os.write(1, b'up\\n')\n"
SLEEPS = UP + "time.sleep(600)"
LOCKED = UP + "lock = threading.Lock(); lock.acquire(); lock.acquire()"
READS = UP + "read_end, write_end = os.pipe(); os.read(read_end, 1)"
LOOPS = UP + f"end = time.monotonic() + {DEADLINE_SECONDS}\nwhile time.monotonic() < end: pass"
STOPPED = UP + "import signal; os.kill(os.getpid(), signal.SIGSTOP); time.sleep(600)"
STUCK = (
    UP + "import ctypes; clone = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]\n"
    "ctypes.PyDLL(None).syscall(clone, 0x4111, 0, 0, 0, 0); time.sleep(600)"
)
"""In state D: the parent of vfork(2) (CLONE_VFORK, CLONE_VM, SIGCHLD) waits for its child."""

HEADLESS = (
    UP + "def all_reduce(): time.sleep(600)\n"
    f"threading.Thread(target=all_reduce).start()\n{END_MAIN_THREAD}"
)
"""Its main thread has ended, and another one goes on."""


def state(pid: int) -> str:
    found = proc.stat(pid)
    assert found is not None
    return found.state


def main_thread_has_ended(pid: int) -> bool:
    """And its only other thread sleeps."""
    stats = [path.read_text() for path in Path("/proc", str(pid)).glob("task/*/stat")]
    return sorted(stat.rpartition(")")[2].split()[0] for stat in stats) == ["S", "Z"]


def call(pid: int) -> str:
    return system_call(Path(f"/proc/{pid}/syscall").read_text(), os.uname().machine)


def wchan(pid: int) -> str:
    """The kernel's function that it waits in; ``0`` if it runs, or has just begun to wait."""
    return Path(f"/proc/{pid}/wchan").read_text()


async def until(holds: Callable[[], object]) -> None:
    """Look, often, until something holds that makes no event."""
    with anyio.fail_after(DEADLINE_SECONDS):
        while not holds():
            await anyio.sleep(0.005)
