"""What an answer to ``status`` holds, as docs/control.md shows it; values."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ascend_supervisor.reporters.status_document import Status

RankState = Literal["running", "ready", "stopping", "ended"]
MOST_TEXT = 200
"""Characters of a rank's last line, and of its STATUS."""


class RankRow(Struct, frozen=True):
    """A process of this server, or a launcher's worker, as it is now.

    ``state`` is ``running``, ``ready`` after READY=1, ``stopping`` after STOPPING=1, or ``ended``.
    A worker has the ``uptime_seconds`` of its launcher, because its own is not known; ``bytes`` is
    null if it writes into its launcher's pipe, and ``silent_seconds``, the time since its last
    sign of life, is null if it has given none. ``program`` is null for a rank. ``last_line`` and
    ``notify_status`` are harmless text, at most MOST_TEXT characters.
    """

    rank: int | None
    local_rank: int | None
    pid: int | None
    program: str | None
    state: RankState
    uptime_seconds: float
    bytes: int | None
    silent_seconds: float | None
    last_line: str
    notify_status: str


class PastRestart(Struct, frozen=True):
    """Why ``generation`` was followed by another one, and when (RFC 3339, UTC).

    ``free``: the restart budget was not charged.
    """

    generation: int
    at: str
    cause: str
    free: bool


class ServerRow(Struct, frozen=True):
    """A server of a job whose servers agree (--peers), as this one saw it last.

    ``host`` is null if it is not known. ``last_word`` is harmless text, at most MOST_TEXT
    characters; it and ``phase`` were first seen here ``age_seconds`` ago.
    """

    server: int
    host: str | None
    phase: str
    last_word: str
    age_seconds: float


class PeersStatus(Struct, frozen=True):
    """The whole job, as it was ``seen_seconds`` ago; ``server`` is the one that answers.

    ``server`` is null as long as it takes no part.
    """

    job: str
    server: int | None
    seen_seconds: float
    servers: tuple[ServerRow, ...]


class LiveStatus(Struct, frozen=True):
    """``status`` is what the state file holds; the rest is written nowhere.

    ``restarts`` are the latest ones, the newest last. ``started_at`` is the supervisor's own start
    (RFC 3339, UTC). ``peers`` is null without --peers, and before etcd has answered.
    """

    status: Status
    started_at: str
    phase_seconds: float
    ranks: tuple[RankRow, ...]
    restarts: tuple[PastRestart, ...]
    restarts_left: int | None
    peers: PeersStatus | None = None
