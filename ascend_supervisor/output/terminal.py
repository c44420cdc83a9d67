"""What a terminal can do: colours, labels before the lines of ranks, and how wide text is; pure."""

from __future__ import annotations

from collections.abc import Mapping
from unicodedata import east_asian_width

from msgspec import Struct

from ascend_supervisor.settings.readers import Color
from ascend_supervisor.untrusted_text import RESET, printable

PLAIN = frozenset({"", "dumb"})
"""Terminals that cannot erase, and those of which nothing is known (TERM)."""


class Terminal(Struct, frozen=True):
    """The ``kind`` of terminal that stdout and stderr are, if they are one, and --color.

    ``no_color``: NO_COLOR is set (https://no-color.org).
    """

    kind: str = ""
    color: Color = "auto"
    no_color: bool = False

    @property
    def can_erase(self) -> bool:
        return self.kind not in PLAIN

    def has_colours(self, *, is_terminal: bool) -> bool:
        """Whether what is written there has colours."""
        if self.color == "auto":
            return is_terminal and self.can_erase and not self.no_color
        return self.color == "always"


def terminal_of(environ: Mapping[str, str], color: Color) -> Terminal:
    """As the variables of ``environ`` describe it."""
    return Terminal(environ.get("TERM", ""), color, no_color=bool(environ.get("NO_COLOR")))


COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
"""SGR codes of ranks, in turn; without red, which means errors."""
BOLD_RED = "1;31"
YELLOW = "33"


class Label(Struct, frozen=True):
    """``text`` as it is, and ``painted`` in its colour, if it has one."""

    text: str
    painted: str


def rank_label(rank: int, digits: int, *, in_colour: bool) -> Label:
    """``[rank 3] ``, with room for so many digits, so that the lines of all ranks are aligned."""
    text = f"[rank {rank:>{digits}}]"
    colour = str(COLOURS[rank % len(COLOURS)])
    return Label(f"{text} ", f"{painted(text, colour) if in_colour else text} ")


def named_label(name: str) -> Label:
    """The label of what is no rank, such as a launcher."""
    text = f"[{printable(name)}] "
    return Label(text, text)


def painted(text: str, colour: str) -> str:
    """``text`` in a colour, which is SGR codes."""
    return f"\x1b[{colour}m{text}{RESET}"


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
    """In columns; 2 also where the font decides (A, ambiguous): a line that wraps is not erased."""
    return 2 if east_asian_width(character) in {"W", "F", "A"} else 1
