"""The Python exception, or the missing script, that ended a rank, in its last lines; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct


class Raised(Struct, frozen=True):
    """An exception: its type, and its message with what was written after it.

    The first line of ``text`` begins with the type.
    """

    kind: str
    text: tuple[str, ...]


_FRAME = re.compile(r'\s+File "[^"]*", line \d+|╰─')
"""A frame as Python prints it, or the lower edge of a traceback that rich has drawn."""
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?:: |:?$)")
_LINK = re.compile(
    r"During handling of the above exception|The above exception was the direct cause"
)
_ASIDE = re.compile(r"Exception ignored in|Exception in thread|Exception in callback")
_OF_CHILD = re.compile(r"ChildFailedError|CalledProcessError|ProcessExitedException")
"""What a launcher raises because a process of its own has failed."""
_REFUSAL = re.compile(
    r"(?:.*/)?python[\d.]*: "
    r"(?:can't (?:open file|find '__main__')|No module named|Error while finding)"
    r"|\S*\b(?:ba|da)?sh: .*(?:No such file or directory|Permission denied|not found)$"
)
"""What an interpreter writes that cannot start its script."""
_RANK = re.compile(r"\[rank(\d+)\]: ?", re.ASCII)

LINE_CHARACTERS = 1000
"""What of a line is searched: a search must end soon, whatever a rank has written."""


def of_rank(lines: Iterable[str], rank: int | None) -> tuple[str, ...]:
    """The lines without those that torch has marked as another rank's, and without its marks."""
    return tuple(_of_rank((line[:LINE_CHARACTERS] for line in lines), rank))


def first_raised(lines: Iterable[str]) -> Raised | None:
    """The exception that came first where the last one has a history, or None.

    In Python's words: the first of those that were raised while another was handled. What a
    destructor or a thread has raised counts only where nothing else has, and so does a launcher's
    report of a failed process.
    """
    aside: Raised | None = None
    found: Raised | None = None
    for chain in _chains(lines):
        if chain.is_aside:
            aside = chain.first
        else:
            found = chain.first
    return found or aside


def raised_in(message: str | None) -> Raised | None:
    """The exception of an error file, such as ``ValueError: no such file``."""
    text = tuple(line[:LINE_CHARACTERS] for line in (message or "").strip().splitlines())
    named = _EXCEPTION.match(text[0]) if text else None
    return Raised(named[1], text) if named else None


def refused_script(lines: Sequence[str]) -> str | None:
    """The last line, if in it Python or a shell says why it could not run its script or command.

    Such as ``python3: can't open file '/code/train.py': [Errno 2] No such file or directory``.
    """
    last = next((line for line in reversed(lines) if line.strip()), "")
    return last if _REFUSAL.match(last) else None


class _Chain(Struct, frozen=True):
    first: Raised
    is_aside: bool


def _chains(lines: Iterable[str]) -> Iterator[_Chain]:
    """The first exception of each run of linked tracebacks."""
    blocks = list(_blocks(lines))
    for number, (lead, text) in enumerate(blocks):
        if number and _links(blocks[number - 1][1]):
            continue
        named = _EXCEPTION.match(text[0])
        if named:
            is_aside = any(map(_ASIDE.search, lead)) or bool(_OF_CHILD.search(named[1]))
            yield _Chain(Raised(named[1], text), is_aside)


def _blocks(lines: Iterable[str]) -> Iterator[tuple[Sequence[str], tuple[str, ...]]]:
    """Each traceback: the two lines before its frames, and what follows these."""
    before: list[str] = []
    lead: Sequence[str] = ()
    text: list[str] | None = None
    in_frames = False
    for line in lines:
        if _FRAME.match(line):
            if not in_frames:
                if text:
                    yield lead, tuple(text)
                lead, text, in_frames = tuple(before[-2:]), [], True
        elif in_frames and line[:1].isspace():
            continue
        elif text is not None:
            in_frames = False
            text.append(line)
        before.append(line)
    if text:
        yield lead, tuple(text)


def _links(text: Sequence[str]) -> bool:
    return any(map(_LINK.match, text))


def _of_rank(lines: Iterable[str], rank: int | None) -> Iterator[str]:
    for line in lines:
        mark = _RANK.match(line)
        if mark is None:
            yield line
        elif rank is None or int(mark[1]) == rank:
            yield line[mark.end() :]
