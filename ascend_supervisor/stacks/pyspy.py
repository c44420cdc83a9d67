"""The Python stacks of a process, as py-spy reads them; py-spy is a process of ours.

py-spy attaches to every thread with ptrace(2), and so pauses the process. If it is killed
meanwhile, the process may stay stopped (py-spy's issues 390 and 587): it is continued afterwards.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.children import Child, Children
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.pipe import Pipe, open_pipe
from ascend_supervisor.stacks.seen import STOPPED, PythonThread
from ascend_supervisor.untrusted_text import printable

PROGRAM = "py-spy"
BESIDE = Path(sys.executable).parent
SECONDS = 5.0
"""How long one call may take; it takes 0.1 s on an idle machine."""
KILLED_SECONDS = 1.0
"""How long a killed py-spy may take to end."""
OUTPUT_BYTES = 4 * 1024 * 1024
ERROR_BYTES = 4096
REASON_CHARACTERS = 200

_DENIED = ("ermission denied", "ermission Denied", "peration not permitted")
_THREADS = msgspec.json.Decoder(tuple[PythonThread, ...])


class PySpyFailed(Exception):
    """The text says how."""


class _Call(Struct, frozen=True):
    """One call of py-spy; ``status`` None: it took too long and was killed."""

    status: int | None
    output: bytes
    errors: str

    def threads(self) -> tuple[PythonThread, ...]:
        """What it has printed; raises PySpyFailed."""
        if self.status is None:
            raise PySpyFailed("it did not end in time, and was killed")
        if self.status != 0:
            raise PySpyFailed(self._reason)
        if len(self.output) >= OUTPUT_BYTES:
            raise PySpyFailed(f"it has printed more than {OUTPUT_BYTES >> 20} MiB")
        try:
            return _THREADS.decode(self.output)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise PySpyFailed(f"its output is not as expected: {_clipped(str(error))}") from error

    @property
    def _reason(self) -> str:
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        text = next((line for line in lines if line.startswith("Error")), "".join(lines[-1:]))
        hint = ""
        if any(word in self.errors for word in _DENIED):
            hint = "; the container needs the capability SYS_PTRACE for it"
        return f"{_clipped(text) or f'it ended with status {self.status}'}{hint}"


def _clipped(text: str) -> str:
    return printable(text, REASON_CHARACTERS)


def installed(environ: Mapping[str, str], beside: Path = BESIDE) -> str | None:
    """Where py-spy is, on PATH or beside this Python. It may block on a file system that hangs."""
    return shutil.which(PROGRAM, path=environ.get("PATH")) or shutil.which(PROGRAM, path=beside)


class PySpy(Struct, frozen=True):
    """``program`` is its path, ``environ`` its environment; a call may take ``seconds``."""

    program: str
    children: Children
    environ: Mapping[str, str]
    seconds: float = SECONDS

    async def paused(self, pid: Pid) -> tuple[PythonThread, ...]:
        """The stacks of a process, which is paused meanwhile; raises PySpyFailed.

        It is not left stopped, even if this is cancelled. It must not be stopped already, and its
        main thread must live. None of its threads may be in an uninterruptible sleep, because
        ptrace would wait for that.
        """
        try:
            run = await self._run(pid.number)
        finally:
            _go_on(pid)
        return run.threads()

    async def unpaused(self, pid: Pid, thread: int | None = None) -> tuple[PythonThread, ...]:
        """The same of a process that goes on: what changes meanwhile may be read wrong.

        ``thread`` is one of its threads that lives, if its main thread does not.
        """
        run = await self._run(thread or pid.number, "--nonblocking")
        return run.threads()

    async def _run(self, number: int, *options: str) -> _Call:
        words = (self.program, "dump", "--json", *options, "--pid", str(number))
        try:
            with open_pipe(OUTPUT_BYTES) as output, open_pipe(ERROR_BYTES) as errors:
                child = self.children.spawn(
                    words,
                    environ=self.environ,
                    cwd="/",
                    output=output.write_end,
                    errors=errors.write_end,
                )
                status = await _ended(child, self.seconds, output, errors)
                return _Call(status, bytes(output.content), _text(errors))
        except OSError as error:
            return _Call(1, b"", f"it cannot be started: {error.strerror or error}")


def _go_on(pid: Pid) -> None:
    """Withdraw a stop, also one that the process has not obeyed yet; others do not notice it."""
    with suppress(OSError):
        pid.send(signal.SIGCONT)


def is_stopped(pid: Pid) -> bool:
    """Whether a signal has stopped it; False if that cannot be seen."""
    with suppress(OSError):
        found = proc.stat(pid.number)
        return found is not None and found.start == pid.start and found.state in STOPPED
    return False


async def _ended(child: Child, seconds: float, *pipes: Pipe) -> int | None:
    """Its return code, when all that it has written was read; None if it was killed here."""
    status = None
    try:
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:
                for pipe in pipes:
                    tasks.start_soon(pipe.keep_reading)
                status = await child.ended()
                tasks.cancel_scope.cancel()
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
            with anyio.move_on_after(KILLED_SECONDS, shield=True):
                await child.ended()
    for pipe in pipes:
        pipe.read()
    return status


def _text(pipe: Pipe) -> str:
    return pipe.content.decode(errors="backslashreplace")
