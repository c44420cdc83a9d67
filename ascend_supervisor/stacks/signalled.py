"""Asks a rank by a signal for its own stacks, such as faulthandler.register prints them.

The format is that of CPython's traceback.c, 3.10 to 3.14: a line for each thread, then its calls,
the innermost first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from signal import Signals

from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import catches
from ascend_supervisor.stacks.seen import Frame, Looked, PythonThread, SeenProcess
from ascend_supervisor.tasks.clock import Clock

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


ANSWER_SECONDS = 3.0
"""How long a rank may take to write its stacks."""
SETTLE_SECONDS = 0.2
"""A rank that has written nothing for so long after its first words has finished."""
LOOK_AGAIN_SECONDS = 0.05


async def ask(looked: Looked, number: Signals, clock: Clock) -> None:
    """Send the signal to the rank, and keep what it writes then.

    It goes to one process: the first, from the top, that has a handler. Without one the signal
    would end it. Processes that serve ranks get none.
    """
    if not _is_rank(looked):
        return
    process = next((one for one in looked.processes if catches(one.pid, number)), None)
    if process is None:
        looked.would_die = not looked.has_ended
        looked.notes.append(f"{number.name} was not sent: it has no handler, and would die of it")
        return
    activity = looked.subject.activity
    before = activity.bytes
    if not _send(process, number):
        looked.notes.append(f"{number.name} could not be sent to process {process.pid}")
        return
    await _answered(activity, clock)
    size = activity.bytes - before
    looked.notes.append(f"{number.name} was sent to process {process.pid}: {size} bytes of output")
    looked.output = _lines(activity, size)
    process.python = threads_of(looked.output)


def _is_rank(looked: Looked) -> bool:
    subject = looked.subject
    return subject.rank is not None or (subject.leads_ranks and not subject.others)


def _send(process: SeenProcess, number: Signals) -> bool:
    with suppress(OSError):
        return Pid(process.pid, process.start).send(number)
    return False


async def _answered(activity: Activity, clock: Clock) -> None:
    """Return when it has settled, or has written nothing; after ANSWER_SECONDS in any case."""
    before = seen = activity.bytes
    now = settled_at = clock.now()
    until = now + ANSWER_SECONDS
    while now < until and (seen == before or now < settled_at):
        await clock.sleep(LOOK_AGAIN_SECONDS)
        now = clock.now()
        if activity.bytes != seen:
            seen, settled_at = activity.bytes, now + SETTLE_SECONDS


def _lines(activity: Activity, size: int) -> tuple[str, ...]:
    """The end of the output, which is all that is kept of it."""
    new = bytes(activity.tail[-size:]) if size else b""
    return tuple(new.decode("utf-8", "backslashreplace").splitlines())
