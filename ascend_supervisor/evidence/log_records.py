"""Which level a line shows that is plainly a record of a logger; pure.

The level counts only where loggers put it.
"""

from __future__ import annotations

import re

from ascend_supervisor.evidence.patterns import pattern

_HEAD_CHARACTERS = 160
"""Of a line: the level stands in them."""
_LEVEL = pattern(
    r"\b(INFO|DEBUG|TRACE|NOTICE|SUCCESS|EVENT|WARN|WARNING|ERROR|EXCEPTION|CRITICAL|FATAL)\b"
)
_TIME = r"\[?\d[\d:,./TZ+|\[\]\s-]{6,40}"
_DIRECTLY = pattern(
    rf"\s*\[?\s{{0,8}}|{_TIME}(?:\S{{0,80}}[.:\d\[_]\S{{0,80}} {{1,4}}\[?)?|.* NCCL "
)
"""What may stand before a level that has no mark of its own: a time, and one name with a dot."""
_NAMED = pattern(rf"{_TIME}.*|\S{{1,80}}(?: - |: ?| \| |\] )[\[(]?")
"""The same of a level that has one."""
_MARK = pattern(r"\s{0,8}[\]:|)>-]")
_WORDS = r"trace|debug|info|notice|success|warn|warning|error|exception|critical|fatal"
_SHORT = pattern(
    r"\[?([DIWEF])\d{4,8} \d\d:\d\d:\d\d"  # glog, absl, torch
    r"|\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+:? ([DIWEF]) "  # TensorFlow, Ray
    rf"|{_TIME}({_WORDS}) *\]"  # structlog
    rf"|(?:\w{{1,30}}=.{{0,150}} )?level=\"?({_WORDS})\b"
    rf"|\{{.{{0,150}}\"(?:level|levelname|severity)\": ?\"({_WORDS})\b",
    re.IGNORECASE,
)
LEVELS = ("debug", "info", "warning", "error", "critical")
"""From the least to the most severe."""
_MEANINGS = {
    **dict.fromkeys(("D", "DEBUG", "TRACE"), "debug"),
    **dict.fromkeys(("I", "INFO", "NOTICE", "SUCCESS", "EVENT"), "info"),
    **dict.fromkeys(("W", "WARN", "WARNING"), "warning"),
    **dict.fromkeys(("E", "ERROR", "EXCEPTION"), "error"),
    **dict.fromkeys(("F", "FATAL", "CRITICAL"), "critical"),
}


def is_quiet(line: str) -> bool:
    """Whether ``line`` is a record that tells of no trouble: of level INFO or below."""
    return level_of(line) in {"debug", "info"}


def level_of(line: str) -> str | None:
    """The one of ``LEVELS`` that ``line`` shows, or None.

    As Python's logging, loguru, structlog, glog, CANN and MindSpore write it.
    """
    if short := _SHORT.match(line):
        return _MEANINGS[short[short.lastindex or 0].upper()]
    level = _LEVEL.search(line, 0, _HEAD_CHARACTERS)
    if level is None:
        return None
    before = line[: level.start()]
    has_mark = _MARK.match(line, level.end()) is not None
    if _DIRECTLY.fullmatch(before) or (has_mark and _NAMED.fullmatch(before)):
        return _MEANINGS[level[1]]
    return None
