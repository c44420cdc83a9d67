"""A gzipped tar archive that is written as a stream; nothing is kept in memory but one piece."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Iterable

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
