"""A cursor over JSON from outside: its refusals name path and value, or line and column; pure."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

import orjson
from msgspec import Struct, field

_SPACE = " \t\r\n"
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,39}|-?[0-9][0-9.eE+-]{0,39}")
_COMMENTS = ("//", "/*", "#")
_CUT_SHORT = "the document ends too early"


def json_defect(data: bytes, error: orjson.JSONDecodeError) -> str:
    """Where and why ``data`` is not JSON; lines and columns count from 1, columns in characters.

    The position is the parser's. Comments and commas before a closing bracket are named, because
    people write them and samples of documentation hold them.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as undecodable:
        before = data[: undecodable.start].decode()
        byte = data[undecodable.start]
        return f"{_place(before, len(before))}: byte 0x{byte:02x} is not valid UTF-8"
    at = _comma_before_end(text, error.pos)
    if at is not None:
        return f"{_place(text, at)}: a comma after the last element, which JSON does not allow"
    return f"{_place(text, error.pos)}: {_found(text, error)}"


def _found(text: str, error: orjson.JSONDecodeError) -> str:
    rest = text[error.pos : error.pos + 40]
    if not rest.strip(_SPACE):
        return _CUT_SHORT
    if rest.startswith(_COMMENTS):
        return "a comment, which JSON does not allow"
    if rest.startswith("'"):
        return "a single quote, but JSON strings have double quotes"
    word = _WORD.match(rest)
    return f"{error.msg}, at {word[0] if word else rest[0]!r}"


def _comma_before_end(text: str, at: int) -> int | None:
    """Where a comma before a closing bracket is, if the parser stopped at either of them."""
    before = text[:at].rstrip(_SPACE)
    if text[at : at + 1] in ("]", "}") and before.endswith(","):
        return len(before) - 1
    is_last = text[at : at + 1] == "," and text[at + 1 :].lstrip(_SPACE)[:1] in ("]", "}")
    return at if is_last else None


def _place(text: str, at: int) -> str:
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - before.rfind(chr(10))}"


K = TypeVar("K", bound=Hashable)

_DECIMAL = re.compile(r"-?[0-9]{1,18}")
_HUGE = 10**18
_MOST_SHOWN = 40

MOST_VALUES = 4_000_000
"""Of a document, counted by brackets and commas: a table of 100,000 devices has 400,000 or so."""


class NotJson(ValueError):
    """The bytes are not JSON: cut short, not UTF-8, or nested too deep; the text says where."""

    @property
    def is_cut_short(self) -> bool:
        """Whether only the end is missing."""
        return str(self).endswith(_CUT_SHORT)


class Misfit(ValueError):
    """The document is JSON, but not what was expected; the sentence begins with the path."""


class Cursor(Struct, frozen=True):
    """A value of a document and its path, which is formatted only on demand."""

    value: Any
    parent: Cursor | None = None
    step: str | int = "$"

    @property
    def path(self) -> str:
        steps = []
        at: Cursor | None = self
        while at is not None:
            steps.append(f"[{at.step}]" if isinstance(at.step, int) else f".{at.step}")
            at = at.parent
        return "".join(reversed(steps))[1:]

    def misfit(self, expected: str) -> Misfit:
        return Misfit(f"{self.path}: expected {expected}, found {shown(self.value)}")

    def missing(self, key: str) -> Misfit:
        return Misfit(f"{self.path}: missing {key!r}")

    def get(self, key: str) -> Any:
        """The bare value at ``key``; None when it is absent or null."""
        if not isinstance(self.value, dict):
            raise self.misfit("an object")
        return self.value.get(key)

    def child(self, key: str) -> Cursor:
        value = self.get(key)
        if value is None and key not in self.value:
            raise self.missing(key)
        return Cursor(value, self, key)

    def elements(self, key: str) -> list[Cursor]:
        listed = self.child(key)
        if not isinstance(listed.value, list):
            raise listed.misfit("a list")
        return [Cursor(value, listed, index) for index, value in enumerate(listed.value)]

    def text(self, key: str) -> str:
        """The string at ``key``; an integer there is read as its digits."""
        value = self.get(key)
        if type(value) is int:  # a bool is of another type
            return str(value)
        if type(value) is str:
            return value
        raise self.child(key).misfit("a string")

    def optional_text(self, key: str) -> str | None:
        value = self.get(key)
        return value if value is None or type(value) is str else self.text(key)

    def name(self, key: str) -> str:
        """A text that is safe in an environment variable and on a terminal."""
        value = self.text(key)
        if value.isprintable():
            return value
        raise self.child(key).misfit("a name that can be printed")

    def optional_name(self, key: str) -> str | None:
        return None if self.get(key) is None else self.name(key)

    def integer(self, key: str, least: int = 1 - _HUGE, most: int = _HUGE - 1) -> int:
        """The integer at ``key``, from ``least`` to ``most``; a string of its digits will do."""
        value = self.get(key)
        if type(value) is str and _DECIMAL.fullmatch(value):
            value = int(value)
        if type(value) is int and least <= value <= most:  # a bool is of another type
            return value
        raise self.child(key).misfit(_integer_between(least, most))


class Once(Struct, Generic[K], frozen=True):
    """Keys that may appear only once in a document, each with its place."""

    what: str
    places: dict[K, Cursor] = field(default_factory=dict)

    def take(self, key: K, at: Cursor) -> None:
        """Note that ``key`` appears at ``at``; raises Misfit, with both places, for a duplicate."""
        first = self.places.setdefault(key, at)
        if first is not at:
            raise Misfit(f"{at.path}: {self.what} {shown(key)} is taken already by {first.path}")


def parse_json(data: bytes) -> Cursor:
    """The top of the document, which may begin with a BOM.

    Raises NotJson, or Misfit for a document that is absurdly large.
    """
    values = sum(data.count(mark) for mark in (b"{", b"[", b","))
    if values > MOST_VALUES:  # parsing blocks everything else
        raise Misfit(f"$: expected at most {MOST_VALUES} values, found {values}")
    document = data.removeprefix(BOM_UTF8)
    try:
        return Cursor(orjson.loads(document))
    except orjson.JSONDecodeError as error:
        raise NotJson(json_defect(document, error)) from error


def refuse_doubles(data: bytes, top: Cursor) -> None:
    """Raise Misfit if a key appears twice in one object of ``data``, which was parsed to ``top``.

    RFC 8259 leaves open which of the two counts, and readers differ.
    """
    if _lost_nothing(data, top):
        return
    doubled: list[tuple[dict[str, Any], str]] = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            doubled.append((found, next(name for name in found if names.count(name) > 1)))
        return found

    try:
        # Numbers do not matter here, and the largest of them would be refused as integers.
        again = json.loads(data.decode("utf-8-sig"), object_pairs_hook=look, parse_int=float)
    except RecursionError:
        raise Misfit("$: nested too deep") from None
    if doubled:
        found, name = doubled[-1]  # an earlier one may be in a value that was dropped
        place = next(cursor for cursor in _all(Cursor(again)) if cursor.value is found)
        raise Misfit(f"{place.path}: expected each key once, found {shown(name)} twice or more")


def _lost_nothing(data: bytes, top: Cursor) -> bool:
    """Whether the parser dropped no key, told at a tenth of the cost of parsing again.

    Every key has a colon. Without backslashes, text has the same colons before and after parsing,
    so a dropped key, with its value, is a colon less in what is written from ``top``. False where
    this cannot be told.
    """
    if b"\\" in data:
        return False
    try:
        return data.count(b":") == orjson.dumps(top.value).count(b":")
    except orjson.JSONEncodeError:  # nested too deep for writing
        return False


def _all(top: Cursor) -> Iterator[Cursor]:
    """This cursor and those of all values below it."""
    rest = [top]
    while rest:
        cursor = rest.pop()
        yield cursor
        if isinstance(cursor.value, dict):
            rest += [Cursor(value, cursor, key) for key, value in cursor.value.items()]
        elif isinstance(cursor.value, list):
            rest += [Cursor(value, cursor, index) for index, value in enumerate(cursor.value)]


def shown(value: Any) -> str:
    """``value`` as a message shows it: containers by their kind, long text cut."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return repr(value) if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]!r}..."
    return orjson.dumps(value).decode()


def _integer_between(least: int, most: int) -> str:
    if most < _HUGE - 1:
        return f"an integer from {least} to {most}"
    return "an integer" if least <= -_HUGE + 1 else f"an integer, at least {least}"
