"""Text from outside in our messages: on one line, with a suggestion for misspelt names; pure."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 80
_LARGEST = 10**18


def shown(found: object) -> str:
    """A value of a document or a command line; always printable, on one line, not long."""
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, str):
        quoted = repr(found[:_LONGEST])  # of what is printable each backslash is one
        return clipped(quoted.replace("\\\\", "\\") if found.isprintable() else quoted)
    if isinstance(found, float) or (isinstance(found, int) and abs(found) < _LARGEST):
        return str(found)
    if isinstance(found, list):
        return clipped(f"[{', '.join(shown(item) for item in found[:_LONGEST])}]")
    return {dict: "a table", int: "a very large number"}.get(type(found), "a date or time")


def plain(text: str) -> str:
    """A name or a message unchanged, or quoted if it would break a line of a log."""
    return text if text.isprintable() else repr(text)


def nearest(word: str, known: Iterable[str], prefix: str = "") -> str:
    """The one of ``known`` that ``word`` resembles; empty when it resembles none.

    All of ``known`` begin with ``prefix``, which is ignored.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes pay for it

    names = [name.removeprefix(prefix) for name in known]
    near = get_close_matches(word.removeprefix(prefix)[:_LONGEST], names, n=1, cutoff=0.7)
    return f"{prefix}{near[0]}" if near else ""


def unknown(word: str, near: str, otherwise: str) -> str:
    """The fault for an unknown name; ``otherwise`` is added if there is no name ``near`` it."""
    return f"{clipped(plain(word))} is not known; {f'did you mean {near}?' if near else otherwise}"


def clipped(text: str, most: int = _LONGEST) -> str:
    """At most so many characters of it; three dots mark that something is missing."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def within(text: str, most: int) -> str:
    """The same in so many bytes of UTF-8."""
    data = text.encode(errors="backslashreplace")
    return text if len(data) <= most else data[: max(most - 3, 0)].decode(errors="ignore") + "..."


def printable(text: str, most: int | None = None) -> str:
    """``text`` on one line, cut after ``most`` characters: unprintable ones are escaped."""
    text = text[:most]
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)[:most]
