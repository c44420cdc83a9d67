"""Writes the files that show the job's status: the state file and the termination log.

Room is kept on the disk, so that the last status can be written where it is full.
"""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import anyio

from ascend_supervisor import __version__
from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.supervisor import Diagnostic, SupervisorExited
from ascend_supervisor.files.directories import DIRECTORY_MODE, make_directories
from ascend_supervisor.files.regular_file import (
    close_quietly,
    move_to,
    reason_of,
    remove_remnants,
    write_atomically,
)
from ascend_supervisor.files.reserved_descriptor import Reserve
from ascend_supervisor.files.watch import Removals
from ascend_supervisor.files.writer_thread import LatestFile
from ascend_supervisor.job_files import Place
from ascend_supervisor.reporters.job_status import SoFar, status_file
from ascend_supervisor.reporters.status_document import Status, as_json
from ascend_supervisor.reporters.stdout import Outlets
from ascend_supervisor.reporters.termination_log import (
    hold,
    place_of,
    termination_log,
    write_refusal,
    write_termination_log,
)

FileContent = TypeVar("FileContent")

MODE = 0o644
LOOK_SECONDS = 10.0
"""How often to check that our files still exist: probes read the state file."""


def first_status(place: Place, start_time: int | None, no_progress: tuple[int, ...] = ()) -> Status:
    """The state before the first event; ``start_time`` is ours, in clock ticks."""
    return Status(
        job_id=place.job_id,
        pod=place.pod,
        pid=os.getpid(),
        start_time=start_time,
        version=__version__,
        schedule_count=place.start.schedule,
        start_count=place.start.process,
        no_progress=no_progress,
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
        so_far: SoFar,
        termination: Path | None,
        outlets: Outlets,
        reserve: Reserve,
        others: Removals,
    ) -> None:
        self._outlets = outlets
        self._loop = asyncio.get_running_loop()
        self._place = place
        self._so_far = so_far
        self._termination = termination
        self._files: list[LatestFile[Any]] = []
        self._reports: list[Report] = []
        self._begun = anyio.Event()
        self._is_anothers = False
        self._reserve = reserve
        self._others = others

    def begin(self) -> None:
        """Write the first state, and from now on the state after every event."""
        state = Path(self._place.state_file)
        self._state_file = self._file(_keeping_room(state), "the state file", state)
        self._begun.set()
        self._reports.append(status_file(self._state_file.put, self._so_far))
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

    async def keep(self, seconds: float = LOOK_SECONDS) -> NoReturn:
        """Write the state file again, within ``seconds``, if it was removed.

        The ``others`` are looked for at the same time.
        """

        def is_there() -> bool:
            self._others.look()
            return os.path.lexists(self._place.state_file)

        await self._begun.wait()
        await self._state_file.keep(is_there, seconds)

    async def finish(self) -> None:
        """Wait until all are written or have failed."""
        for file in self._files:
            await file.finish()
        await anyio.lowlevel.checkpoint()  # let a thread's report arrive

    def replaced(
        self,
        path: Path,
        name: str,
        text_of: Callable[[FileContent], bytes],
        directory_mode: int = DIRECTORY_MODE,
    ) -> LatestFile[FileContent]:
        """One more file, replaced atomically by what is put; to be called after ``begin``.

        Its directory is made with ``directory_mode`` if it is missing.
        """
        files_of = partial(_only, path.name, text_of)
        return self._file(_replacing_all(path.parent, files_of, directory_mode), name, path)

    def all_replaced(
        self,
        directory: Path,
        name: str,
        files_of: Callable[[FileContent], Mapping[str, bytes]],
    ) -> LatestFile[FileContent]:
        """The same with several files, each by its name in ``directory``."""
        return self._file(_replacing_all(directory, files_of), name, directory)

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

        file = LatestFile(ensure, failed, name)
        self._files.append(file)
        return file


def _keeping_room(path: Path) -> Callable[[Status], None]:
    """Writes the state file; the last state also where others have filled the disk meanwhile."""
    room = KeptRoom(path)
    replace = _replacing_all(path.parent, partial(_only, path.name, bytes))

    def write(status: Status) -> None:
        data, is_last = as_json(status), status.phase == "ended"
        try:
            replace(data)
        except OSError as error:
            if not (is_last and is_full(error)):
                raise
            room.write(data, MODE)
        if is_last:
            room.give_up()
        else:
            room.keep(len(data))

    return write


def _only(
    name: str, text_of: Callable[[FileContent], bytes], content: FileContent
) -> dict[str, bytes]:
    return {name: text_of(content)}


def _replacing_all(
    directory: Path,
    files_of: Callable[[FileContent], Mapping[str, bytes]],
    directory_mode: int = DIRECTORY_MODE,
) -> Callable[[FileContent], None]:
    """The first call also removes temporary files of an earlier start that was killed."""
    known: set[str] = set()

    def write(content: FileContent) -> None:
        for name, data in files_of(content).items():
            if name not in known:
                make_directories(directory, mode=directory_mode)
                remove_remnants(directory / name)
                known.add(name)
            write_atomically(directory / name, data, MODE)

    return write


ROOM_BYTES = 64 * 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Whether the disk, or the share of it that we may use, has no room."""
    return error.errno in _FULL


class KeptRoom:
    """Room for ``path``, once ``keep`` has found it.

    A writer that is killed leaves a file that ``remove_remnants`` removes. No method is called from
    two threads at once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Path | None = None
        self._bytes = 0

    def keep(self, size: int) -> None:
        """Take room for twice ``size`` bytes, and ROOM_BYTES at least, if there is as much.

        A later call tries again, and takes more for what has grown.
        """
        if 2 * size <= self._bytes:
            return
        with suppress(OSError):
            descriptor = self._opened()
            try:
                room = max(ROOM_BYTES, 4 * size)
                os.posix_fallocate(descriptor, 0, room)
                self._bytes = room
            finally:
                close_quietly(descriptor)
                if not self._bytes:
                    self.give_up()

    def _opened(self) -> int:
        if self._file is not None:
            return os.open(self._file, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        prefix = f".{self._path.name}."
        descriptor, name = tempfile.mkstemp(prefix=prefix, dir=self._path.parent)
        self._file = Path(name)
        return descriptor

    def write(self, data: bytes, mode: int) -> None:
        """Replace the content of ``path``; the room is used up then. Raises OSError without it."""
        if self._file is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with os.fdopen(
            self._opened(), "wb"
        ) as file:  # truncated only afterwards: it would lose blocks
            with suppress(OSError):
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.truncate()
        move_to(self._file, self._path)
        self._file = None

    def give_up(self) -> None:
        """Leave the room to others."""
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink()
            self._file, self._bytes = None, 0
