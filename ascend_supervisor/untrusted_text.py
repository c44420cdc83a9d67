"""Text from outside: in our messages on one line, and lines of an output safe to show; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_LONGEST = 80
_LARGEST = 10**18


def shown(found: object) -> str:
    """A value of a document or a command line; always printable, on one line, not long."""
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, str):
        quoted = repr(found[:_LONGEST])  # of what is printable each backslash is one
        return clipped(quoted.replace("\\\\", "\\") if found.isprintable() else quoted)
    if isinstance(found, float) or (isinstance(found, int) and abs(found) < _LARGEST):
        return str(found)
    if isinstance(found, list):
        return clipped(f"[{', '.join(shown(item) for item in found[:_LONGEST])}]")
    return {dict: "a table", int: "a very large number"}.get(type(found), "a date or time")


def plain(text: str) -> str:
    """A name or a message unchanged, or quoted if it would break a line of a log."""
    return text if text.isprintable() else repr(text)


def nearest(word: str, known: Iterable[str], prefix: str = "") -> str:
    """The one of ``known`` that ``word`` resembles; empty when it resembles none.

    All of ``known`` begin with ``prefix``, which is ignored.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes pay for it

    names = [name.removeprefix(prefix) for name in known]
    near = get_close_matches(word.removeprefix(prefix)[:_LONGEST], names, n=1, cutoff=0.7)
    return f"{prefix}{near[0]}" if near else ""


def unknown(word: str, near: str, otherwise: str) -> str:
    """The fault for an unknown name; ``otherwise`` is added if there is no name ``near`` it."""
    return f"{clipped(plain(word))} is not known; {f'did you mean {near}?' if near else otherwise}"


def clipped(text: str, most: int = _LONGEST) -> str:
    """At most so many characters of it; three dots mark that something is missing."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def within(text: str, most: int) -> str:
    """The same in so many bytes of UTF-8."""
    data = text.encode(errors="backslashreplace")
    return text if len(data) <= most else data[: max(most - 3, 0)].decode(errors="ignore") + "..."


def printable(text: str, most: int | None = None) -> str:
    """``text`` on one line, cut after ``most`` characters: unprintable ones are escaped."""
    text = text[:most]
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)[:most]


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


def lines_in(data: bytes | bytearray) -> tuple[str, ...]:
    """The lines of an output, with what is visible of each; what is no UTF-8 is escaped."""
    text = data.decode("utf-8", "backslashreplace").replace("\0", "")
    lines = text.rstrip("\n").split("\n")
    return tuple(line.rstrip("\r").rpartition("\r")[2] for line in lines)
