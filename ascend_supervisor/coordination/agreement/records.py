"""The records of a job in etcd, and their bytes (JSON)."""

from __future__ import annotations

import zlib
from enum import Enum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ascend_supervisor.cluster.made_table import ServerDevice
from ascend_supervisor.coordination.agreement.recent import Recent
from ascend_supervisor.outcome import ExitStatus, Failure

LARGE = 4096
"""An ``about`` with more bytes is compressed (zlib): 1,250 servers need 139 kB."""
MOST_BYTES = 16 * 1024 * 1024
"""No record is larger, even unpacked; etcd itself takes 1.5 MiB."""

KEPT_BYTES = 4 * 1024 * 1024
"""So many bytes of records are kept decoded: those of 1,250 servers, with their NPUs, are 2 MB."""


class DamagedRecord(Exception):
    """The value of ``key`` is none that a supervisor of this version writes."""

    def __init__(self, key: str, found: bytes, why: str) -> None:
        super().__init__(f"{key}: expected a record of this job, found {found[:80]!r}: {why}")
        self.key = key


class Phase(Enum):
    """``gather g`` < ``run g`` < ``gather g+1``; ``end`` is the last of a job."""

    GATHER = "gather"
    RUN = "run"
    END = "end"


class Epoch(Struct, frozen=True):
    """Where the job stands.

    ``job`` is a random id. ``stamp`` is new in every write, so equal bytes mean the same write.
    ``exit_code`` counts in the phase ``end`` only.
    """

    job: str
    generation: int
    phase: Phase
    stamp: str
    exit_code: int = 0

    @property
    def following(self) -> int:
        """The next generation of the job: this is its only counter."""
        return self.generation + 1

    @property
    def order(self) -> tuple[int, bool]:
        """Comparable between ``gather`` and ``run`` of the same job."""
        return self.generation, self.phase is Phase.RUN


class Member(Struct, frozen=True):
    """The server that holds an index: a process (``incarnation``) at a ``place``.

    A place is a random word that stays on a machine while its state file does. ``has_left``: it has
    said farewell, and none of its ranks runs. ``host`` names its machine to people.
    """

    job: str
    incarnation: str
    place: str
    addresses: tuple[str, ...] = ()
    devices: tuple[ServerDevice, ...] = ()
    has_left: bool = False
    host: str = ""


class Mark(Struct, frozen=True):
    """What ``ready`` and ``done`` hold: whose it is, and the digest of its rank table."""

    incarnation: str
    digest: str


class Seat(Struct, frozen=True):
    """A member of a roster; where nobody writes a rank table, it is made from all seats."""

    incarnation: str
    place: str
    addresses: tuple[str, ...] = ()
    devices: tuple[ServerDevice, ...] = ()


class Cause(Struct, frozen=True):
    """Why the last generation ended: the root cause of the job, and the server that it is on.

    ``reason`` is a sentence. ``also_lost`` are servers that did not come back.
    """

    server: int
    exit_code: int
    reason: str
    failure: Failure | None = None
    also_lost: tuple[int, ...] = ()


class Charges(Struct, frozen=True):
    """What the restart budget has paid for; ages are seconds at the time of the write.

    The fields are those of RestartBudget.
    """

    spent: tuple[float, ...] = ()
    early_deaths: int = 0
    last_death: ExitStatus | None = None
    free: int = 0
    free_age: float = 0.0


class About(Struct, frozen=True):
    """What belongs to an epoch, written in the same transaction, with the same ``stamp``.

    ``roster`` is that of the last ``run``. ``settings`` is a digest of what all servers must have
    in common. ``delay`` is in seconds, from when a server has first seen the epoch. ``again``: the
    epoch was put again after a loss of data, so the roster does not show who came since. The last
    restart ``is_free`` if it was not charged. An ``end`` ``is_retryable`` by a controller; ``why``
    says why no restart follows, beside the cause. ``by_cluster``: the cluster has asked for the
    last restart. ``pending`` is the uptime (in seconds) of a generation whose failure may be that
    of the cluster: what it costs is written before the next ``run``; None: it is known.
    """

    stamp: str
    settings: str
    roster: tuple[Seat, ...] = ()
    cause: Cause | None = None
    charges: Charges = Charges()
    delay: float = 0.0
    again: bool = False
    is_free: bool = False
    is_retryable: bool = False
    why: str = ""
    by_cluster: bool = False
    pending: float | None = None


class Beat(Struct, frozen=True):
    """What ``alive`` holds."""

    incarnation: str


DECODED: Recent[tuple[type, bytes], object] = Recent(KEPT_BYTES)
"""What was decoded lately."""

Record = Epoch | About | Member | Mark | Beat
AnyRecord = TypeVar("AnyRecord", Epoch, About, Member, Mark, Beat)


def encode(record: Record) -> bytes:
    """The bytes of a record; a large one is compressed."""
    data = msgspec.json.encode(record)
    return zlib.compress(data) if len(data) > LARGE else data


def decode(key: str, value: bytes, kind: type[AnyRecord]) -> AnyRecord:
    """The record under ``key``; raises DamagedRecord."""
    try:
        found: AnyRecord = _decoded(value, kind)
    except (msgspec.MsgspecError, UnicodeError, zlib.error, ValueError) as error:
        raise DamagedRecord(key, value, str(error)) from error
    return found


def _decoded(value: bytes, kind: type[Record]) -> Any:
    """The same bytes are read again and again: most records never change."""
    known = DECODED.get((kind, value))
    if known is not None:
        return known
    data = _unpacked(value)
    record = msgspec.json.decode(data, type=kind)
    DECODED.put((kind, value), record, len(data) + len(value))
    return record


def _unpacked(value: bytes) -> bytes:
    if value[:1] == b"{":
        return value
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(value, MOST_BYTES)
    if not unpacking.eof:
        raise ValueError("its compressed bytes have no end")
    return data
