"""The schema of the log; pure. Names never change, and neither does the type of a key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar, Literal

from msgspec import Struct

from ascend_supervisor.untrusted_text import printable

Level = Literal["debug", "info", "warning", "error"]


class Event(Struct, frozen=True):
    """Its fields are its keys; ``msg`` is the sentence for people.

    ``level`` is the usual level, ``severity`` the level of this one event.
    """

    name: ClassVar[str]
    level: ClassVar[Level] = "info"

    @property
    def severity(self) -> Level:
        return self.level

    @property
    def msg(self) -> str:
        return printable(self.sentence)

    @property
    def sentence(self) -> str:
        """``msg`` from its parts; parts from outside may hold line breaks."""
        raise NotImplementedError


Report = Callable[[Event], None]
"""Synchronous, cheap, never raises; to be called in the event loop's thread."""


def timestamp(moment: datetime) -> str:
    """RFC 3339 with microseconds, always; structlog's own stamp leaves out a fraction of 0."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
