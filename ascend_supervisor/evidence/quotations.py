"""The exceptions that a message quotes: what caught one often raises it as text; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from string import ascii_letters, digits

from msgspec import Struct

from ascend_supervisor.evidence.patterns import pattern


class Quotation(Struct, frozen=True):
    """``text`` as Python prints an uncaught exception, with its type first; ``line`` quotes it."""

    line: int
    text: str


_TYPE_ENDS = pattern(r"(?:Error|Exception)(?:: |\(['\"])")
_NAME = ascii_letters + digits + "_."
_MESSAGES = pattern(
    r"(?P<ModuleNotFoundError>No module named '[\w.]{1,200}'(?:; '[\w.]{1,200}' is not a package)?)"
    r"|(?P<OSError>\[Errno \d+\] [A-Z])"
    r"|(?P<ImportError>cannot import name '|(?<![\w./-])(?:/|lib)[^\s:'\"]{1,300}\.so[.\d]{0,20}: "
    r"(?:undefined symbol: |cannot open shared object ))"
    r"|(?P<AttributeError>module '[\w.]{1,100}' has no attribute ')",
    re.ASCII,
)
"""What Python writes after these types, and no other program."""
_MOST = 4
"""Of one line."""


def quotations(lines: Sequence[str]) -> list[Quotation]:
    """What the lines quote, in their order; not what a line begins with."""
    return [
        Quotation(number, text)
        for number, line in enumerate(lines)
        for text in _quoted_in(line)
        if text != line
    ]


def _quoted_in(line: str) -> Iterator[str]:
    for named in islice(_TYPE_ENDS.finditer(line), _MOST):
        at = len(line[: named.start()].rstrip(_NAME))
        kind = line[at : named.end()].rstrip(": ('\"")
        if at and kind[:1].isalpha():
            yield f"{kind}: {line[named.end() :]}"
    for found in islice(_MESSAGES.finditer(line), _MOST):
        end = found.end() if found["ModuleNotFoundError"] else len(line)
        yield f"{found.lastgroup}: {line[found.start() : end]}"
