"""The port at which a failed rank could not listen, told by its words; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ascend_supervisor.evidence.patterns import pattern

_TAKEN = pattern(r"EADDRINUSE|address (?:is )?already in use|errno:? 98\b", re.IGNORECASE)
_OF_C10D = pattern(r"server socket has failed to (?:bind|listen)", re.IGNORECASE)
_PORT = pattern(r"(?:\bport[:= ]+|[\]\w.]:)(\d{3,5})\b", re.IGNORECASE)


def taken_port(lines: Iterable[str], usual: int | None) -> int | None:
    """The rendezvous port that was taken: the ``usual`` one, or one that torch names.

    A rank may listen elsewhere for purposes of its own, which are none of ours.
    """
    for line in lines:
        if _TAKEN.search(line):
            named = [int(digits) for digits in _PORT.findall(line)]
            if usual in named:
                return usual
            if named and _OF_C10D.search(line):
                return named[-1]
    return None
