"""What a job has left: processes, shared memory, sockets, NPUs that are held."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.probes.devices import holders
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import open_files
from ascend_supervisor.processes.pid import Pid

SHARED_MEMORY = "/dev/shm/"  # noqa: S108  (it is only looked at)
PATIENCE_SECONDS = 10.0
"""The kernel, and PyTorch's own cleaner of shared memory, need a moment after the last process."""
LOOK_AGAIN_SECONDS = 0.1


class Traces:
    """Of a job whose processes have the variable ``mark``: others make files there, too."""

    def __init__(self, mark: str, npus: tuple[str, ...]) -> None:
        self._mark = os.fsencode(mark)
        self._npus = frozenset(npus)
        self._shared: set[str] = set()

    def look(self) -> None:
        """Note the shared memory that its processes have now."""
        for pid in self._processes():
            self._shared.update(_shared_by(pid))

    def left_in(self, directory: Path, seconds: float = PATIENCE_SECONDS) -> tuple[str, ...]:
        """What is still there, for people; waits until nothing is, but no longer than that."""
        end = time.monotonic() + seconds
        while (found := tuple(self._found(directory))) and time.monotonic() < end:
            time.sleep(LOOK_AGAIN_SECONDS)
        return found

    def end(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Kill its processes that run, and wait until none does, but no longer than that."""
        end = time.monotonic() + seconds
        while (found := self._living()) and time.monotonic() < end:
            for pid in found:
                pid.send(signal.SIGKILL)
            time.sleep(LOOK_AGAIN_SECONDS)

    def _living(self) -> list[Pid]:
        found = filter(None, map(Pid.of, self._processes()))
        return [pid for pid in found if pid.lives]

    def _processes(self) -> list[int]:
        return proc.started_with(self._mark, list(proc.pids()))

    def _found(self, directory: Path) -> Iterator[str]:
        for pid in self._living():
            yield f"process {proc.description(pid.number)}"
        yield from (f"shared memory {one}" for one in sorted(self._shared) if Path(one).exists())
        yield from (f"socket {one}" for one in directory.rglob("*") if one.is_socket())
        for held in holders(self._npus):
            yield f"an NPU is held by process {held}"


def _shared_by(pid: int) -> Iterator[str]:
    """The files of shared memory that a process has open, or mapped (proc(5), maps)."""
    with suppress(OSError):
        for line in proc.read(f"/proc/{pid}/maps").decode(errors="replace").splitlines():
            yield from (name for name in line.split(None, 5)[5:] if _is_shared(name))
    yield from filter(_is_shared, open_files(pid))


def _is_shared(name: str) -> bool:
    return name.startswith(SHARED_MEMORY) and not name.endswith(" (deleted)")
