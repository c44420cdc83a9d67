"""The ends of the logs in a tar archive, which is read as a stream and never unpacked.

Whoever made it is not trusted: there is a limit to its bytes, and to those of each header.
"""

from __future__ import annotations

import errno
import gzip
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, cast

END_BYTES = 256 * 1024
"""Of each log: as much as a supervisor reads of CANN's logs, and more than of a rank's output."""
MOST_BYTES = 8 * 1024**3
"""Of what is in an archive. ``collect`` takes 2 GiB, unless it is told otherwise."""
HEADER_BYTES = 1024 * 1024
"""Between two files: names, and what tar knows besides."""
BROKEN = (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, ArithmeticError, LookupError)
"""What reading an archive may raise that holds anything."""
FIRST_BYTES = 2048
"""Of a log: as much as tells whose it is."""
_PIECE = 1024 * 1024
_GZIP = b"\x1f\x8b"
_TAR, _TAR_AT = b"ustar", 257
HEAD_BYTES = 512
"""Of a file: they tell whether it is an archive."""
_LOG = re.compile(r"\.(?:log|txt|out|err)(?:\.(?!gz$|xz$|zst$|bz2$)[\w.-]{1,40})?$", re.ASCII)
_NO_LOG = frozenset({"report.txt"})
_NO_LOGS = frozenset({"supervisor", "stacks", "machine", "versions", "environment_check"})
"""Other directories that ``collect`` makes, below the one of the archive."""


def is_archive(head: bytes) -> bool:
    """Whether a file with this ``head`` is one, or is compressed."""
    return head.startswith(_GZIP) or head[_TAR_AT:].startswith(_TAR)


def is_log(name: str) -> bool:
    """Whether a file with this name is a log, as far as names tell; not if it is compressed."""
    return _LOG.search(name) is not None


def archived_logs(
    file: IO[bytes], head: bytes, most: int = MOST_BYTES
) -> Iterator[tuple[str, bytes, bytes]]:
    """Name, head and end of each log, in the order of the archive; raises one of ``BROKEN``.

    At most so many bytes are read of what is in it.
    """
    plain = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if head.startswith(_GZIP) else file
    source = _Bounded(plain, most)
    with tarfile.open(fileobj=source, mode="r|", bufsize=64 * 1024) as archive:  # type: ignore[call-overload]
        while (member := archive.next()) is not None:
            archive.members = []  # it would keep all of them
            if member.issparse():
                raise tarfile.ReadError("it holds a file with holes")
            if member.issym() or member.islnk():
                continue
            source.expect_content()
            content = archive.extractfile(member)
            if content is not None:  # all of it is read: tar would skip it without a limit
                first = content.read(FIRST_BYTES)
                end = (first + end_of_stream(content))[-END_BYTES:]
                if member.isreg() and _is_log_in_archive(member.name):
                    yield member.name, first, end
            source.expect_header()


def end_of_stream(file: IO[bytes]) -> bytes:
    """The last END_BYTES; nothing else is kept."""
    end = bytearray()
    while piece := file.read(_PIECE):
        end += piece[-END_BYTES:]
        if len(end) > _PIECE:
            del end[:-END_BYTES]
    return bytes(end[-END_BYTES:])


def _is_log_in_archive(name: str) -> bool:
    path = PurePosixPath(name)
    return is_log(path.name) and path.name not in _NO_LOG and not _NO_LOGS.intersection(path.parts)


class _Bounded:
    """Reads ``most`` bytes of ``file`` in all, and of them a header at first; else OSError."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file = file
        self._most = most
        self._read = 0
        self._limit = min(HEADER_BYTES, most)

    def read(self, size: int) -> bytes:
        piece = self._file.read(size)
        self._read += len(piece)
        if self._read > self._most:
            raise OSError(errno.EFBIG, f"it holds more than {self._most} bytes")
        if self._read > self._limit:
            raise OSError(errno.EFBIG, f"it has a header of more than {HEADER_BYTES} bytes")
        return piece

    def expect_content(self) -> None:
        self._limit = self._most

    def expect_header(self) -> None:
        self._limit = self._read + HEADER_BYTES
