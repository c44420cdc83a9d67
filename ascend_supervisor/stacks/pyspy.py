"""The Python stacks of a process, as py-spy reads them; py-spy is a process of ours.

py-spy attaches to every thread with ptrace(2), and so pauses the process. If it is killed
meanwhile, the process may stay stopped (py-spy's issues 390 and 587): it is continued afterwards.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.helper_program import ProgramSaid, Question, answer_to
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.stacks.seen import STOPPED, PythonThread
from ascend_supervisor.untrusted_text import printable

PROGRAM = "py-spy"
BESIDE = Path(sys.executable).parent
SECONDS = 5.0
"""How long one call may take; it takes 0.1 s on an idle machine."""
OUTPUT_BYTES = 4 * 1024 * 1024
ERROR_BYTES = 4096
REASON_CHARACTERS = 200

_DENIED = ("ermission denied", "ermission Denied", "peration not permitted")
_THREADS = msgspec.json.Decoder(tuple[PythonThread, ...])


class PySpyFailed(Exception):
    """The text says how."""


def _threads(call: ProgramSaid) -> tuple[PythonThread, ...]:
    """What it has printed; raises PySpyFailed."""
    if call.status is None:
        raise PySpyFailed("it did not end in time, and was killed")
    if call.status != 0:
        raise PySpyFailed(_reason(call.status, call.errors.decode(errors="backslashreplace")))
    if len(call.output) >= OUTPUT_BYTES:
        raise PySpyFailed(f"it has printed more than {OUTPUT_BYTES >> 20} MiB")
    try:
        return _THREADS.decode(call.output)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PySpyFailed(f"its output is not as expected: {_clipped(str(error))}") from error


def _reason(status: int, errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    text = next((line for line in lines if line.startswith("Error")), "".join(lines[-1:]))
    hint = ""
    if any(word in errors for word in _DENIED):
        hint = "; the container needs the capability SYS_PTRACE for it"
    return f"{_clipped(text) or f'it ended with status {status}'}{hint}"


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
        return _threads(run)

    async def unpaused(self, pid: Pid, thread: int | None = None) -> tuple[PythonThread, ...]:
        """The same of a process that goes on: what changes meanwhile may be read wrong.

        ``thread`` is one of its threads that lives, if its main thread does not.
        """
        run = await self._run(thread or pid.number, "--nonblocking")
        return _threads(run)

    async def _run(self, number: int, *options: str) -> ProgramSaid:
        words = (self.program, "dump", "--json", *options, "--pid", str(number))
        asked = Question(words, self.environ, self.seconds, OUTPUT_BYTES, ERROR_BYTES)
        try:
            return await answer_to(asked, self.children)
        except OSError as error:
            raise PySpyFailed(f"it cannot be started: {error.strerror or error}") from error


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
