"""Values as JSON, whatever text is in them: paths and arguments need not be UTF-8."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import asdict

Json = TypeVar("Json", bytes, bytearray)

_C1 = re.compile(rb"\xc2([\x80-\x9f])")
"""Control characters that JSON does not escape, and that a terminal obeys."""


def to_json(value: Any, *, indent: bool = False) -> bytes:
    """The JSON of ``value``: structs as objects, bytes that are not UTF-8 escaped, NUL left out.

    NUL would end a line for log shippers that are written in C. All control characters are escaped.
    """
    option = orjson.OPT_INDENT_2 if indent else 0
    try:
        text = orjson.dumps(value, asdict, option)
    except TypeError:
        text = orjson.dumps(_clean(value), option=option)
    if b"\\u0000" in text:
        text = orjson.dumps(_clean(value), option=option)
    return escaped(text)


def escaped(json: Json) -> Json:
    """``json`` with those control characters escaped that orjson leaves unchanged."""
    if _C1.search(json) is None:
        return json
    return type(json)(_C1.sub(lambda found: b"\\u00%02x" % ord(found[1]), json))


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
