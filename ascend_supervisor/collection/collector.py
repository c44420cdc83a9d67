"""Takes files and texts into an archive as long as there is room, and notes what it does."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from ascend_supervisor.collection.archive import Archive, MemberNames, NotTaken, Taken
from ascend_supervisor.collection.disks import Disks, OpenFile
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.untrusted_text import printable

NO_ROOM = "there is no room for it (--size)"


class Collector:
    """``room``: so many bytes are taken at most, before compression."""

    def __init__(self, archive: Archive, disks: Disks, room: int) -> None:
        self.disks = disks
        self.room = room
        self.taken: list[Taken] = []
        self.left_out: list[NotTaken] = []
        self._archive = archive
        self._names = MemberNames()

    def leave_out(self, source: str, why: str) -> None:
        self.left_out.append(NotTaken(printable(source), printable(why)))

    @property
    def owners(self) -> frozenset[int] | None:
        """Whose files and processes those of the job are; None for anybody's."""
        return self.disks.owners

    def add_text(self, name: str, source: str, content: bytes, note: str | None = None) -> None:
        """All of ``content``, or nothing."""
        if len(content) > self.room:
            self.leave_out(source, NO_ROOM)
            return
        name = self._names.free(name)
        self._archive.add(name, content, time.time())
        self._note(Taken(name, printable(source), len(content), note=note))

    def add_file(
        self, name: str, path: Path, most: int | None = None, disks: Disks | None = None
    ) -> int:
        """The end of a file, ``most`` bytes or all; returns how many bytes were taken.

        ``disks``: not those of the job.
        """
        with ExitStack() as open_files:
            try:
                file = open_files.enter_context((disks or self.disks).opened(path))
            except OSError as error:
                self.leave_out(str(path), reason_of(error))
                return 0
            return self.add_open_file(name, file, most)

    def add_open_file(self, name: str, file: OpenFile, most: int | None = None) -> int:
        """The same for a file that was opened; raises OSError if the archive cannot be written."""
        size = min(file.size, self.room, file.size if most is None else most)
        if not size and file.size:
            self.leave_out(str(file.path), NO_ROOM)
            return 0
        name = self._names.free(name)
        pieces = self.disks.end_of(file, size)
        missing = self._archive.add_pieces(name, pieces, size, file.mtime)
        before = file.size - size
        self._note(Taken(name, printable(str(file.path)), size, before, missing))
        return size

    def _note(self, taken: Taken) -> None:
        self.room -= taken.bytes
        self.taken.append(taken)
