"""The keys and records of a job in etcd, and the bytes of these (JSON).

Keys are relative to the job's prefix.
"""

from __future__ import annotations

import re
import zlib
from enum import Enum
from hashlib import sha256
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from ascend_supervisor.cluster.made_table import ServerDevice
from ascend_supervisor.coordination.agreement.history import FirstFailure, LeftServer
from ascend_supervisor.coordination.agreement.recently_used import Recent
from ascend_supervisor.outcome import ExitStatus, Failure, Number, Seconds, StatusNumber

EPOCH_KEY = "epoch"
ABOUT_KEY = "about"
ROSTER, NEWCOMER = "roster", "newcomer"
SERVER, READY, DONE, ALIVE = "server", "ready", "done", "alive"
"""The first words of the keys of a member."""

SPARE = "spare/"
"""How the keys of servers begin that wait for a place."""

_NUMBERS = {EPOCH_KEY: 0, ABOUT_KEY: 0, ROSTER: 1, NEWCOMER: 1}
_NUMBERS |= {SERVER: 1, READY: 2, DONE: 2, ALIVE: 1}
"""How many numbers follow each first word."""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
"""As it is written here: no other key means the same."""


def job_prefix(job: str) -> str:
    """What stands before every key of the job; ``job`` is its name, not its id."""
    return f"/ascend-supervisor/{job}/"


MOST_LEASE = 2**63 - 1


def lease_of(word: str) -> int:
    """The id of the lease that belongs to a random word, from 1 on.

    That of the job's id lives for an hour, and the servers keep it alive in turn. That of an
    incarnation is for its ``alive``, and lives for one TTL.
    """
    return int.from_bytes(sha256(word.encode()).digest()[:8], "big") % MOST_LEASE + 1


def steps_key(lease: int) -> str:
    """How far the training is, in the job with this ``lease``; nothing is decided by it.

    A job of the same name may have left its own within the last hour.
    """
    return f"steps/{lease}"


def roster_key(block: int) -> str:
    return f"{ROSTER}/{block}"


def newcomer_key(index: int | None, incarnation: str) -> str:
    """Of a server that knows no job; without an index its number is none of a server."""
    return f"{NEWCOMER}/{lease_of(incarnation) % 10**9 + 10**9 if index is None else index}"


def server_key(index: int) -> str:
    return f"{SERVER}/{index}"


def ready_key(generation: int, index: int) -> str:
    return f"{READY}/{generation}/{index}"


def done_key(generation: int, index: int) -> str:
    return f"{DONE}/{generation}/{index}"


def alive_key(index: int) -> str:
    return f"{ALIVE}/{index}"


def spare_key(incarnation: str) -> str:
    return f"{SPARE}{incarnation}"


def key_parts(key: str) -> tuple[str, tuple[int, ...]] | None:
    """A key's first word and its numbers; None for a key that is none of ours."""
    word, *numbers = key.split("/")
    if _NUMBERS.get(word) != len(numbers) or not all(map(_NUMBER.fullmatch, numbers)):
        return None
    return word, tuple(map(int, numbers))


LARGE = 4096
"""A record with more bytes is compressed (zlib)."""
MOST_BYTES = 4 * 1024 * 1024
"""No ``about`` is larger, unpacked, and no block of a roster."""
MOST_BYTES_OF_OTHERS = 64 * 1024
"""No other record is larger: that of a server with 16 NPUs has 2 kB."""

RetryTime = Annotated[int, Meta(ge=0, lt=10**18)]
"""As the reset file is read."""

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
    generation: Number
    phase: Phase
    stamp: str
    exit_code: StatusNumber = 0

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
    said farewell, and none of its ranks runs. ``host`` names it to people: its pod, node and
    address, as far as they are known. ``machine`` is that of its failures; empty: unknown.
    """

    job: str
    incarnation: str
    place: str
    addresses: tuple[str, ...] = ()
    devices: tuple[ServerDevice, ...] = ()
    has_left: bool = False
    host: str = ""
    machine: str = ""

    @property
    def shown(self) -> str:
        """What names it to people; empty if nothing is known."""
        return self.host or ", ".join(self.addresses)


class PhaseMark(Struct, frozen=True):
    """What ``ready`` and ``done`` hold: whose it is, and the digest of its rank table.

    ``retry_time`` is what the reset file shows there; None: no cluster is followed.
    """

    incarnation: str
    digest: str
    retry_time: RetryTime | None = None


class Seat(Struct, frozen=True):
    """A member of a roster; where nobody writes a rank table, it is made from all seats."""

    incarnation: str
    place: str
    addresses: tuple[str, ...] = ()
    devices: tuple[ServerDevice, ...] = ()


class RosterBlock(Struct, frozen=True):
    """Some seats of a roster, in the order of their indices."""

    seats: tuple[Seat, ...]


class Cause(Struct, frozen=True):
    """Why the last generation ended: the root cause of the job, and the server that it is on.

    ``reason`` is a sentence. ``also_lost`` are servers that did not come back, and ``hosts_lost``
    what names these to people, in the same order. ``first`` counts against a server; None: it is
    unknown whether the cause is on that server itself, or nobody counts.
    """

    server: Number
    exit_code: Annotated[int, Meta(ge=1, le=255)]
    reason: str
    failure: Failure | None = None
    also_lost: tuple[Number, ...] = ()
    hosts_lost: tuple[str, ...] = ()
    first: FirstFailure | None = None


class Charges(Struct, frozen=True):
    """What the restart budget has paid for; ages are seconds at the time of the write.

    The fields are those of RestartBudget.
    """

    spent: tuple[Seconds, ...] = ()
    early_deaths: Number = 0
    last_death: ExitStatus | None = None
    free: Number = 0
    free_age: Seconds = 0.0
    stuck: tuple[int | None, ...] = ()


class About(Struct, frozen=True):
    """What belongs to an epoch, written in the same transaction, with the same ``stamp``.

    ``roster`` is that of the last ``run``; of many servers it is kept apart (``rosters``), in so
    many ``blocks`` with this ``digest``. ``settings`` is a digest of what all servers must have
    in common. ``delay`` is in seconds, from when a server has first seen the epoch. ``again``: the
    epoch was put again after a loss of data, so the roster does not show who came since. The last
    restart ``is_free`` if it was not charged. An ``end`` ``is_retryable`` by a controller; ``why``
    says why no restart follows, beside the cause. ``by_cluster``: the cluster has asked for the
    last restart. ``pending`` is the uptime (in seconds) of a generation whose failure may be that
    of the cluster: what it costs is written before the next ``run``; None: it is known.
    ``answered`` are values of RetryTime after which the job has restarted already: at the last
    ``run`` some server knew them, or they came so soon after it that they belong to it.
    ``failures`` are the first ones of generations before the last ``run``, ``left`` the servers
    that have given up their places to spares, both the latest last. ``epoch`` is that to which it
    belongs, for those that hear of it (``hearing``); None: another version has written it.
    """

    stamp: str
    settings: str
    roster: tuple[Seat, ...] = ()
    cause: Cause | None = None
    charges: Charges = Charges()
    delay: Seconds = 0.0
    again: bool = False
    is_free: bool = False
    is_retryable: bool = False
    why: str = ""
    by_cluster: bool = False
    pending: Seconds | None = None
    answered: tuple[RetryTime, ...] = ()
    blocks: Number = 0
    digest: str = ""
    failures: tuple[FirstFailure, ...] = ()
    left: tuple[LeftServer, ...] = ()
    epoch: Epoch | None = None


class Spare(Struct, frozen=True):
    """A server that waits for a place: for any, or for ``index`` alone."""

    incarnation: str
    machine: str = ""
    index: Number | None = None


class Beat(Struct, frozen=True):
    """What ``alive`` holds."""

    incarnation: str


DECODED: Recent[tuple[type, bytes], object] = Recent(KEPT_BYTES)
"""What was decoded lately."""

Record = Epoch | About | Member | PhaseMark | Spare | Beat | RosterBlock
AnyRecord = TypeVar("AnyRecord", Epoch, About, Member, PhaseMark, Spare, Beat, RosterBlock)


def encode(record: Record) -> bytes:
    """The bytes of a record; a large one is compressed."""
    data = msgspec.json.encode(record)
    return zlib.compress(data) if len(data) > LARGE else data


def decode(key: str, value: bytes, kind: type[AnyRecord]) -> AnyRecord:
    """The record under ``key``; raises DamagedRecord."""
    try:
        found: AnyRecord = _decoded(value, kind)
    except (msgspec.MsgspecError, zlib.error, ValueError, RecursionError) as error:
        raise DamagedRecord(key, value, str(error)) from error
    return found


def _decoded(value: bytes, kind: type[Record]) -> Any:
    """The same bytes are read again and again: most records never change."""
    known = DECODED.get((kind, value))
    if known is not None:
        return known
    data = _unpacked(value, MOST_BYTES if kind in {About, RosterBlock} else MOST_BYTES_OF_OTHERS)
    record = msgspec.json.decode(data, type=kind)
    DECODED.put((kind, value), record, len(data) + len(value))
    return record


def _unpacked(value: bytes, most: int) -> bytes:
    if len(value) > most:
        raise ValueError(f"it has {len(value)} bytes")
    if value[:1] == b"{":
        return value
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(value, most)
    if not unpacking.eof:
        raise ValueError(f"its compressed bytes have no end within {most} bytes")
    return data


def tellable(failure: Failure | None) -> Failure | None:
    """None for a failure that no server could read: what a launcher says of it is not ours.

    Without the lines that were only searched.
    """
    told = None if failure is None else failure.to_be_sent
    try:
        return msgspec.json.decode(msgspec.json.encode(told), type=Failure | None)
    except (msgspec.MsgspecError, UnicodeError):
        return None
