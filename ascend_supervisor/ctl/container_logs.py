"""Logs as kubectl, docker, stern and journalctl show them: without what they put before each line.

That is a time, the source of the line (a pod, a container, a unit), or both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

MOST_SOURCES = 256
_SLACK_BYTES = 64 * 1024
_TIME = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)(?: |$)"
_JOURNAL_TIME = (
    rb"(?:[A-Z][a-z]{2} [ 0-3]\d \d\d:\d\d:\d\d(?:\.\d{6})?"  # -o short, short-precise
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{6})?[+-]\d\d:?\d\d"  # -o short-iso
    rb"|[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{6})? [A-Z]\w{0,7})"  # -o short-full
)
_STERNS = re.compile(rb"[+-] \S.{0,600} \xe2\x80\xba \S")
"""It says which logs begin and end: ``+ train-worker-0 › train``."""
_POD = rb"[a-z0-9][a-z0-9.]{0,250}-[a-z0-9.-]{1,250} [a-z0-9][a-z0-9-]{0,62}"


class Carrier(Struct, frozen=True):
    """What a program puts before a line; ``head`` has a group ``source`` if that tells one.

    If it ``is_sure``, no other program writes such heads; others must be before every line. A
    ``part`` of ``P`` says that the next line goes on with this one.
    """

    head: re.Pattern[bytes]
    is_sure: bool = True

    @property
    def tells_source(self) -> bool:
        return "source" in self.head.groupindex

    def carries(self, lines: Sequence[bytes]) -> bool:
        """Whether these lines are its, apart from half a line at the beginning."""
        heads = list(filter(None, map(self.head.match, lines)))
        if self.is_sure:
            return 2 * len(heads) > len(lines)
        sources = {head["source"] for head in heads}
        return len(heads) >= max(len(lines) - 1, 2 * len(sources), 2)

    def ends(self, lines: Iterable[bytes], most: int) -> dict[str, bytes]:
        """The last ``most`` bytes of each source, or of ``""``; of MOST_SOURCES, no more.

        A line without a head belongs to the one before it, of half a line nobody knows whose it is.
        """
        found: dict[bytes, bytearray] = {}
        source = None if self.tells_source else b""
        for line in lines:
            head = self.head.match(line)
            if head is not None and self.tells_source:
                source = head["source"]
            if source is None or _STERNS.match(line):
                continue
            if source not in found and len(found) == MOST_SOURCES:
                continue
            end = found.setdefault(source, bytearray())
            end += line if head is None else line[head.end() :]
            if head is not None and head.groupdict().get("part") == b"P":
                end[-1:] = b""
            if len(end) > most + _SLACK_BYTES:
                del end[:-most]
        return {name.decode(errors="replace"): bytes(end[-most:]) for name, end in found.items()}


_CARRIERS = (
    Carrier(re.compile(rb"\[(?P<source>pod/[^\s/\]]{1,253}/[^\s/\]]{1,63})\] (?:%b)?" % _TIME)),
    Carrier(re.compile(rb"%b(?:stdout|stderr) (?P<part>[FP])(?: |$)" % _TIME)),  # on a node
    Carrier(re.compile(rb"%b (?P<source>\S{1,255} [^\s:]{1,255}): " % _JOURNAL_TIME)),
    Carrier(re.compile(rb"(?P<source>[A-Za-z0-9][\w.-]{0,99}[-_]\d{1,4}) +\| (?:%b)?" % _TIME)),
    Carrier(re.compile(rb"(?P<source>%b) %b" % (_POD, _TIME))),
    Carrier(re.compile(_TIME)),
    Carrier(re.compile(rb"(?P<source>[A-Za-z0-9][\w.-]{0,99}) +\| (?:%b)?" % _TIME), is_sure=False),
    Carrier(re.compile(rb"(?P<source>%b) " % _POD), is_sure=False),
)
"""kubectl logs --prefix, also with --timestamps; a file of a container on its node; journalctl;
docker compose logs, also with -t; stern -t; kubectl logs --timestamps and docker logs -t; compose
with a container_name; stern."""


def carrier_of(data: bytes) -> Carrier | None:
    """The one that has carried a log with this piece, if any."""
    lines = [line for line in data.split(b"\n") if line and not _STERNS.match(line)]
    return next((one for one in _CARRIERS if lines and one.carries(lines)), None)
