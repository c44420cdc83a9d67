"""All servers of a job, as this one has seen them last; values, and where requests find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

ServerPhase = Literal[
    "missing", "gathering", "ready", "running", "done", "left", "lost", "ending", "ended"
]


class ServerSeen(Struct, frozen=True):
    """One server; its ``last_word`` (a clause) and ``phase`` were first seen ``age`` seconds ago.

    ``host`` is its name or address, empty if that is not known.
    """

    server: int
    host: str
    phase: ServerPhase
    last_word: str
    age: float


class JobSeen(Struct, frozen=True):
    """``servers`` in order of their index, as they were ``age`` seconds ago.

    ``name`` is that of the job, ``server`` our own index; None if we have none yet.
    """

    name: str
    server: int | None
    age: float
    servers: tuple[ServerSeen, ...]


def _nobody() -> JobSeen | None:
    return None


class WholeJob:
    """What a coordinator has seen of the other servers, as requests of operators find it."""

    def __init__(self) -> None:
        self._seen: Callable[[], JobSeen | None] = _nobody

    def told_by(self, seen: Callable[[], JobSeen | None]) -> None:
        """``seen`` answers at once, and asks nobody."""
        self._seen = seen

    def seen(self) -> JobSeen | None:
        """None if this server decides alone, or has not joined the others yet."""
        return self._seen()
