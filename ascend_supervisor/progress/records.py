r"""The bytes of an output as records: the pieces between line feeds, carriage returns and \b; pure.

A progress bar is drawn again after a carriage return, so each drawing is a record. Launchers put a
mark before each line, and may glue the lines of two ranks together: texts are divided there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

LONGEST = 4096
"""Bytes of a record that are kept: a search must end soon, whatever a rank has written."""


class OutputRecords:
    """``take`` chunks, which may be cut anywhere; of each record at most LONGEST bytes are kept.

    Only records with one of ``signs`` are given; without signs, all. ``rest`` is the beginning of
    the record that is not complete yet.
    """

    def __init__(self, signs: Sequence[bytes] = ()) -> None:
        self._signs = signs
        self.rest = b""
        self._is_skipping = False

    def take(self, chunk: bytes) -> list[bytes]:
        """The records that are complete now, without their ends."""
        if b"\b" in chunk:
            chunk = chunk.replace(b"\b", b"\n")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r", b"\n")
        end = chunk.find(b"\n")
        if end < 0:
            self._begin(chunk)
            return []
        self._begin(chunk[:end])
        first, last = self.end(), chunk.rfind(b"\n")
        self._begin(chunk[last + 1 :])
        found = [first] if not self._signs or any(sign in first for sign in self._signs) else []
        if last > end:
            found += self._records(chunk[end + 1 : last])
        return found

    def skip(self) -> None:
        """Bytes are missing here: forget the record that they belong to."""
        self.rest, self._is_skipping = b"", True

    def end(self) -> bytes:
        """The last record, which nothing follows."""
        rest, self.rest, self._is_skipping = self.rest, b"", False
        return rest

    def _begin(self, piece: bytes) -> None:
        if not self._is_skipping and len(self.rest) < LONGEST:
            self.rest += piece[: LONGEST - len(self.rest)]

    def _records(self, lines: bytes) -> list[bytes]:
        if not self._signs:
            return lines.split(b"\n")
        # To look for one byte takes a thirtieth of the time that a longer search takes.
        possible = (sign for sign in self._signs if sign[0] in lines)
        places = {place for sign in possible for place in _places(lines, sign)}
        return [lines[start:end] for start, end in sorted(places)]


def _places(lines: bytes, sign: bytes) -> Iterator[tuple[int, int]]:
    """Where the lines with ``sign`` begin and end; searched as a whole, which is much faster."""
    end = 0
    while (at := lines.find(sign, end)) >= 0:
        start = lines.rfind(b"\n", end, at) + 1 or end
        end = lines.find(b"\n", at)
        if end < 0:
            end = len(lines)
        yield start, end


def texts(record: bytes) -> list[tuple[str, str]]:
    """What ``record`` says, without colours: each launcher's mark, and the text behind it.

    ``ESC [ A`` stays: it tells that a bar is drawn below another one.
    """
    text = record[:LONGEST].decode(errors="replace")
    if "\0" in text:
        text = text.replace("\0", "")
    if "\x1b" in text:
        text = _escapes().sub("", text)
    if "]:" not in text and " pid=" not in text and "]<std" not in text:
        return [("", text)]
    first, *others = _marks().split(text)
    said = [("", first), *zip(others[::2], others[1::2], strict=True)]
    return [(mark, one) for mark, one in said if one]


@cache
def _escapes() -> re.Pattern[str]:
    return re.compile(
        r"\x1b(?!\[A)(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])"
    )


@cache
def _marks() -> re.Pattern[str]:
    """Of torchrun (--tee), torch, Open MPI and Ray."""
    return re.compile(
        r"(\[[A-Za-z_]\w{0,30}?\d{1,7}\]: ?|^\[\d{1,7}\]: ?"
        r"|\[\d{1,9},\d{1,7}\]<std(?:out|err)>: ?"
        r"|\([^()]{1,80}? pid=\d{1,9}(?:, ip=[^()]{1,60})?\) ?)",
        re.ASCII,
    )
