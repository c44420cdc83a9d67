"""The exception that an output ends with, where its traceback is missing; pure.

A log may be cut or filtered, and some programs print no traceback. It is weak evidence: what was
handled looks the same, so it counts only near the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ascend_supervisor.evidence.log_records import is_quiet, level_of
from ascend_supervisor.evidence.patterns import pattern
from ascend_supervisor.evidence.speakers import without_warnings

_ALONE = pattern(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception)(?:: ?\S|:?\s*$)"
    r"|(?:socket|ssl|struct|zlib|zipfile|gzip|tarfile|lzma|pickle|sqlite3|binascii|subprocess)"
    r"\.[A-Za-z]{1,60}: \S|(?:[a-z_]\w{0,60}\.){1,8}(?:errors?|exceptions?|exc)\.[A-Z]\w{0,60}: \S",
    re.ASCII,
)
"""A type by its name or by that of its module: loggers have other names of this form."""
_IN_RECORD = pattern(rf"(?:(?:[\]:|>)-]|ERROR|CRITICAL) {{1,4}}|:)(?={_ALONE.pattern})", re.ASCII)
_SEVERE = frozenset({"error", "critical"})
_BETWEEN = pattern(r"\s|$|During handling of |The above exception was ")
_SEARCHED = 60
_MOST_AFTER = 10
"""So many lines, without details, may follow: more come from a process that went on."""
_HEAD_CHARACTERS = 200


def lone_exception(lines: Sequence[str]) -> tuple[str, ...]:
    """The last one with what follows it, and with those directly before it; may be empty.

    Each begins with its type: the head of a log record is taken off.
    """
    told = [_exception_in(line) or line for line in without_warnings(lines[-_SEARCHED:])]
    at = next((at for at in reversed(range(len(told))) if _ALONE.match(told[at])), None)
    if at is None or sum(map(_goes_on, told[at + 1 :])) > _MOST_AFTER:
        return ()
    return (*reversed(list(_history(told[:at]))), *told[at:])


def _exception_in(line: str) -> str | None:
    """What a record of an error tells, if that is an exception."""
    found = _IN_RECORD.search(line, 0, _HEAD_CHARACTERS)
    return line[found.end() :] if found and level_of(line) in _SEVERE else None


def _goes_on(line: str) -> bool:
    """Whether it is more than a detail of what was said before."""
    return line[:1].strip() != "" and not is_quiet(line)


def _history(before: Sequence[str]) -> Iterator[str]:
    """The exceptions directly before, the last first: one was raised while another was handled."""
    details: list[str] = []
    for line in reversed(before):
        if _ALONE.match(line):
            yield from (*details, line)
            details = []
        elif _BETWEEN.match(line):
            details.append(line)
        else:
            return
