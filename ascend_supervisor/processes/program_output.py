"""What a program prints within a time; after that it is killed, with its process group.

For a program that supervises nobody: the answer is waited for here, whoever else waits.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from ascend_supervisor.untrusted_text import printable

_PIECE_BYTES = 64 * 1024
GONE_SECONDS = 1.0
"""How long a killed process may take to be gone; one that is stuck in a driver is left."""


class ProgramOutput(Struct, frozen=True):
    """What was printed, stdout and stderr in one; ``trouble`` says why it is not all, if it is not.

    ``is_late``: it was killed because it took too long.
    """

    text: bytes
    trouble: str = ""
    is_late: bool = False

    @property
    def first_line(self) -> str:
        """For a sentence: cut, and what cannot be printed escaped."""
        return printable(self.text.decode(errors="replace").strip().partition("\n")[0], 200)


def output_of(
    command: Sequence[str],
    seconds: float,
    most: int,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> ProgramOutput:
    """The first ``most`` bytes that ``command`` prints within so many seconds.

    Its stdin is empty. It starts in a process group of its own, nothing of which is left, also if
    an exception ends the wait.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environ,
            cwd=cwd,
        )
    except OSError as error:
        return ProgramOutput(b"", f"it cannot be started: {error.strerror or error}")
    assert process.stdout is not None  # noqa: S101  (it is a pipe)
    end = time.monotonic() + seconds
    try:
        with process.stdout as pipe:
            text, trouble = _read(pipe.fileno(), end, most)
        if not trouble and not _has_ended(process, end - time.monotonic()):
            trouble = "it has closed its output and runs on"
    finally:  # also if Ctrl-C, or any other exception, ends the wait
        _kill(process)
    is_late = bool(trouble) and time.monotonic() >= end
    if is_late or not trouble:
        trouble = trouble_of(None if is_late else process.returncode, seconds)
    return ProgramOutput(text, trouble, is_late)


def _read(pipe: int, end: float, most: int) -> tuple[bytes, str]:
    """What comes until ``end`` (monotonic seconds), and why it is not all."""
    pieces: list[bytes] = []
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while most > 0:
        left = end - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return b"".join(pieces), "it is late"
        piece = os.read(pipe, min(most, _PIECE_BYTES))
        if not piece:
            return b"".join(pieces), ""
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces), "it was killed: it prints more than is kept"


def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(seconds, 0))
    return process.returncode is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of it; while it was not waited for, nobody else can have its number."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        _has_ended(process, GONE_SECONDS)


def trouble_of(status: int | None, seconds: float) -> str:
    """Why not all is said by a program that ended with ``status``, as that of Popen; else empty.

    None: it was killed after so many ``seconds``.
    """
    if status is None:
        return f"it was killed: it has not ended within {seconds:g} s"
    if status < 0:
        return f"it was killed by signal {-status}"
    return f"it exited with status {status}" if status else ""
