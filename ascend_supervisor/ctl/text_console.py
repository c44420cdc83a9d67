"""What our own console for people (--console text) holds: the output of ranks, our events; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LABEL = re.compile(r"\[(?:rank +(\d{1,7})|[^\[\]]{1,80})\] ", re.ASCII)
_EVENT = r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3} "
_STARTS = re.compile(rf"{_EVENT}(?:UTC ascend_supervisor |generation \d+ starts)", re.ASCII)
_ERROR = re.compile(rf"{_EVENT}error: ", re.ASCII)


def is_text_console(lines: Sequence[str]) -> bool:
    """Whether a start or a generation begins in it, or most of its lines are of labelled ranks."""
    if any(map(_STARTS.match, lines)):
        return True
    labels = filter(None, map(_LABEL.match, lines))
    return 2 * sum(label[1] is not None for label in labels) > len(lines)


def output_in(lines: Sequence[str]) -> tuple[str, ...]:
    """The output of the last generation, without labels; that of a rank has a mark as of torch."""
    begin = max((at + 1 for at, line in enumerate(lines) if _STARTS.match(line)), default=0)
    found = ((line, _LABEL.match(line)) for line in lines[begin:])
    return tuple(_mark(label) + line[label.end() :] for line, label in found if label)


def said_of_end(lines: Sequence[str]) -> str | None:
    """Our last error: how the job, or its last generation, has ended."""
    found = next(filter(None, map(_ERROR.match, reversed(lines))), None)
    return None if found is None else found.string[found.end() :]


def _mark(label: re.Match[str]) -> str:
    return "" if label[1] is None else f"[rank{label[1]}]: "
