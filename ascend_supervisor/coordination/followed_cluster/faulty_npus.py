"""The NPUs that the reset file lists, by their ranks; pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ascend_supervisor.cluster.reset_file import ResetFile

MOST_NAMED = 16
"""How many ranks a sentence names."""
MOST_CODES = 4


def with_status(reset: ResetFile, status: str) -> tuple[int, ...]:
    """The ranks with this status, in order."""
    return tuple(sorted({listed.rank for listed in reset.ranks if listed.status == status}))


def faulty(reset: ResetFile, ranks: Sequence[int]) -> str:
    has = "has" if len(ranks) == 1 else "have"
    return f"{_npus(ranks)} {has} a fault (reset file{_codes(reset, ranks)})"


def unrecovered(reset: ResetFile, ranks: Sequence[int]) -> str:
    return f"{_npus(ranks)} must be reset (unrecovered in the reset file{_codes(reset, ranks)})"


def not_reset(reset: ResetFile, ranks: Sequence[int]) -> str:
    return f"the reset of {_npus(ranks)} has failed (reset file{_codes(reset, ranks)})"


def _npus(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"the NPU of rank {ranks[0]}"
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    return f"the NPUs of ranks {', '.join(map(str, ranks[:MOST_NAMED]))}{more}"


def _codes(reset: ResetFile, ranks: Sequence[int]) -> str:
    """The driver's codes for these faults, if the file has them; each once."""
    those = frozenset(ranks)
    all_codes = (code for listed in reset.ranks if listed.rank in those for code in listed.codes)
    codes = tuple(islice(dict.fromkeys(all_codes), MOST_CODES))
    return f", error {', '.join(codes)}" if codes else ""
