"""Aligned text for people, measured in the columns of a terminal; pure.

Text from outside is shown on one line: what cannot be printed is escaped as in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from unicodedata import category, east_asian_width

from ascend_supervisor.untrusted_text import plain, printable

NONE = "-"
CUT = "..."
_GAP = "  "
_NAME = re.compile(r"(?:\S.*?)?  +")
_FEWEST_COLUMNS = 16
"""Narrower lines are cut: nobody reads a text of single words."""
_NO_COLUMN = frozenset({"Mn", "Me", "Cf"})
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024


def size(number: float) -> str:
    """Bytes with a unit of 1024: ``312 B``, ``1.2 MiB``."""
    unit = 0
    while number >= _STEP and unit < len(_SIZES) - 1:
        number /= _STEP
        unit += 1
    return f"{number:.1f} {_SIZES[unit]}" if unit else f"{number:.0f} {_SIZES[0]}"


def columns_of(text: str) -> int:
    """How many columns ``text`` takes: two for a wide character, none for a combining one."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cut(text: str, most: int) -> str:
    """``text`` in at most ``most`` columns; three dots mark that something is missing."""
    if columns_of(text) <= most:
        return text
    mark = CUT if most > len(CUT) else ""
    return text[: _fitting(text, most - len(mark))] + mark


def facts(named: Iterable[tuple[str, object]]) -> list[str]:
    """Name and value, line by line; further lines of a value are aligned with its first.

    A fact without a value is left out.
    """
    told = [(name, str(value)) for name, value in named if value not in {None, ""}]
    width = max((len(name) for name, _ in told), default=0) + len(_GAP)
    return [
        f"{head:<{width}}{plain(line)}"
        for name, value in told
        for head, line in zip_longest([name], value.split("\n"), fillvalue="")
    ]


def folded(fact: str, most: int) -> list[str]:
    """One line of ``facts`` as lines of at most ``most`` columns, aligned with its value.

    One line is left as it is if its name takes more than half of them.
    """
    name = _NAME.match(fact)
    indent = name.end() if name else 0
    if most < _FEWEST_COLUMNS or indent > most // 2:
        return [fact]
    lines, rest = [], fact
    while columns_of(rest) > most:
        end = _fitting(rest, most)
        space = rest.rfind(" ", indent + 1, end + 1)
        end = space if space > 0 else end
        lines.append(rest[:end])
        rest = " " * indent + rest[end:].lstrip(" ")
    return [*lines, rest]


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """The lines of a table; None is shown as a dash."""
    lines = [list(heads), *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(map(columns_of, column)) for column in zip(*lines, strict=True)]
    return [_GAP.join(map(_padded, line, widths)).rstrip() for line in lines]


def _fitting(text: str, most: int) -> int:
    """How many of the first characters take at most so many columns."""
    left = most
    for at, one in enumerate(text):
        left -= _columns(one)
        if left < 0:
            return at
    return len(text)


def _columns(one: str) -> int:
    if category(one) in _NO_COLUMN:
        return 0
    return 2 if east_asian_width(one) in {"W", "F"} else 1


def _cell(value: object) -> str:
    return NONE if value in {None, ""} else printable(str(value))


def _padded(text: str, width: int) -> str:
    return text + " " * (width - columns_of(text))
