"""The files that show the job's status to others: the state file and the termination log.

The termination log is the container's own, and kubelet reads it. Of the starts in it the last one
that ran a job counts: it empties the file and holds it, so that a second start that is refused
leaves it alone. Everything here but the fold may block on the disk.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import anyio

from ascend_supervisor import __version__
from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.supervisor import Diagnostic, ExitLingering, SupervisorExited
from ascend_supervisor.files.regular_file import (
    close_quietly,
    open_regular_file,
    open_to_write,
    reason_of,
    remove_remnants,
    write_atomically,
)
from ascend_supervisor.files.removals import Removals
from ascend_supervisor.files.reserved_descriptor import Reserve
from ascend_supervisor.files.writer_thread import LatestFile
from ascend_supervisor.imports import mark_refusal, tells_refusal
from ascend_supervisor.job_files import Place
from ascend_supervisor.reporters.state_file import Status, as_json, status_file
from ascend_supervisor.reporters.stdout import Outlets

USUAL = Path("/dev/termination-log")
MODE = 0o644
MOST_BYTES = 4096
"""Kubernetes reads no more than this."""


def place_of(explicit: Path | None) -> Path | None:
    """Where it is; None if there is none."""
    return explicit or (USUAL if os.path.lexists(USUAL) else None)


def termination_log(put: Callable[[bytes], None]) -> Report:
    """A report that passes the root cause of a failure to ``put``, and nothing on success."""

    def report(event: Event) -> None:
        if isinstance(event, (ExitLingering, SupervisorExited)) and event.exit_code:
            put(text_of(event.root_cause or event.msg))

    return report


def text_of(cause: str) -> bytes:
    """``cause`` as the file holds it."""
    text = f"{cause}\n".encode(errors="backslashreplace")
    return text[:MOST_BYTES].decode(errors="ignore").encode()


def hold(path: Path) -> None:
    """Keep the file until this process ends, so that no start that is refused writes to it.

    What an earlier start has told is removed: it would be taken for the end of this one. Best
    effort: what cannot be locked is not held.
    """
    with suppress(OSError):
        descriptor = open_regular_file(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another job runs here
            close_quietly(descriptor)
            return
        except OSError:
            close_quietly(descriptor)
        if path.stat().st_size:
            write_termination_log(path, b"")


def write_termination_log(path: Path, text: bytes) -> None:
    """Overwrite in place: the file is a mount, it cannot be replaced. Raises OSError."""
    descriptor, _ = open_to_write(path, 0, MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
        if _is_regular(descriptor):  # a pipe or a device has no length
            file.truncate()


def write_refusal(path: Path, text: bytes) -> None:
    """Write why a start was refused, unless somebody holds the file or has written to it.

    What it says of an earlier refusal is replaced, where the file system lets us see that. Raises
    OSError.
    """
    descriptor, _ = open_to_write(path, 0, MODE)
    with os.fdopen(descriptor, "wb") as file:
        if _is_regular(descriptor):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            except OSError:  # no locks here: the size must do
                pass
            if os.fstat(descriptor).st_size and not tells_refusal(descriptor):
                return
            file.truncate()
        file.write(text)
        file.flush()
        mark_refusal(descriptor)


def _is_regular(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


FileContent = TypeVar("FileContent")

STATE_MODE = 0o644
LOOK_SECONDS = 10.0
"""How often to check that our files still exist: probes read the state file."""


def first_status(place: Place, start_time: int | None) -> Status:
    """The state before the first event; ``start_time`` is ours, in clock ticks."""
    return Status(
        job_id=place.job_id,
        pod=place.pod,
        pid=os.getpid(),
        start_time=start_time,
        version=__version__,
        schedule_count=place.start.schedule,
        start_count=place.start.process,
    )


class Records:
    """``report`` updates both files; a failed write is reported, and stops nothing.

    ``initial`` is the first state, ``now`` the time of the event that is reported. Before ``begin``
    nothing is written: another supervisor may use the files. ``reserve`` holds a descriptor, so
    that the end is written even if no other descriptor is left.
    """

    def __init__(
        self,
        place: Place,
        initial: Status,
        termination: Path | None,
        outlets: Outlets,
        reserve: Reserve,
        now: Callable[[], str],
    ) -> None:
        self._outlets = outlets
        self._loop = asyncio.get_running_loop()
        self._place = place
        self._initial = initial
        self._termination = termination
        self._files: list[LatestFile[Any]] = []
        self._reports: list[Report] = []
        self._begun = anyio.Event()
        self._is_anothers = False
        self._reserve = reserve
        self._now = now

    def begin(self) -> None:
        """Write the first state, and from now on the state after every event."""
        place = self._place
        state = Path(place.state_file)
        state_file = self._file(_state_writer(state), "the state file", state)
        self._files.append(state_file)
        self._state_file = state_file
        self._begun.set()
        self._reports.append(status_file(state_file.put, self._initial, self._now))
        self._begin_termination_log(write_termination_log)

    def leave_alone(self) -> None:
        """Never write: another supervisor runs in this container, whose files these are."""
        self._is_anothers = True

    def end(self, event: SupervisorExited, *, is_refused: bool) -> None:
        """Record the end; that of a start that was refused, though nothing was begun."""
        if is_refused and not self._begun.is_set() and not self._is_anothers:
            self._begin_termination_log(write_refusal)
        self.report(event)

    def report(self, event: Event) -> None:
        """Record ``event``; events after the last one change nothing."""
        for report in self._reports:
            report(event)

    async def keep(self, others: Removals, seconds: float = LOOK_SECONDS) -> NoReturn:
        """Write the state file again, within ``seconds``, if it was removed.

        ``others`` are looked for at the same time.
        """

        def is_there() -> bool:
            others.look()
            return os.path.lexists(self._place.state_file)

        await self._begun.wait()
        await self._state_file.keep(is_there, seconds)

    async def finish(self) -> None:
        """Wait until both are written or have failed."""
        for file in self._files:
            await file.finish()
        await anyio.lowlevel.checkpoint()  # let a thread's report arrive

    def _begin_termination_log(self, write: Callable[[Path, bytes], None]) -> None:
        path = place_of(self._termination)
        if path is None:
            return

        def write_or_hold(text: bytes) -> None:
            if text:
                write(path, text)
            else:
                hold(path)

        file = self._file(write_or_hold, "the termination log", path)
        self._files.append(file)
        self._reports.append(termination_log(file.put))
        if self._begun.is_set():
            file.put(b"")

    def _file(
        self, write: Callable[[FileContent], None], name: str, path: Path
    ) -> LatestFile[FileContent]:
        def failed(error: OSError) -> None:
            text = f"{path} cannot be written: {reason_of(error)}"
            self._outlets.complain(f"{name}: {text}")  # the last write comes after the last event
            self._loop.call_soon_threadsafe(self._outlets.report, Diagnostic(name, text, None))

        def ensure(content: FileContent) -> None:
            self._reserve.ensure(partial(write, content))

        return LatestFile(ensure, failed, name)


def _state_writer(path: Path) -> Callable[[Status], None]:
    """The first call also removes temporary files of an earlier start that was killed."""
    rest = [path]

    def write(status: Status) -> None:
        while rest:
            remove_remnants(rest.pop())
        write_atomically(path, as_json(status), STATE_MODE)

    return write
