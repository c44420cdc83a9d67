"""The label before each line of a rank, and the colours of the text console; pure."""

from __future__ import annotations

from msgspec import Struct

from ascend_supervisor.output.terminal_escapes import RESET
from ascend_supervisor.untrusted_text import printable

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
