"""Which causes a text shows signs of: one scan, linear in its length, without a regex; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from msgspec import Struct

from ascend_supervisor.causes.cause import CauseRow, Sign, Where

_DEPTH: dict[Where, int] = {"exception": 0, "output": 1, "plog": 2}


class Match(Struct, frozen=True):
    """A line, by its index, that shows a sign of ``cause``; ``weight`` counts its characters.

    It ``is_type`` if the sign is only the type of an exception. ``file`` is the end of the path of
    the file that has raised it, if the sign asks for one.
    """

    cause: CauseRow
    line: int
    weight: int
    is_type: bool = False
    file: str = ""


def matches(lines: Sequence[str], where: Where, causes: Iterable[CauseRow]) -> Iterator[Match]:
    """The first line for each sign of each cause that may be seen there.

    What is written in a plog may also be in the output, and that in an exception.
    """
    text = "\n".join(("", *lines, ""))
    words = {*text.split()}
    for cause in causes:
        for sign in cause.signs:
            if _DEPTH[where] <= _DEPTH[sign.where] and _inner_words(sign.seen) <= words:
                at = _found(text, sign.seen)
                if at is not None:
                    line = text.count("\n", 0, at) - 1
                    yield Match(cause, line, _weight(sign), sign.is_type, sign.file)


@cache
def _inner_words(seen: str) -> frozenset[str]:
    """Words between two spaces: a text without one of them need not be searched for the sign."""
    parts = seen.split("*")
    return frozenset(word for part in parts for word in part.split(" ")[1:-1] if word)


def _weight(sign: Sign) -> int:
    return len(sign.seen.replace("*", ""))


def _found(text: str, seen: str) -> int | None:
    """Where the first line begins that has all parts in their order, after its line feed."""
    parts, longest = _parts(seen)
    at = text.find(longest)
    while at >= 0:
        begin, end = text.rindex("\n", 0, at + 1), text.index("\n", max(at, 1) + len(longest) - 1)
        if _has(text, parts, begin, end):
            return begin + 1
        at = text.find(longest, end)
    return None


@cache
def _parts(seen: str) -> tuple[tuple[str, ...], str]:
    """Its parts in their order, and the longest of them, which few texts have."""
    anchored = f"\n{seen[1:]}" if seen.startswith("^") else seen
    parts = tuple(part for part in anchored.split("*") if part)
    return parts, max(parts, key=len)


def _has(text: str, parts: Sequence[str], begin: int, end: int) -> bool:
    at = begin
    for part in parts:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
