r"""Text from outside, made safe for a terminal: it cannot move the cursor or change settings; pure.

Colours (SGR, ``ESC [ ... m``) are kept or left out. Other control characters are shown as Python
writes them (``\x1b``, ``\r``); so are characters that reorder text (bidi controls), line breaks of
Unicode, and bytes that are not UTF-8. Line feeds and tabs stay; CR LF becomes LF; NUL is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable

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
