"""Which lines are plainly records of a logger that tell of no trouble; pure.

Their level is INFO or below, and stands where loggers put it.
"""

from __future__ import annotations

import re

_HEAD_CHARACTERS = 160
"""Of a line: the level stands in them."""
_LEVEL = re.compile(
    r"\b(?:(?P<quiet>INFO|DEBUG|TRACE|NOTICE|SUCCESS)"
    r"|(?:WARN(?:ING)?|ERROR|CRITICAL|FATAL|EXCEPTION))\b"
)
_TIME = r"\[?\d[\d:,./TZ+|\[\]\s-]{6,40}"
_DIRECTLY = re.compile(
    rf"\s*\[?\s{{0,8}}|{_TIME}(?:\S{{0,80}}[.:\d\[_]\S{{0,80}} {{1,4}}\[?)?|.* NCCL "
)
"""What may stand before a level that has no mark of its own: a time, and one name with a dot."""
_NAMED = re.compile(rf"{_TIME}.*|\S{{1,80}}(?: - |: ?| \| |\] )[\[(]?")
"""The same of a level that has one."""
_MARK = re.compile(r"\s{0,8}[\]:|)>-]")
_SHORT = re.compile(
    r"\[?[ID]\d{4,8} \d\d:\d\d:\d\d"  # glog, absl, torch
    r"|\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+:? [ID] "  # TensorFlow, Ray
    rf"|{_TIME}(?:info|debug) *\]"  # structlog
    r"|(?:\w{1,30}=.{0,150} )?level=\"?(?:info|debug)\b"
    r"|\{.{0,150}\"(?:level|levelname|severity)\": ?\"(?:info|debug)\b",
    re.IGNORECASE,
)


def is_quiet(line: str) -> bool:
    """Whether ``line`` is such a record, as Python's logging, loguru, glog and CANN write them."""
    if _SHORT.match(line):
        return True
    level = _LEVEL.search(line, 0, _HEAD_CHARACTERS)
    if level is None or level["quiet"] is None:
        return False
    before = line[: level.start()]
    if _DIRECTLY.fullmatch(before):
        return True
    return _MARK.match(line, level.end()) is not None and _NAMED.fullmatch(before) is not None
