"""Whether a failed rank is itself the cause, or only suffers from another; pure."""

from __future__ import annotations

from collections.abc import Sequence

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
from ascend_supervisor.evidence.communication import names_another, peer
from ascend_supervisor.evidence.last_words import LastWords, words_of
from ascend_supervisor.evidence.speakers import LINE_CHARACTERS
from ascend_supervisor.evidence.statement import last_line, statement
from ascend_supervisor.evidence.suspect import Suspect
from ascend_supervisor.outcome import Failure


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
