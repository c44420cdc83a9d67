"""How wide text is on a terminal, in columns; pure."""

from __future__ import annotations

from unicodedata import east_asian_width

CUT = "..."


def cut(text: str, columns: int) -> str:
    """The beginning of ``text``, at most ``columns`` wide, with dots where some is missing."""
    if sum(map(_width, text)) <= columns:
        return text
    dots = CUT[: max(columns, 0)]
    left = columns - len(dots)
    shown = 0
    for one in text:
        left -= _width(one)
        if left < 0:
            break
        shown += 1
    return text[:shown] + dots


def _width(character: str) -> int:
    """In columns; 2 also where it depends on the font (A, ambiguous)."""
    return 2 if east_asian_width(character) in {"W", "F", "A"} else 1
