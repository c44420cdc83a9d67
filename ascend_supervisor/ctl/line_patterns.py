"""What ``--grep`` looks for: a regular expression of Python, and the same for grep where it can be.

It is compared with the bytes of a line. No option of grep and no locale changes what it means.
"""

from __future__ import annotations

import re
import warnings
from re import Pattern

from msgspec import Struct

_ATOMS = re.compile(
    r"(?P<bracket>\[\^?\]?(?:\\.|[^\]\\])*\])|\\.|(?P<repeated>[^\x00-\x7f])(?=[*+?{])|.", re.DOTALL
)
_TOKEN = re.compile(
    r"(?P<same>[^\\\[\](){}.*+?|^$]|\[\^?[^\\\[\]^-][^\\\[\]]*\]|\\[wWsSb]|[.|^$)]|\((?!\?))"
    r"|\\(?P<escaped>[^\w\s])"
    r"|(?P<digit>\\d)"
    r"|(?P<group>\(\?:)"
    r"|(?<![\^$|(])(?P<times>[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})\??(?![*+?{])"
)
_IGNORE_CASE = "(?i)"
_WHOLE_TEXT = re.compile(r"\(\?(?!:)|\\[AZz]")
"""In these, what stands in other lines may count: such a pattern is tried line by line."""


class LinePattern(Struct, frozen=True):
    """``of_line`` is searched in one line without its end, ``of_lines`` in many at once.

    ``of_lines`` may find too much, never too little; None: it might. ``ere`` is the same as an
    extended regular expression of GNU grep in the locale C; None: there is none that is certain.
    """

    of_line: Pattern[bytes]
    of_lines: Pattern[bytes] | None
    ere: bytes | None
    ignores_case: bool = False


def read_pattern(text: str) -> LinePattern:
    """Raises ValueError with what is wrong."""
    ignores_case = text.startswith(_IGNORE_CASE)
    bare = text.removeprefix(_IGNORE_CASE)
    flags = re.IGNORECASE if ignores_case else 0
    written = _in_bytes(bare)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            of_line = re.compile(written, flags)
            of_lines = re.compile(written, flags | re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error
    ere = None if "\n" in bare else _as_ere(written.decode("latin-1"))
    is_local = not _WHOLE_TEXT.search(bare)
    return LinePattern(of_line, of_lines if is_local else None, ere, ignores_case)


def _in_bytes(text: str) -> bytes:
    """``text`` for bytes of UTF-8: a character that has several is one thing to repeat."""
    pieces: list[str] = []
    for atom in _ATOMS.finditer(text):
        if atom["bracket"] and not atom[0].isascii():
            raise ValueError("in [] only ASCII can be told apart; write (a|b)")
        pieces.append(f"(?:{atom[0]})" if atom["repeated"] else atom[0])
    return "".join(pieces).encode(errors="surrogateescape")


def _as_ere(pattern: str) -> bytes | None:
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        at = token.end()
        kind = token.lastgroup
        word = token[kind or 0]
        if kind == "escaped":
            word = f"\\{word}" if word in r"\.[](){}*+?|^$" else word
        elif kind == "digit":
            word = "[0-9]"
        elif kind == "group":
            word = "("
        pieces.append(word)
    return "".join(pieces).encode("latin-1")
