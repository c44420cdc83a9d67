"""What a helper program says within a time, as our child beside the ranks; then it is killed.

For a supervisor: Children own every waitpid. ``program_output`` is for a program that has none.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from math import inf

import anyio
from msgspec import Struct

from ascend_supervisor.processes.children import Child, Children
from ascend_supervisor.processes.process_groups import ProcessGroups

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


KILLED_SECONDS = 1.0
"""How long a killed program may take to end; one that is stuck in a driver is left."""


class Question(Struct, frozen=True):
    """A program and its arguments, and how it is started; it may take ``seconds``.

    The last ``most`` bytes of its output are kept, and as many of its errors as ``most_errors``
    says; None: both in one.
    """

    words: Sequence[str]
    environ: Mapping[str, str]
    seconds: float
    most: int
    most_errors: int | None = None
    cwd: str = "/"


class ProgramSaid(Struct, frozen=True):
    """``status`` is that of Popen's returncode; None: it took too long and was killed."""

    status: int | None
    output: bytes
    errors: bytes = b""


async def answer_to(asked: Question, children: Children) -> ProgramSaid:
    """Nothing of its process group is left, also if this is cancelled; raises OSError.

    All that it has written is read, so that it never waits for us.
    """
    with ExitStack() as pipes:
        output = pipes.enter_context(open_pipe(asked.most))
        errors = None
        if asked.most_errors is not None:
            errors = pipes.enter_context(open_pipe(asked.most_errors))
        child = children.spawn(
            asked.words,
            environ=asked.environ,
            cwd=asked.cwd,
            output=output.write_end,
            errors=None if errors is None else errors.write_end,
        )
        both = [pipe for pipe in (output, errors) if pipe is not None]
        status = await _ended(child, asked.seconds, both)
        return ProgramSaid(
            status, bytes(output.content), b"" if errors is None else bytes(errors.content)
        )


async def _ended(child: Child, seconds: float, pipes: Sequence[Pipe]) -> int | None:
    """Its return code, when all that it has written was read; None if it was killed here."""
    try:
        status = await status_within(child, seconds, pipes)
    finally:
        await end_group(child)
    for pipe in pipes:
        pipe.read()
    return status


async def status_within(child: Child, seconds: float, pipes: Sequence[Pipe]) -> int | None:
    """The return code of ``child``, None if it still runs then; ``pipes`` are read meanwhile."""
    status = None
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:
            for pipe in pipes:
                tasks.start_soon(pipe.keep_reading)
            status = await child.ended()
            tasks.cancel_scope.cancel()
    return status


async def end_group(child: Child, seconds: float = KILLED_SECONDS) -> None:
    """Kill it and the rest of its process group; wait so many seconds for its end."""
    if child.returncode is None:
        with suppress(OSError):  # it runs as another user
            os.killpg(child.pid, signal.SIGKILL)
        with anyio.move_on_after(seconds, shield=True):
            await child.ended()
    rest = ProcessGroups()
    rest.add_left_behind(child.pid)
    rest.send(signal.SIGKILL)
