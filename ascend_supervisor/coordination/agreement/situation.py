"""How things stand on this server, beside what etcd says; values."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from ascend_supervisor.outcome import Ended, Fault


class Ranks(Enum):
    """What is known of our ranks; between a failure and ``NONE`` some of them may still run."""

    NONE = "none"
    """None was started, or all are gone, swept, and their devices released."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    """All have ended with 0."""
    FAILED = "failed"
    """There is a reason to end them (``Situation.verdict``); none of them got a signal yet."""
    ENDING = "ending"


class Obstacle(Struct, frozen=True):
    """Why this server cannot go on: something cannot be ended, no table came, a final fault."""

    exit_code: int
    reason: str


class Situation(Struct, frozen=True):
    """``generation`` is that of the ranks, None if none was ever started.

    ``verdict`` is why that generation ends here; it stays until the next start. ``stop`` is the
    signal that told us to stop. ``leftovers``: processes of an earlier life are left here, or have
    not been looked for yet. ``table`` is the digest of the rank table, None as long as there is
    none. ``cluster`` is what a cluster that is followed says at present of the ranks of the latest
    generation, None if nothing. ``retry_time`` is the RetryTime that its reset file shows here;
    ``confirmed`` one that belongs to the last restart, None if there is none.
    """

    ranks: Ranks = Ranks.NONE
    generation: int | None = None
    verdict: Ended | None = None
    stop: int | None = None
    leftovers: bool = False
    obstacle: Obstacle | None = None
    table: str | None = None
    cluster: Fault | None = None
    retry_time: int | None = None
    confirmed: int | None = None
