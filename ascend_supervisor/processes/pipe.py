"""A pipe whose content is collected in memory, all of it or the end of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import anyio

CHUNK_BYTES = 65536
CHUNKS_AT_ONCE = 16
"""More than a pipe holds; then it is somebody else's turn, however fast the writer is."""


class Pipe:
    """What came through a pipe, or the last ``most`` bytes of it."""

    def __init__(self, read_end: int, write_end: int, most: int | None) -> None:
        self.content = bytearray()
        self.write_end = write_end
        self._read_end = read_end
        self._most = most
        self._received = 0

    @property
    def name(self) -> str:
        """As in /proc/PID/fd of the processes that hold an end."""
        return f"pipe:[{os.fstat(self._read_end).st_ino}]"

    @property
    def is_cut(self) -> bool:
        """Whether the start of it may be missing."""
        return len(self.content) == self._most

    async def keep_reading(self, at_most: float = inf) -> None:
        """Until the end, or until about so many bytes have come: then the writer has to wait."""
        while self.read() and self._received < at_most:
            await anyio.wait_readable(self._read_end)

    def read(self) -> bool:
        """Take what is there now; False if that was the end."""
        try:
            for _ in range(CHUNKS_AT_ONCE):
                chunk = os.read(self._read_end, CHUNK_BYTES)
                if not chunk:
                    return False
                self._take(chunk)
        except BlockingIOError:
            pass
        return True

    def _take(self, chunk: bytes) -> None:
        self._received += len(chunk)
        self.content += chunk
        if self._most is not None:
            del self.content[: -self._most]


@contextmanager
def open_pipe(most: int | None = None) -> Iterator[Pipe]:
    """Both ends are open until the end of the block; raises OSError."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        os.set_blocking(read_end, False)
        yield Pipe(read_end, write_end, most)
    finally:
        os.close(read_end)
        os.close(write_end)
