"""The text of one file: all that was seen of a rank and its processes; pure.

Names in it are strangers': whatever is not printable is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator

from ascend_supervisor.stacks.seen import Frame, KernelThread, Looked, PythonThread, SeenProcess
from ascend_supervisor.untrusted_text import printable

MOST_CHARACTERS = 2 * 1024 * 1024
_CUT = "... cut here, because the file would be too long\n"


def page(looked: Looked, headline: str) -> str:
    """``headline`` says why and when it was written."""
    text = "".join(f"{line}\n" for line in _lines(looked, headline))
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\n{_CUT}"


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
