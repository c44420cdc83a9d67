"""What Python's faulthandler prints of a signal that ends a process, and where it came; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ascend_supervisor.evidence.speakers import STACK, Line, by_speaker, with_stacks
from ascend_supervisor.outcome import SIGNAL_BASE, ExitStatus, Failure, signal_name

_WORDS = {
    "SIGILL": "Illegal instruction",
    "SIGABRT": "",  # Python's own fatal errors have words of all kinds
    "SIGBUS": "Bus error",
    "SIGFPE": "Floating",
    "SIGSEGV": "Segmentation fault",
}
_FATAL = re.compile(r"Fatal Python error: (.{1,100})")
_FRAME = re.compile(r' File "(.{1,200})", line (\d+)(?: in (\S{1,100}))?')


class FatalError(Struct, frozen=True):
    """The words for the signal, with the innermost frame of the thread that got it, if it has one.

    ``at`` is the number of its line.
    """

    text: str
    has_frame: bool
    at: int


def signal_told_by(status: ExitStatus) -> str:
    """The name of the signal that ended it, or of which a shell tells in its exit status."""
    return signal_name(status.exit_code - SIGNAL_BASE)


def fatal_error(failure: Failure) -> FatalError | None:
    """The last one of the process that ended so, and of no other rank, as far as marks tell.

    A command may end with the exit code of any of its ranks. A progress bar may stand before each
    line.
    """
    worker = failure.worker
    rank, status = (
        (failure.rank, failure.status) if worker is None else (worker.rank, worker.status)
    )
    words = _WORDS.get(signal_told_by(status))
    if words is None:
        return None
    speakers = by_speaker(with_stacks(failure.last_lines))
    own = (each for each in speakers if rank is None or each[0].rank in {None, rank})
    told = filter(None, (_last(lines, words, rank) for lines in own))
    return max(told, key=lambda one: one.at, default=None)


def _last(lines: Sequence[Line], words: str, rank: int | None) -> FatalError | None:
    whose = "" if lines[0].rank in {None, rank} else f"rank {lines[0].rank}: "
    for at in reversed(range(len(lines))):
        found = _FATAL.search(lines[at].text)
        if found is not None and found[1].startswith(words):
            frame = _innermost_frame(line.text for line in lines[at + 1 :])
            where = "" if frame is None else f", at {frame}"
            return FatalError(f"{whose}{found[1]}{where}", frame is not None, lines[at].number)
    return None


def _innermost_frame(texts: Iterable[str]) -> str | None:
    """That of the current thread; an empty line ends its stack."""
    is_inside = False
    for text in texts:
        if _FATAL.search(text):
            return None
        thread = STACK.search(text)
        if thread is not None or not text.strip():
            is_inside = thread is not None and thread[0].startswith("Current")
        elif is_inside and (frame := _FRAME.search(text)):
            function = f", in {frame[3]}" if frame[3] else ""
            return f"{frame[1]}, line {frame[2]}{function}"
    return None
