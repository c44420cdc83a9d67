r"""The bytes of an output as records: the pieces between line feeds, carriage returns and \b; pure.

A progress bar is drawn again after a carriage return, so each drawing is a record. Launchers put a
mark before each line, and may glue the lines of two ranks together: texts are divided there.
"""

from __future__ import annotations

import re
from functools import cache

LONGEST = 4096
"""Bytes of a record that are kept: a search must end soon, whatever a rank has written."""


class OutputRecords:
    """``take`` chunks, which may be cut anywhere; of each record at most LONGEST bytes are kept.

    ``rest`` is the beginning of the record that is not complete yet.
    """

    def __init__(self) -> None:
        self.rest = b""
        self._is_skipping = False

    def take(self, chunk: bytes) -> list[bytes]:
        """The records that are complete now, without their ends."""
        if b"\b" in chunk:
            chunk = chunk.replace(b"\b", b"\r")
        records = chunk.splitlines()
        if not records:
            return records
        if not chunk.endswith((b"\n", b"\r")):
            records.append(records.pop()[:LONGEST])
        else:
            records.append(b"")
        if self._is_skipping:
            self._is_skipping = not records[1:]
            records[0] = b""
        elif self.rest:
            records[0] = self.rest + records[0][: LONGEST - len(self.rest)]
        self.rest = records.pop()
        return records

    def skip(self) -> None:
        """Bytes are missing here: forget the record that they belong to."""
        self.rest, self._is_skipping = b"", True

    def end(self) -> bytes:
        """The last record, which nothing follows."""
        rest, self.rest = self.rest, b""
        return rest


def texts(record: bytes) -> list[tuple[str, str]]:
    """What ``record`` says, without colours: each launcher's mark, and the text behind it.

    ``ESC [ A`` stays: it tells that a bar is drawn below another one.
    """
    text = record[:LONGEST].replace(b"\0", b"").decode(errors="replace")
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
        r"(\[[A-Za-z_]\w{0,30}?\d{1,7}\]: ?|^\[\d{1,7}\]: ?|\[\d{1,9},\d{1,7}\]<std(?:out|err)>: ?"
        r"|\([^()]{1,80}? pid=\d{1,9}(?:, ip=[^()]{1,60})?\) ?)",
        re.ASCII,
    )
