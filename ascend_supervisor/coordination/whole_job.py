"""All servers of a job, as this one has seen them last; values."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ServerPhase = Literal[
    "missing", "gathering", "ready", "running", "done", "left", "lost", "ending", "ended"
]


def loss_of(server: int) -> str:
    """How a cause begins that is the loss of a server."""
    return f"server {server} was lost"


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
