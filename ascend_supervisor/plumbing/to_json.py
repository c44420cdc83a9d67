"""Values as JSON, whatever text is in them: paths and arguments need not be UTF-8."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any

import orjson


def to_json(value: Any, *, indent: bool = False) -> bytes:
    """The JSON of ``value``: dataclasses as objects, what is not UTF-8 escaped, NUL left out.

    NUL would end a line for log shippers that are written in C.
    """
    option = orjson.OPT_INDENT_2 if indent else 0
    try:
        text = orjson.dumps(value, option=option)
    except TypeError:
        return orjson.dumps(_clean(value), option=option)
    return orjson.dumps(_clean(value), option=option) if b"\\u0000" in text else text


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "backslashreplace").decode()
    if isinstance(value, (tuple, list)):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return _clean(asdict(value))
    return value
