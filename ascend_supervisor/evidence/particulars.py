"""What a line must hold, besides its words, for a cause to be claimed; pure.

A generic line, such as ``OSError`` or ``File is not a zip file``, is true of many failures: its
remedy leads nowhere. Of failures in public threads a wrong cause was most often told by one.
"""

from __future__ import annotations

import re

from ascend_supervisor.evidence.patterns import pattern

_PARTICULAR = pattern(
    r"[\w.-]/[\w.-]|/[\w.-]+/|\b\w+\.[a-zA-Z]\w|(?<!\w)'[^']{3,}'|\"[^\"]{3,}\""
    r"|\d{4}|\d ?[KMGTP]i?B\b|\w_\w|\[Errno \d"
)
"""A path, a name of a file, a quotation, an amount, a name of code, a code of the kernel."""
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
