"""What keeps bytes from being JSON, in one sentence with line and column; pure."""

from __future__ import annotations

import re

import orjson

_SPACE = " \t\r\n"
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,39}|-?[0-9][0-9.eE+-]{0,39}")
_COMMENTS = ("//", "/*", "#")


def json_defect(data: bytes, error: orjson.JSONDecodeError) -> str:
    """Where and why ``data`` is not JSON; lines and columns count from 1, columns in characters.

    The position is the parser's. Comments and commas before a closing bracket are named, because
    people write them and samples of documentation hold them.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as undecodable:
        before = data[: undecodable.start].decode()
        byte = data[undecodable.start]
        return f"{_place(before, len(before))}: byte 0x{byte:02x} is not valid UTF-8"
    at = _comma_before_end(text, error.pos)
    if at is not None:
        return f"{_place(text, at)}: a comma after the last element, which JSON does not allow"
    return f"{_place(text, error.pos)}: {_found(text, error)}"


def _found(text: str, error: orjson.JSONDecodeError) -> str:
    rest = text[error.pos : error.pos + 40]
    if not rest.strip(_SPACE):
        return "the document ends too early"
    if rest.startswith(_COMMENTS):
        return "a comment, which JSON does not allow"
    if rest.startswith("'"):
        return "a single quote, but JSON strings have double quotes"
    word = _WORD.match(rest)
    return f"{error.msg}, at {word[0] if word else rest[0]!r}"


def _comma_before_end(text: str, at: int) -> int | None:
    """Where a comma before a closing bracket is, if the parser stopped at either of them."""
    before = text[:at].rstrip(_SPACE)
    if text[at : at + 1] in ("]", "}") and before.endswith(","):
        return len(before) - 1
    is_last = text[at : at + 1] == "," and text[at + 1 :].lstrip(_SPACE)[:1] in ("]", "}")
    return at if is_last else None


def _place(text: str, at: int) -> str:
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - before.rfind(chr(10))}"
