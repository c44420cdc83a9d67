"""An archive for a ticket: what is taken as long as there is room, its names and its manifest.

It is a gzipped tar that is written as a stream: nothing is kept in memory but one piece.
"""

from __future__ import annotations

import re
import tarfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.collection.disks import Disks, OpenFile
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.untrusted_text import printable

LEVEL = 1
"""Of zlib: lines of a training take less than half of the time of the usual 6, and a fifth more."""
MODE = 0o600
_GZIP = 31
"""The window of zlib that makes it write gzip."""
_ZEROS = bytes(64 * 1024)


class Archive:
    """Members are below the directory ``root``; ``put`` takes the bytes and may raise OSError."""

    def __init__(self, put: Callable[[bytes], object], root: str) -> None:
        self._put = put
        self._root = root
        self._gzip = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)

    def add(self, name: str, content: bytes, mtime: float) -> None:
        """Add a file with this content; ``name`` is a safe relative path (see member_names)."""
        self.add_pieces(name, [content], len(content), mtime)

    def add_pieces(self, name: str, pieces: Iterable[bytes], size: int, mtime: float) -> int:
        """Add a file of exactly ``size`` bytes; returns how many were missing, and are zeros.

        A tar archive says the size before the content. What follows after it is left out.
        """
        self._begin(name, size, mtime)
        left = size
        for piece in pieces:
            part = piece[:left]
            self._write(part)
            left -= len(part)
            if not left:
                break
        self._fill(left + -size % tarfile.BLOCKSIZE)
        return left

    def close(self) -> None:
        """Write the end of the archive; without it, readers call it torn."""
        self._fill(2 * tarfile.BLOCKSIZE)
        self._out(self._gzip.flush())

    def _begin(self, name: str, size: int, mtime: float) -> None:
        member = tarfile.TarInfo(f"{self._root}/{name}")
        member.size, member.mtime, member.mode = size, int(mtime), MODE
        self._write(member.tobuf(tarfile.PAX_FORMAT, "utf-8", "backslashreplace"))

    def _fill(self, size: int) -> None:
        for _ in range(size // len(_ZEROS)):
            self._write(_ZEROS)
        self._write(_ZEROS[: size % len(_ZEROS)])

    def _write(self, content: bytes) -> None:
        self._out(self._gzip.compress(content))

    def _out(self, compressed: bytes) -> None:
        if compressed:
            self._put(compressed)


MOST_CHARACTERS = 180
_STRANGE = re.compile(r"[^A-Za-z0-9._+=@,~-]")


def member_name(*parts: str) -> str:
    """A relative path; every part is one component without a strange character.

    Two files may get the same name: see MemberNames.
    """
    return "/".join(map(_component, parts))


def _component(part: str) -> str:
    cut = _STRANGE.sub("_", part)[-MOST_CHARACTERS:]
    return cut.replace(".", "_", 1) if not cut.strip(".") and cut else cut or "_"


class MemberNames:
    """Gives every name once: the second ``logs/a.txt`` becomes ``logs/2/a.txt``."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def free(self, name: str) -> str:
        found = next(one for one in _candidates(name) if one.casefold() not in self._given)
        self._given.add(found.casefold())
        return found


def _candidates(name: str) -> Iterator[str]:
    yield name
    folder, slash, file = name.rpartition("/")
    number = 2
    while True:
        yield f"{folder}{slash}{number}/{file}"
        number += 1


MANIFEST_NAME = "MANIFEST.json"
NOT_MASKED = (
    "What ranks, CANN and other programs have written is here as it was: it may hold secrets. "
    "Environments and command lines that were read for this archive are masked by their names and "
    "forms; look through them, too, before you give the archive away."
)


class Taken(Struct, frozen=True):
    """A member ``name``; of a file that was cut, its last ``bytes`` are there.

    ``bytes_before`` is what was left out before them. ``bytes_missing`` could not be read any more
    (the file shrank, or its disk did not answer): so many zeros are at the end.
    """

    name: str
    source: str
    bytes: int
    bytes_before: int = 0
    bytes_missing: int = 0
    note: str | None = None


class NotTaken(Struct, frozen=True):
    """What is not there: a path, a program or a subject; ``why`` is a sentence."""

    source: str
    why: str


class OtherServer(Struct, frozen=True):
    """Another server of the job, and the ``command`` that makes its archive there."""

    name: str
    command: str


class Manifest(Struct, frozen=True):
    """The last member of the archive. ``made_at`` is RFC 3339, UTC; sizes are in bytes.

    ``size_limit`` is that of --size, ``bytes`` what was taken, both before compression. ``servers``
    are the others of the job that are known here.
    """

    made_at: str
    made_by: str
    host: str
    user: int
    job_id: str | None
    pod: str | None
    size_limit: int
    bytes: int
    secrets: str
    taken: tuple[Taken, ...]
    left_out: tuple[NotTaken, ...]
    servers: tuple[OtherServer, ...]
    format: int = 1


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
