"""What a program says within a time, as a process of ours beside others; then it is killed.

For a supervisor: Children own every waitpid. ``program_output`` is for a program that has none.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress

import anyio
from msgspec import Struct

from ascend_supervisor.processes.children import Child, Children
from ascend_supervisor.processes.pipe import Pipe, open_pipe
from ascend_supervisor.processes.process_groups import ProcessGroups

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
