"""Values as JSON, whatever text is in them: paths need not be UTF-8; pure."""

from __future__ import annotations

import re
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict

_UNESCAPED = re.compile(rb"\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")
"""What JSON does not escape, in UTF-8: control characters of C1, which a terminal obeys, and U+2028
and U+2029, which break lines, as U+0085 of C1 does."""


def to_json(value: Any, *, indent: bool = False) -> bytes:
    """The JSON of ``value``: structs as objects, bytes that are not UTF-8 escaped, NUL left out.

    NUL would end a line for log shippers that are written in C. All control characters and line
    breaks are escaped.
    """
    option = orjson.OPT_INDENT_2 if indent else 0
    try:
        text = orjson.dumps(value, asdict, option)
    except TypeError:
        text = orjson.dumps(_clean(value), option=option)
    if b"\\u0000" in text:
        text = orjson.dumps(_clean(value), option=option)
    return escaped(text)


def escaped(json: bytes) -> bytes:
    """``json`` with those characters escaped that orjson leaves unchanged."""
    if b"\xc2" not in json and b"\xe2\x80" not in json:  # this check is fast
        return json
    return _UNESCAPED.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), json)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "backslashreplace").decode()
    if isinstance(value, (tuple, list)):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, Struct):
        return _clean(asdict(value))
    return value
