"""Whether a failed rank is itself the cause, only suffers from another, or all are alike; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.evidence.cann_codes import (
    is_cause,
    is_consequence,
    is_inner,
    logged_code,
    meaning_of,
    name_of,
)
from ascend_supervisor.evidence.communication import Suspect, names_another, peer, watchdog_fired
from ascend_supervisor.evidence.diagnosed import pointed_at
from ascend_supervisor.evidence.last_words import LastWords, words_of
from ascend_supervisor.evidence.patterns import pattern
from ascend_supervisor.evidence.speakers import LINE_CHARACTERS, Line, lines_of
from ascend_supervisor.evidence.statement import last_line, statement
from ascend_supervisor.outcome import ExitStatus, Failure


def blame(failure: Failure) -> Blame:
    """Where the cause of ``failure`` is, as far as its own words tell."""
    if failure.oom_killed:
        return Blame.OWN
    if failure.reason is not None:
        return Blame.CONSEQUENCE  # its framework has ended it, because it missed another rank
    words = words_of(failure)
    # An error in CANN's own log may be one that the rank has survived: it clears, but never blames.
    logged = failure.code if is_consequence(failure.code) else None
    return Blame.OWN if words.is_own else _blame(words.code or logged, words, failure)


def is_caused_here(failure: Failure) -> bool:
    """Whether the cause is in this very rank, for certain."""
    return blame(failure) is Blame.OWN


def is_caused_elsewhere(failure: Failure) -> bool:
    """Whether this rank has only lost its peers, or waited for them in vain, for certain."""
    return blame(failure) is Blame.CONSEQUENCE


def explained(failure: Failure, plog: Sequence[str] = ()) -> Failure:
    """The failure with what it says itself; with CANN's code, what that means and where to look.

    ``plog``: lines from the end of CANN's own log of the rank. They count if the rank's own words
    are not clear.
    """
    if _is_known(failure):
        return failure
    plog = [line[:LINE_CHARACTERS] for line in plog]
    if failure.is_alone and (names_another(failure.last_lines) or names_another(plog)):
        failure = replace(failure, is_alone=False)  # the script has made a job of several tables
    words = words_of(failure)
    failure = _attributed(failure, words)
    failure = replace(failure, said=statement(failure, words) or last_line(failure, words))
    if words.is_own:
        return failure
    code = words.code
    if code is None or is_inner(code):
        code = logged_code(plog) or code
    return replace(failure, code=code, meaning=_meaning(code, words, plog, failure))


def _attributed(failure: Failure, words: LastWords) -> Failure:
    """A launcher may name a rank that only lost the one whose exception is in the same output."""
    is_told = failure.rank is None or failure.exception is not None or words.loss is not None
    is_told = is_told or failure.worker is not None
    if is_told or words.rank in {None, failure.rank} or words.raised is None:
        return failure
    return replace(failure, name=f"rank {words.rank}", rank=words.rank)


def _is_known(failure: Failure) -> bool:
    return bool(failure.oom_killed) or failure.reason is not None


def _blame(code: str | None, words: LastWords, failure: Failure) -> Blame:
    if is_cause(code):
        return Blame.OWN
    if (is_consequence(code) and not failure.is_alone) or words.loss is not None:
        return Blame.CONSEQUENCE
    return Blame.UNKNOWN


def _meaning(
    code: str | None, words: LastWords, plog: Sequence[str], failure: Failure
) -> str | None:
    if code is not None and is_consequence(code) and failure.is_alone:
        return f"{name_of(code, words.lines)}: HCCL failed, and the job has no other rank"
    if code is not None and is_consequence(code):
        where = peer(words.lines) or peer(plog) or Suspect()
        name = name_of(code, words.lines)
        return f"{name}: {meaning_of(code)}, a consequence: look at {where}"
    if words.loss is not None and not is_cause(code):
        return f"a consequence: {words.loss.what}; look at {words.loss.where}"
    if code is None:
        return None
    return f"{name_of(code, words.lines)}: {meaning_of(code, words.lines)}"


MOST_RANKS = 64
_MARK = pattern(r"\[rank(\d{1,7})\]:", re.ASCII)
"""That of torch, also where it follows a progress bar on one line."""
_OF_WATCHDOG = pattern(r"\[Rank (\d{1,7})\] Watchdog caught", re.ASCII)


class Other(Struct, frozen=True):
    """Another rank of this server: how it ended, and its last lines.

    It ``is_unasked`` if it ended by itself while nobody was told to stop yet.
    """

    rank: int
    status: ExitStatus
    last_lines: tuple[str, ...]
    is_unasked: bool = False


def compared(failure: Failure, others: Sequence[Other], *, of_job: bool) -> Failure:
    """The failure with what it has in common with ``others``; ``of_job``: all ranks are here."""
    if failure.rank is None or not others or len(others) > MOST_RANKS:
        return failure
    fired = {other.rank for other in others if watchdog_fired(other.last_lines)}
    silent = {other.rank for other in others} - fired
    if watchdog_fired(failure.last_lines) and len(silent) == 1:
        return _with_silent(failure, silent)
    alike = 1 + sum(_is_alike(other, failure) for other in others)
    if alike == 1:
        return failure
    total = len(others) + 1
    where = "" if of_job else " here"
    return replace(
        failure, alike=f"{'all' if alike == total else f'{alike} of'} {total} ranks{where}"
    )


def among_workers(failure: Failure, ranks: Collection[int]) -> Failure:
    """The same for ranks that write to one output; if not all ``ranks`` are known, by their marks.

    Without a mark a watchdog names its rank in its own process group, which counts only if it fits
    those that are known.
    """
    fired, marked, in_words = _heard(lines_of(failure.last_lines))
    where = "here"
    if len(ranks) < 2 or not fired | in_words <= {*ranks}:  # noqa: PLR2004
        if in_words - marked or len(fired) < 2:  # noqa: PLR2004
            return failure
        low, high = min(marked), max(marked)
        ranks = range(0 if low == 1 else low, high + 1)
        where = f"of ranks {ranks[0]} to {high}"
    silent = {*ranks} - fired - in_words
    return _with_silent(failure, silent, where) if len(silent) == 1 < len(ranks) else failure


def _heard(lines: Sequence[Line]) -> tuple[set[int], set[int], set[int]]:
    """The ranks whose watchdog fired, and all that are marked; those that only the words name."""
    fired, marked, in_words = set(), set(), set()
    for line in lines:
        mark = _MARK.search(line.text) if line.rank is None else None
        rank = int(mark[1]) if mark else line.rank
        if rank is not None:
            marked.add(rank)
        if not watchdog_fired([line.text]):
            continue
        if rank is not None:
            fired.add(rank)
        elif named := _OF_WATCHDOG.search(line.text):
            in_words.add(int(named[1]))
    return fired, marked, in_words


def _with_silent(failure: Failure, silent: set[int], where: str = "here") -> Failure:
    """A watchdog fires in a rank that waits, and not in the one that never came."""
    words = words_of(failure)
    if words.loss is None or words.is_own:
        return failure
    suspect, known = Suspect(str(min(silent))), failure.diagnosis
    named = f"{suspect}, the only one {where} whose watchdog did not fire"
    return replace(
        failure,
        meaning=f"a consequence: {words.loss.what}; look at {named}",
        diagnosis=pointed_at(suspect, known) if known and known.is_consequence else known,
    )


def _is_alike(other: Other, failure: Failure) -> bool:
    """Whether it said the same of its end; it may have been told to stop before it could exit.

    Last words that are no statement, such as those of sys.exit("text"), count only if it was not:
    what is told to stop often ends with the status of the others.
    """
    if other.status.ok or (other.status != failure.status and other.status.signal is None):
        return False
    same = replace(
        failure,
        rank=other.rank,
        status=failure.status,
        last_lines=other.last_lines,
        exception=None,
    )
    words, my_words = words_of(same), words_of(failure)
    told, mine = statement(same, words), statement(failure, my_words)
    is_same_end = other.is_unasked and other.status == failure.status
    if told is None and mine is None and is_same_end:
        told, mine = last_line(same, words), last_line(failure, my_words)
    return told is not None and mine is not None and _plain(told) == _plain(mine)


def _plain(said: str) -> str:
    """Without numbers, such as those of ranks and devices."""
    return re.sub(r"\d+", "#", said)
