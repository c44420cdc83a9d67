"""Reads what Python's faulthandler has printed; pure.

The format is that of CPython's traceback.c, 3.10 to 3.14: a line for each thread, then its calls,
the innermost first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ascend_supervisor.stacks.seen import Frame, PythonThread

_HEAD = re.compile(r"(Current thread|Thread|Stack)\b.*\(most recent call first\):")
_CALL = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')


def threads_of(lines: Sequence[str]) -> tuple[PythonThread, ...]:
    """The threads in these lines, as far as they are complete; lines of other kinds end a stack.

    The thread that handled the signal is called MainThread, which Python makes it.
    """
    return tuple(_threads(lines))


def _threads(lines: Sequence[str]) -> Iterator[PythonThread]:
    for index, line in enumerate(lines):
        if head := _HEAD.fullmatch(line):
            is_current = head[1] != "Thread"
            frames = tuple(_frames(lines[index + 1 :]))
            yield PythonThread(frames, "MainThread" if is_current else None, active=is_current)


def _frames(lines: Sequence[str]) -> Iterator[Frame]:
    for line in lines:
        call = _CALL.fullmatch(line)
        if call is None:
            return
        yield Frame(call[3], call[1], int(call[2]) if call[2].isdecimal() else 0)
