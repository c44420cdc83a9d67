"""The line in which a process says itself why it ended, and what faulthandler prints; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ascend_supervisor.evidence.exceptions import Raised, raised_by, raised_in, refused_script
from ascend_supervisor.evidence.last_words import LastWords
from ascend_supervisor.evidence.log_records import is_quiet
from ascend_supervisor.evidence.patterns import pattern
from ascend_supervisor.evidence.speakers import (
    STACK,
    Line,
    by_speaker,
    lines_of,
    with_stacks,
    without_warnings,
)
from ascend_supervisor.outcome import SIGNAL_BASE, ExitStatus, Failure, signal_name

_ERROR = pattern(r"(?:[\w./-]{1,100}: ){0,2}(?:fatal )?error: \S", re.IGNORECASE)
"""argparse, click, and most other programs."""
_LAST_ERROR = pattern(_ERROR.pattern[:-2] + r"[^\W\d]", re.IGNORECASE)
"""Not a figure, such as the error of a validation."""
_DRAWN = pattern(r"╭─+ Error ─")
_BORDER = "│ "
_SHELLS_WORD = pattern(
    r"\S.{0,200}: line \d+: +\d+ (?:Segmentation fault|Killed|Aborted|Bus error|Illegal "
    r"instruction|Floating point exception)\b",
    re.ASCII,
)
_WORD = pattern(r"\w")
_NEAR_THE_END = 30


def statement(failure: Failure, words: LastWords) -> str | None:
    """What it says of its end, on one line; None if it says nothing that is known."""
    worker, fatal = failure.worker, fatal_error(failure)
    if worker is not None and worker.was_killed:
        return f"{worker}: {fatal.text}" if fatal else str(worker)
    if failure.status.signal is not None or (fatal is not None and worker is None):
        return _of_signal(failure, words.raised, fatal)
    is_named = words.rank is None or (words.rank == failure.rank and worker is None)
    whose = "" if is_named else f"rank {words.rank}: "
    raised = raised_in(failure.exception) or words.raised
    if raised is not None and not raised.is_aside:
        return f"{whose}{raised.headline}"
    told = refused_script(words.lines) or _error(words.lines[-_NEAR_THE_END:])
    if told is not None:
        return f"{whose}{told.strip()}"
    if raised is not None:
        return f"in a child, a thread or at its end, {whose}{raised.headline}"
    return None if worker is None else str(worker)


def last_line(failure: Failure, words: LastWords) -> str | None:
    """The last line that has a word and is no warning: whether it says why, is unknown.

    What a logger prints at the end of a process, after its last words, does not.
    """
    is_of_others = failure.is_shared and (failure.rank is not None or failure.worker is not None)
    if failure.status.signal is not None or is_of_others:
        return None
    spoken = list(filter(_WORD.search, without_warnings(words.lines)))
    if not spoken:
        return None
    said = (line for line in reversed(spoken[-_NEAR_THE_END:]) if not is_quiet(line))
    return f"its last line is: {next(said, spoken[-1]).strip()}"


def unheeded(output: Sequence[str]) -> str | None:
    """The death of a process in the output of another that ended with 0: what that holds.

    An exception that was raised in a script itself counts, what a shell says of a signal, and an
    error as the last line.
    """
    for speaker in by_speaker(lines_of(output)):
        for line in speaker:
            if _SHELLS_WORD.match(line.text):
                return f"holds the words of a shell, {line.text.strip()!r}"
        for raised in raised_by(speaker)[0]:
            if raised.is_uncaught and not raised.is_aside:
                return f"holds an uncaught exception, {raised.headline}"
    last = next(filter(_WORD.search, reversed(output)), "").strip()
    return f"ends with {last!r}" if _LAST_ERROR.match(last) else None


def _error(lines: Sequence[str]) -> str | None:
    """The last line that begins with ``error:``, or the first in a box with that title."""
    for at in reversed(range(len(lines))):
        if _ERROR.match(lines[at]):
            return lines[at]
        if _DRAWN.match(lines[at]):
            inside = (line.strip(_BORDER) for line in lines[at + 1 :])
            return next(filter(None, inside), None)
    return None


def _of_signal(failure: Failure, raised: Raised | None, fatal: FatalError | None) -> str | None:
    """Where the signal came; an exception, if it came after that, while Python shut down."""
    is_abort = signal_told_by(failure.status) == "SIGABRT"
    has_frame = fatal is not None and fatal.has_frame
    if is_abort and raised is not None and raised.is_uncaught and not has_frame:
        return None if raised.is_aside else raised.headline
    return None if fatal is None else fatal.text


_WORDS = {
    "SIGILL": "Illegal instruction",
    "SIGABRT": "",  # Python's own fatal errors have words of all kinds
    "SIGBUS": "Bus error",
    "SIGFPE": "Floating",
    "SIGSEGV": "Segmentation fault",
}
_FATAL = pattern(r"Fatal Python error: (.{1,100})")
_FRAME = pattern(r' File "(.{1,200})", line (\d+)(?: in (\S{1,100}))?')


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
