"""What a terminal can do: colours, labels before the lines of ranks, and how wide text is; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from unicodedata import east_asian_width

from msgspec import Struct

from ascend_supervisor.settings.readers import Color
from ascend_supervisor.untrusted_text import printable

Shown = Callable[[bytes], bytes]
"""Makes whole lines safe to show: ``harmless`` or ``coloured``; returns as many lines."""

RESET = "\x1b[0m"
_COLOUR = r"\x1b\[[0-9;:]{0,64}m"
_LONGEST_BEGUN = 2 + 64
_CONTROL = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and LF, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi controls
    r"\u2028\u2029"  # line and paragraph separator
)
_COLOURS = re.compile(_COLOUR.encode())
_CONTROLS = re.compile(f"[{_CONTROL}]+")
_COLOURS_OR_CONTROLS = re.compile(f"({_COLOUR})|(?:(?!{_COLOUR})[{_CONTROL}])+")
_BEGUN = re.compile(
    rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2}"  # a character
    rb"|\x1b(?:\[[0-9;:]{0,64})?|\r)\Z"  # a colour, CR LF
)
_PLAIN_ASCII = bytes([ord("\t"), ord("\n"), *range(0x20, 0x7F)])


def harmless(lines: bytes) -> bytes:
    """``lines`` without colours."""
    bare = _COLOURS.sub(b"", _without_nul(lines))
    return bare if _is_plain(bare) else _CONTROLS.sub(_escape, _decoded(bare)).encode()


def coloured(lines: bytes) -> bytes:
    """``lines`` with their colours, each of which ends with its line."""
    if b"\x1b" not in lines:
        return harmless(lines)
    lines = _without_nul(lines)
    if _is_plain(_COLOURS.sub(b"", lines)):
        text = lines.decode()
    else:
        text = _COLOURS_OR_CONTROLS.sub(lambda found: found[1] or _escape(found), _decoded(lines))
    shown = (line + RESET if "\x1b" in line else line for line in text.split("\n"))
    return "\n".join(shown).encode()


def harmless_text(text: str) -> str:
    """The same of text."""
    return harmless(text.encode(errors="backslashreplace")).decode()


def divided(data: bytes) -> tuple[bytes, bytes]:
    """``data`` without an incomplete end (a character, a colour, CR LF), and that end."""
    start = max(len(data) - _LONGEST_BEGUN, 0)
    begun = _BEGUN.search(data[start:])
    at = start + begun.start() if begun else len(data)
    return data[:at], data[at:]


def _is_plain(lines: bytes) -> bool:
    """Whether they need no change, as most do not; this check is fast."""
    return lines.isascii() and not lines.translate(None, _PLAIN_ASCII)


def _without_nul(lines: bytes) -> bytes:
    return lines.translate(None, b"\0")


def _decoded(lines: bytes) -> str:
    return lines.replace(b"\r\n", b"\n").decode("utf-8", "backslashreplace")


def _escape(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


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
