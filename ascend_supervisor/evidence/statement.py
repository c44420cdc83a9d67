"""The line in which a process says itself why it ended; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ascend_supervisor.evidence.exceptions import Raised, raised_by, raised_in, refused_script
from ascend_supervisor.evidence.fatal_error import FatalError, fatal_error, signal_told_by
from ascend_supervisor.evidence.last_words import LastWords
from ascend_supervisor.evidence.log_records import is_quiet
from ascend_supervisor.evidence.speakers import by_speaker, lines_of, without_warnings
from ascend_supervisor.outcome import Failure

_ERROR = re.compile(r"(?:[\w./-]{1,100}: ){0,2}(?:fatal )?error: \S", re.IGNORECASE)
"""argparse, click, and most other programs."""
_DRAWN = re.compile(r"╭─+ Error ─")
_BORDER = "│ "
_SHELLS_WORD = re.compile(
    r"\S.{0,200}: line \d+: +\d+ (?:Segmentation fault|Killed|Aborted|Bus error|Illegal "
    r"instruction|Floating point exception)\b",
    re.ASCII,
)
_WORD = re.compile(r"\w")
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
    """The death of a process in the output of another that ended with 0, in a noun phrase.

    An exception that was raised in a script itself counts, and what a shell says of a signal.
    """
    for speaker in by_speaker(lines_of(output)):
        for line in speaker:
            if _SHELLS_WORD.match(line.text):
                return f"the words of a shell, {line.text.strip()!r}"
        for raised in raised_by(speaker)[0]:
            if raised.is_uncaught and not raised.is_aside:
                return f"an uncaught exception, {raised.headline}"
    return None


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
