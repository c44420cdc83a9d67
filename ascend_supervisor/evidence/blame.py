"""Whether a failed rank is itself the cause, or only suffers from another; pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec.structs import replace

from ascend_supervisor.evidence.cann_codes import (
    CAUSES,
    CONSEQUENCES,
    is_inner,
    logged_code,
    meaning_of,
)
from ascend_supervisor.evidence.communication import ALL_RANKS, peer
from ascend_supervisor.evidence.exceptions import LINE_CHARACTERS
from ascend_supervisor.evidence.last_words import Words, words_of
from ascend_supervisor.outcome import Failure


class Blame(Enum):
    """Where the cause of a failure is."""

    OWN = "own"
    """In this rank: memory, an exception of the script, a device of this server."""
    CONSEQUENCE = "consequence"
    """Elsewhere: this rank lost its peers, or waited for them in vain."""
    UNKNOWN = "unknown"


def blame(failure: Failure) -> Blame:
    """Where the cause of ``failure`` is, as far as its own words tell."""
    if failure.oom_killed:
        return Blame.OWN
    if failure.reason is not None:
        return Blame.CONSEQUENCE  # its framework has ended it, because it missed another rank
    words = words_of(failure)
    # An error in CANN's own log may be one that the rank has survived: it clears, but never blames.
    logged = failure.code if failure.code in CONSEQUENCES else None
    return Blame.OWN if words.is_own else _blame(words.code or logged, words)


def explained(failure: Failure, plog: Sequence[str] = ()) -> Failure:
    """The failure with CANN's code, if there is one, and with what it means and where to look.

    ``plog``: lines from the end of CANN's own log of the rank. They count if the rank's own words
    are not clear, as ``needs_plog`` tells.
    """
    if not _is_open(failure):
        return failure
    words, plog = words_of(failure), [line[:LINE_CHARACTERS] for line in plog]
    code = words.code
    if code is None or is_inner(code):
        code = logged_code(plog) or code
    return replace(failure, code=code, meaning=_meaning(code, words, plog))


def needs_plog(failure: Failure) -> bool:
    """Whether CANN's own log could say more about the cause than the rank's words."""
    if not _is_open(failure):
        return False
    code = words_of(failure).code
    return code is None or is_inner(code)


def _is_open(failure: Failure) -> bool:
    is_known = failure.oom_killed or failure.reason is not None
    return not is_known and not words_of(failure).is_own


def _blame(code: str | None, words: Words) -> Blame:
    if code in CAUSES:
        return Blame.OWN
    if code in CONSEQUENCES or words.loss is not None:
        return Blame.CONSEQUENCE
    return Blame.UNKNOWN


def _meaning(code: str | None, words: Words, plog: Sequence[str]) -> str | None:
    if code in CONSEQUENCES:
        where = peer(words.lines) or peer(plog) or ALL_RANKS
        return f"{code}: {meaning_of(code)}, a consequence: look at {where}"
    if words.loss is not None and code not in CAUSES:
        return f"a consequence: {words.loss.what}; look at {words.loss.where}"
    return None if code is None else f"{code}: {meaning_of(code)}"
