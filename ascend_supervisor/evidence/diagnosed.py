"""Which cause of the table a failure has: of several the one that leads to the others; pure.

A generic line claims none: it is true of many failures, so its remedy would lead nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import takewhile
from signal import Signals

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.causes.cause import Blame, CauseRow
from ascend_supervisor.causes.diagnosis import Diagnosis, diagnosis_by
from ascend_supervisor.causes.scan import Match, matches
from ascend_supervisor.causes.table import CAUSES, consequences
from ascend_supervisor.evidence.cann_codes import is_cause, is_inner, logged_code, spoken_code
from ascend_supervisor.evidence.communication import LOST, NO_STORE, RANK_0, Suspect, loss, peer
from ascend_supervisor.evidence.exceptions import Raised, is_of_script
from ascend_supervisor.evidence.last_words import LastWords, words_of
from ascend_supervisor.evidence.patterns import pattern
from ascend_supervisor.evidence.quotations import quotations
from ascend_supervisor.evidence.speakers import LINE_CHARACTERS, without_warnings
from ascend_supervisor.outcome import SIGNAL_BASE, Failure
from ascend_supervisor.untrusted_text import printable

OUT_OF_MEMORY = "oom-killed"
BUS_ERROR = "bus-error"
"""A signal that says by itself what happened."""
KILLED = "killed"
"""Of SIGKILL nobody but its sender knows why: what is known besides comes first."""
_LAST_LINES = 200
"""Of an output. What a rank has printed long before its end it has survived."""
MOST_ERRORS = 500
"""So many of the last errors of a plog are searched."""
_ERROR = "[ERROR]"
_FROM_OUTSIDE = frozenset({Signals.SIGKILL, Signals.SIGTERM, Signals.SIGINT, Signals.SIGHUP})
"""Whoever sends one of these knows why; the words of the rank do not."""
_USED_UP, _HELD = "npu-out-of-memory", "npu-memory-held"
_CALL = "error code is "
_MOST_DETAILS = 4
_MOST_OF_PATH = 100
_MOST_DIGITS = 9
_CODE_WEIGHT = 40
"""A code says what has failed better than a few words that stand beside it."""
_RAISED, _MEANT, _TYPE, _OUTPUT, _PLOG, _ALONE = range(6)
"""Where a cause is shown, the nearest to the end first: the message of the exception that ended the
rank, the messages of those raised from it, what in the first claims no cause (only its type, or
only the step that failed on the NPU), all that it wrote, CANN's log, what in an exception without a
traceback claims no cause. What does claim one there is a line of the output like any other."""


class _Known(Struct, frozen=True):
    """A row, and how near it stands to the end of the rank: the lowest ``order`` counts.

    ``line`` is the one that shows it.
    """

    row: CauseRow
    order: tuple[int, int, int]
    line: str


class ShownCause(Struct, frozen=True):
    """A cause, and the ``line`` that shows it."""

    diagnosis: Diagnosis
    line: str


def diagnosis_of(failure: Failure, plog: Sequence[str] = ()) -> Diagnosis | None:
    """The cause of ``failure``, as far as the table knows it.

    ``plog``: lines from the end of CANN's own log of the rank. They count where nothing that the
    rank has printed is known, or where they tell what has led to it.
    """
    if failure.oom_killed:
        return diagnosis_by(CAUSES[OUT_OF_MEMORY], failure.rank)
    if failure.reason is not None:
        return diagnosis_by(CAUSES[LOST], None)
    number = (failure.status if failure.worker is None else failure.worker.status).signal
    shown = None if number in _FROM_OUTSIDE else shown_cause(failure, plog)
    if shown is None and number == Signals.SIGBUS:
        return diagnosis_by(CAUSES[BUS_ERROR], failure.rank)
    # Memory ran out in this generation, perhaps long before: words come first.
    may_be_memory = failure.memory is not None and number in {None, Signals.SIGKILL}
    if may_be_memory and (shown is None or shown.diagnosis.id in consequences([OUT_OF_MEMORY])):
        return diagnosis_by(CAUSES[OUT_OF_MEMORY], failure.rank)
    if shown is None and Signals.SIGKILL in {number, failure.status.exit_code - SIGNAL_BASE}:
        return diagnosis_by(CAUSES[KILLED], failure.rank)
    return None if shown is None else shown.diagnosis


def shown_cause(failure: Failure, plog: Sequence[str] = ()) -> ShownCause | None:
    """The cause that the words of ``failure`` show, whatever else is known of it."""
    words = words_of(failure)
    errors = [line[:LINE_CHARACTERS] for line in plog if _ERROR in line][-MOST_ERRORS:]
    found = list(_candidates(words, failure, errors))
    found += _warned(words.lines[-_LAST_LINES:], {one.row.id for one in found})
    found = [one for one in found if _may_be(one, words, failure)]
    if not found:
        return None
    known = _first(found)
    if known.row.blame is Blame.CONSEQUENCE:
        named = words.loss.where if words.loss is not None else peer(words.lines) or peer(errors)
        told = pointed_at(named or Suspect(), diagnosis_by(known.row, None))
    else:
        worker = failure.worker.rank if failure.worker is not None else failure.rank
        told = diagnosis_by(known.row, words.rank if words.rank is not None else worker)
        if known.row.is_bare and not (words.raised and is_of_script(words.raised)):
            told = replace(told, layer="unknown")
        is_code = known.row.id[-4:].isdecimal()
        if known.order[0] <= _TYPE and known.row.blame is Blame.OWN and not is_code:
            told = _at_place(told, words.raised)
    return ShownCause(told, known.line)


def pointed_at(suspect: Suspect, diagnosis: Diagnosis) -> Diagnosis:
    """The consequence with the rank, device or server that its cause is at."""
    if suspect == Suspect():
        return diagnosis
    if suspect == RANK_0 and diagnosis.id == NO_STORE:
        return replace(diagnosis, rank=suspect.rank)
    remedy, remedy_zh = f"look at {suspect}", f"查看{suspect.zh}"
    return replace(diagnosis, remedy=remedy, remedy_zh=remedy_zh, rank=suspect.rank)


def _at_place(told: Diagnosis, raised: Raised | None) -> Diagnosis:
    """What may be the script's doing, with the last line of its own that the traceback shows."""
    if told.layer not in {"user", "unknown"} or raised is None or raised.own is None:
        return told
    file, line = printable(raised.own.file[-_MOST_OF_PATH:]), raised.own.line[:_MOST_DIGITS]
    return replace(
        told,
        text=f"{told.text}, in {file}, line {line}",
        text_zh=f"{told.text_zh}（{file} 第 {line} 行）",
    )


def _raised(words: LastWords, failure: Failure) -> tuple[Sequence[str], Sequence[str]]:
    """The text of the exception that has ended it, and of those that were raised from it.

    What it handled tells nothing of a signal.
    """
    raised = words.raised
    is_end = raised is not None and (failure.status.signal is None or raised.is_uncaught)
    return (raised.text, raised.meant) if raised is not None and is_end else ((), ())


def _candidates(words: LastWords, failure: Failure, plog: Sequence[str]) -> Iterator[_Known]:
    """In an exception what weighs most comes first, in an output the last, in a plog the first.

    What was raised from it counts where only its type is known: it was written to tell more.
    """
    raised, meant = _raised(words, failure)
    place = words.raised.place if words.raised else ""
    is_trial = words.raised is not None and words.raised.is_trial
    for match in matches(raised, "exception", CAUSES.values()):
        if not place.endswith(match.file):
            continue
        row = _claimed(match, _with_details(raised, match.line), words.code)
        if row is not None:
            is_any = is_trial and row.is_bare
            order = (_TYPE if is_any else _in_exception(row), -match.weight, match.line)
            yield _Known(row, order, raised[match.line])
    for match in matches(meant, "exception", CAUSES.values()):
        if match.cause.layer != "unknown" and not match.file:
            yield _Known(match.cause, (_MEANT, -match.weight, match.line), meant[match.line])
    code = logged_code(plog)
    end = without_warnings(words.lines[-_LAST_LINES:])
    yield from _told(words, raised, end, code)
    for match in matches(end, "output", CAUSES.values()):
        row = _claimed(match, end[match.line], words.code)
        if row is not None:
            yield _Known(row, (_OUTPUT, -match.line, -match.weight), end[match.line])
    yield from _alone(words, end)
    yield from _quoted(raised, plog)
    for match in matches(plog, "plog", CAUSES.values()):
        yield _Known(match.cause, (_PLOG, match.line, -match.weight), plog[match.line])
    if code is not None and code in CAUSES:
        shows = (line for line in plog if logged_code((line,)) == code)
        yield _Known(CAUSES[code], (_PLOG, 0, 0), next(shows, ""))


def _alone(words: LastWords, end: Sequence[str]) -> Iterator[_Known]:
    """What an exception without a traceback shows, which may be one that was handled."""
    lines = (*words.alone, *(one.text for one in quotations(words.alone)))
    for match in matches(lines, "exception", CAUSES.values()):
        line = lines[match.line]
        row = _claimed(match, _with_details(lines, match.line), words.code)
        if row is not None and not match.file:
            at = next((at for at in reversed(range(len(end))) if end[at].endswith(line)), 0)
            place = _OUTPUT if row.layer != "unknown" else _ALONE
            yield _Known(row, (place, -at, -match.weight), line)


def _quoted(raised: Sequence[str], plog: Sequence[str]) -> Iterator[_Known]:
    """What exceptions claim that a message or CANN's log of Python code quotes."""
    for place, lines in ((_RAISED, raised), (_PLOG, plog)):
        found = quotations(lines)
        for match in matches([one.text for one in found], "exception", CAUSES.values()):
            line = found[match.line].line
            row = _claimed(match, found[match.line].text, None)
            if row is not None and row.layer != "unknown" and not match.file:
                first, second = (-match.weight, line) if place == _RAISED else (line, -match.weight)
                yield _Known(row, (place, first, second), lines[line])


def _told(
    words: LastWords, raised: Sequence[str], end: Sequence[str], logged: str | None
) -> Iterator[_Known]:
    """What CANN's code and the loss of a peer say; nobody is lost if its own log has the cause."""
    if words.code is not None and words.code in CAUSES:
        shows = partial(_shows_code, code=words.code)
        yield _said(CAUSES[words.code], shows, words, raised, end)
    lost = None if words.is_own or is_cause(words.code) or is_cause(logged) else words.loss
    if lost is not None and lost.id in CAUSES:
        yield _said(CAUSES[lost.id], _shows_loss, words, raised, end)


def _shows_code(line: str, code: str) -> bool:
    return spoken_code((line,)) == code


def _shows_loss(line: str) -> bool:
    return loss((line,)) is not None


def _said(
    row: CauseRow,
    shows: Callable[[str], bool],
    words: LastWords,
    raised: Sequence[str],
    end: Sequence[str],
) -> _Known:
    """In an output it stands where it was said last, so that what is nearer to the end counts."""
    for line in filter(shows, raised):
        return _Known(row, (_in_exception(row), -_CODE_WEIGHT, 0), line)
    at = next((at for at in reversed(range(len(end))) if shows(end[at])), 0)
    line = next(filter(shows, words.lines), "")
    return _Known(row, (_OUTPUT, -at, -_CODE_WEIGHT), line)


def _with_details(text: Sequence[str], at: int) -> str:
    """A line of a message with those that are indented below it, as those of YAML are."""
    more = takewhile(lambda line: line[:1] == " ", text[at + 1 : at + _MOST_DETAILS])
    return " ".join((text[at], *more))


def _claimed(match: Match, line: str, code: str | None) -> CauseRow | None:
    """The row that the line shows; None if that is a type whose message names nothing.

    Nor does a call of CANN that failed show any, if CANN has said why by another ``code``. Of the
    memory of an NPU the line tells whose it is.
    """
    row = match.cause
    if row.id == _USED_UP and is_held_by_others(line):
        return CAUSES[_HELD]
    has_other_code = code is not None and not is_inner(code) and code not in line
    if (row.id == _HELD and is_mostly_free(line)) or (_CALL in line and has_other_code):
        return None
    may_be_any = match.is_type and not row.is_bare and row.layer in {"user", "framework"}
    is_empty = may_be_any and not has_particulars(line.partition(": ")[2])
    return None if is_empty else row


def _in_exception(row: CauseRow) -> int:
    """What claims no cause comes after what does."""
    return _RAISED if row.layer != "unknown" else _TYPE


def _first(found: Sequence[_Known]) -> _Known:
    """What led to what stands nearest to the end, as far as the rest of ``found`` tells."""
    nearest = min(found, key=lambda one: one.order)
    others = [one for one in found if one.row.id != nearest.row.id]
    causes = [one for one in others if nearest.row.id in consequences([one.row.id])]
    return _first(causes) if causes else nearest


def _warned(lines: Sequence[str], ids: Collection[str]) -> Iterator[_Known]:
    """What a warning tells has not ended a rank, unless it has led to what did."""
    for match in matches(lines, "output", CAUSES.values()):
        if not consequences([match.cause.id]).isdisjoint(ids):
            yield _Known(match.cause, (_OUTPUT, -match.line, -match.weight), lines[match.line])


def _may_be(known: _Known, words: LastWords, failure: Failure) -> bool:
    """Whether a rank with these words may have lost another one, if the row says so.

    Whom an exception has ended that speaks of no other rank has lost none: what it wrote besides,
    such as the words of a watchdog, follows from that.
    """
    if known.row.blame is not Blame.CONSEQUENCE:
        return True
    raised = words.raised
    is_end = raised is not None and raised.is_uncaught and bool(_raised(words, failure)[0])
    has_own_end = is_end and words.loss is None and words.code is None
    is_besides = known.order[0] == _OUTPUT
    return not (words.is_own or failure.is_alone or (has_own_end and is_besides))


_PARTICULAR = pattern(
    r"[\w.-]/[\w.-]|/[\w.-]+/|\b\w+\.[a-zA-Z]\w|(?<!\w)'[^']{3,}'|\"[^\"]{3,}\""
    r"|\d{4}|\d ?[KMGTP]i?B\b|\w_\w|\[Errno \d|\(char [1-9]"
)
"""A path, a name of a file, a quotation, an amount, a name of code, a code of the kernel, a place
in JSON: what is none from its first character on is rather an answer of a server than a file."""
_ADDRESS = pattern(r"https?://\S+")
"""A page to read, more often than what failed."""
_AMOUNT = r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ([MG])iB"
_FREE = pattern(rf"{_AMOUNT} free", re.ASCII)
_RESERVED = pattern(rf"{_AMOUNT} reserved in total", re.ASCII)
_TOTAL = pattern(rf"{_AMOUNT} total capacity", re.ASCII)
_FREE_OF = pattern(r"Free memory on device \(([0-9.]{1,9})/([0-9.]{1,9}) GiB\)", re.ASCII)
"""vLLM."""
_MIB = {"M": 1.0, "G": 1024.0}
_MOST = 0.5
"""Of an NPU's memory: so much CANN itself never holds for a process."""


def has_particulars(message: str) -> bool:
    """Whether the message of an exception, without its type, names anything."""
    return _PARTICULAR.search(_ADDRESS.sub("", message)) is not None


def is_mostly_free(line: str) -> bool:
    """Whether most of the memory is free: what was asked for is then too much."""
    found = _FREE_OF.search(line)
    return found is not None and _number(found[1]) > (1 - _MOST) * _number(found[2])


def _number(text: str) -> float:
    return float(text) if text.count(".") <= 1 and text.strip(".") else 0.0


def is_held_by_others(line: str) -> bool:
    """Whether most of the memory is neither free nor this process's: torch prints the amounts."""
    found = [pattern.search(line) for pattern in (_TOTAL, _FREE, _RESERVED)]
    total, free, reserved = (float(one[1]) * _MIB[one[2]] if one else -1.0 for one in found)
    return min(free, reserved) >= 0 and total - free - reserved > _MOST * total
