"""Who waits where, in one sentence; and all that was seen of a rank, as a file; pure.

Names in it are strangers': whatever is not printable is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from ascend_supervisor.stacks.seen import (
    ENDED,
    RUNNING,
    STOPPED,
    STUCK,
    Frame,
    KernelThread,
    Looked,
    PythonThread,
    SeenProcess,
)
from ascend_supervisor.untrusted_text import printable

MOST_GROUPS = 4
MOST_CHARACTERS = 300
NAME_CHARACTERS = 48

WRAPPERS = frozenset(
    {"wrapper", "wrapped", "inner", "_fn", "decorate_context", "_call_impl", "_wrapped_call_impl"}
)
"""What decorators call their functions: c10d_logger.py, _contextlib.py and module.py of torch."""
_MODULE = "<module>"
_TOP_OF_STACK = re.compile(r"\[<\w+>\] (\w+)", re.ASCII)
"""In /proc/PID/stack; wchan is 0 for a moment after a thread has begun to wait."""
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3")
_WAITS_FOR_A_CHILD = frozenset({"wait4", "waitid"})


class Whereabouts(Struct, frozen=True):
    """``state`` is that of proc(5), empty if unknown; ``where`` is empty if that is unknown."""

    state: str
    where: str = ""

    @property
    def group(self) -> Whereabouts:
        """Equal for places that are told together: a busy wait is now asleep, now running."""
        if not self.where or self.state in STOPPED | {STUCK}:
            return self
        return Whereabouts("", self.where)


def whereabouts(looked: Sequence[Looked]) -> str:
    """The ranks, grouped by their places, the largest group first; at most MOST_CHARACTERS.

    Where no rank is known, or all have ended, the processes that were started are told in their
    place.
    """
    ranks = [one for one in looked if one.subject.rank is not None]
    significant = [one for one in looked if one.subject.significant]
    if all(one.has_ended for one in ranks):
        ranks = [one for one in significant if not one.has_ended] or ranks
    shown = ranks or significant or looked
    return sentence({one.subject.name: place_of(one) for one in shown})


def sentence(places: Mapping[str, Whereabouts]) -> str:
    """``places`` by the names of ranks, in their order."""
    groups: dict[Whereabouts, list[str]] = {}
    for name, place in places.items():
        groups.setdefault(place.group, []).append(name)
    ordered = sorted(groups.values(), key=lambda names: -len(names))
    parts = [_part(names, len(places), [places[name] for name in names]) for names in ordered]
    text = ""
    for count in range(min(MOST_GROUPS, len(parts)), 0, -1):
        text = "; ".join((*parts[:count], *_others(ordered[count:])))
        if len(text) <= MOST_CHARACTERS:
            break
    return text[:MOST_CHARACTERS]


def _part(names: Sequence[str], total: int, places: Sequence[Whereabouts]) -> str:
    return f"{_who(names, total)} {_does(places, is_one=len(names) == 1)}"


def _who(names: Sequence[str], total: int) -> str:
    if len(names) == 1:
        return printable(names[0], NAME_CHARACTERS)
    return f"all {total} ranks" if len(names) == total else f"{len(names)} of {total} ranks"


def _others(groups: Sequence[Sequence[str]]) -> Iterator[str]:
    if count := sum(map(len, groups)):
        yield f"and {count} {'other' if count == 1 else 'others'} elsewhere"


def _does(places: Sequence[Whereabouts], *, is_one: bool) -> str:
    are, wait = ("is", "waits") if is_one else ("are", "wait")
    place = places[0]
    at = f" in {place.where}" if place.where else ""
    if place.state in STOPPED:
        return f"{are} stopped (state T){at}"
    if place.state == STUCK:
        return f"{are} in uninterruptible sleep (state D){at}"
    if place.state in ENDED:
        return "has ended" if is_one else "have ended"
    if at:
        return f"{wait if all(one.state == 'S' for one in places) else are}{at}"
    if place.state == RUNNING:
        return f"{are} running"
    return f"{are} asleep (state {place.state})" if place.state else "could not be looked at"


def place_of(looked: Looked) -> Whereabouts:
    """Where a rank is: the main thread of its process, or of the one that this waits for."""
    if looked.has_ended:
        return Whereabouts("Z")
    if not looked.processes:
        return Whereabouts("")
    process = _working(looked.processes)
    python = _python_place(process)
    kernel = "" if process.state in STOPPED else _kernel_place(process)
    if process.state == STUCK and kernel and python:
        return Whereabouts(STUCK, f"{kernel}, called from {python}")
    return Whereabouts(process.state, python or kernel)


def _working(processes: Sequence[SeenProcess]) -> SeenProcess:
    """The first process, unless it, such as a shell, waits for its child: then that one."""
    process = processes[0]
    for below in processes[1:]:
        if below.parent == process.pid and _waits_for_a_child(process):
            process = below
    return process


def _waits_for_a_child(process: SeenProcess) -> bool:
    main = process.main
    return main is not None and (
        main.system_call in _WAITS_FOR_A_CHILD or main.wchan.startswith("do_wait")
    )


def _kernel_place(process: SeenProcess) -> str:
    main = process.main
    if main is None or main.state == RUNNING:
        return ""
    top = _TOP_OF_STACK.match(main.stack)
    return _name(main.wchan or (top[1] if top else main.system_call))


def _python_place(process: SeenProcess) -> str:
    """Such as ``all_reduce (train.py:88)``: the innermost call, and the user's line."""
    frames = _main_frames(process)
    if not frames:
        return ""
    innermost = next((one for one in frames if not _is_wrapper(one)), frames[0])
    line = _line(next(filter(_is_users, frames), innermost))
    return line if innermost.name == _MODULE else f"{_name(innermost.name)} ({line})"


def _main_frames(process: SeenProcess) -> Sequence[Frame]:
    threads = [thread for thread in process.python if thread.frames]
    return next((one.frames for one in threads if _is_main(one, process)), ())


def _is_main(thread: PythonThread, process: SeenProcess) -> bool:
    if process.main is not None and process.main.tid != process.pid:  # its main thread has ended
        return thread.os_thread_id == process.main.tid
    is_named = thread.thread_name == "MainThread" or len(process.python) == 1
    return is_named or thread.os_thread_id == process.pid


def _is_wrapper(frame: Frame) -> bool:
    return frame.name in WRAPPERS and not _is_users(frame)


def _is_users(frame: Frame) -> bool:
    return not frame.filename.startswith("<") and not _has(frame.filename, _LIBRARIES)


def _has(text: str, parts: Iterable[str]) -> bool:
    return any(part in text for part in parts)


def _line(frame: Frame) -> str:
    name = _name(PurePath(frame.filename).name or "?")
    return f"{name}:{frame.line}" if frame.line > 0 else name


def _name(text: str) -> str:
    return printable(text, NAME_CHARACTERS)


MOST_OF_A_FILE = 2 * 1024 * 1024
_CUT = "... cut here, because the file would be too long\n"


def page(looked: Looked, headline: str) -> str:
    """``headline`` says why and when it was written."""
    text = "".join(f"{line}\n" for line in _lines(looked, headline))
    return text if len(text) <= MOST_OF_A_FILE else f"{text[:MOST_OF_A_FILE]}\n{_CUT}"


def _lines(looked: Looked, headline: str) -> Iterator[str]:
    yield headline
    yield f"{printable(looked.subject.name)}, its log: {printable(looked.subject.log)}"
    for note in looked.notes:
        yield f"({printable(note)})"
    if looked.has_ended:
        yield "The process has ended."
    elif not looked.processes:
        yield "Nothing could be read in time."
    for line in looked.output:
        yield f"| {printable(line)}"
    for process in looked.processes:
        yield ""
        yield from _process(process)


def _process(process: SeenProcess) -> Iterator[str]:
    yield f"Process {process.description}"
    for note in process.notes:
        yield f"  ({printable(note)})"
    for thread in process.python:
        yield from _python_thread(thread)
    for one in process.threads:
        yield from _kernel_thread(one)


def _python_thread(thread: PythonThread) -> Iterator[str]:
    state = f"{'active' if thread.active else 'idle'}{', holds the GIL' * thread.owns_gil}"
    name = f' "{printable(thread.thread_name)}"' if thread.thread_name else ""
    yield f"  Python thread {thread.os_thread_id or '?'}{name} ({state}), innermost call first:"
    for frame in thread.frames:
        yield f"    {_frame(frame)}"


def _frame(frame: Frame) -> str:
    line = f":{frame.line}" if frame.line > 0 else ""
    return printable(f"{frame.name} ({frame.filename}{line})")


def _kernel_thread(thread: KernelThread) -> Iterator[str]:
    places = [f"state {thread.state or '?'}"]
    if thread.wchan:
        places.append(f"in the kernel's {thread.wchan}")
    if thread.system_call:
        places.append(f"called by {thread.system_call}")
    yield printable(f"  Thread {thread.tid} {thread.name}: {', '.join(places)}")
    for line in thread.stack.splitlines():
        yield f"    {printable(line)}"
