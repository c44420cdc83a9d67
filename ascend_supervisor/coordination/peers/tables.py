"""The rank table that the servers agree on: one that somebody writes, or one that they make.

A server says where it runs, in a word that outlives the supervisor, but not its machine or
container. A supervisor that is started again at the same place, where nothing of
the earlier one is left, may take its index at once. Host names, addresses and /etc/machine-id do
not tell this: images share them, or another pod gets them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, Protocol

import anyio
from msgspec import Struct

from ascend_supervisor.cluster.made_table import Server, ServerDevice, made_table
from ascend_supervisor.coordination.agreement.records import Seat
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.files.regular_file import read_regular_file, write_atomically
from ascend_supervisor.life import Placed
from ascend_supervisor.tasks.threads import aside

SUFFIX = ".place"
MODE = 0o600
MOST_BYTES = 1024
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_WORD = re.compile(rb"[0-9a-f]{16}")


def place_beside(state_file: Path, boot_id: Path = BOOT_ID) -> str:
    """The same word at each call, if it can be kept beside the state file; it may block.

    It holds the machine's boot id: a directory that several machines share is not one place.
    """
    path = state_file.with_name(state_file.name + SUFFIX)
    word = _kept(path)
    if word is None:
        word = secrets.token_hex(8)
        with suppress(OSError):  # a full disk: then the next start is at another place
            write_atomically(path, word.encode(), MODE)
    boot = ""
    with suppress(OSError):
        boot = boot_id.read_text().strip()
    return f"{word}@{boot}"


def machine_of(place: str) -> str:
    """The same for all places on a machine that has not been started anew; containers share it."""
    return place.rpartition("@")[2]


def _kept(path: Path) -> str | None:
    with suppress(OSError):
        found = read_regular_file(path, MOST_BYTES)
        if _WORD.fullmatch(found):
            return found.decode()
    return None


AGAIN_SECONDS = 5.0
MOST_TABLES = 16
"""So many of the tables that were read are kept: a generation starts with one of the last."""
MADE = "made of what the servers publish"
"""In place of a digest: who agrees on the roster agrees on the table."""


class Contribution(Struct, frozen=True):
    """What this server brings: its ``index`` among ``servers`` (None: any), and its ``devices``.

    These are empty where somebody writes the table.
    """

    index: int | None
    servers: int
    devices: tuple[ServerDevice, ...] = ()


class Tables(Protocol):
    """Where the table comes from; all of it may raise a Refusal."""

    async def part(self) -> Contribution:
        """Called once, before this server joins the others."""

    async def addresses(self) -> tuple[str, ...]:
        """Those that this server publishes; none where somebody writes the table.

        Asked when etcd has answered; raises NoWay, which may pass.
        """

    async def get_ready(self, session: Session) -> None:
        """Tell the session with which table this server is ready."""

    async def stay_ready(self, session: Session) -> NoReturn:
        """The same again, whenever it has changed."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the servers in the table that was agreed on last: failures are of these.

        Before that, those of the table that was read last; empty before one was read.
        """

    def agreed(self, session: Session, roster: Sequence[Seat]) -> Placed:
        """The table with which a generation starts on the servers of ``roster``."""


class WrittenTable:
    """One that somebody writes, the same for all servers; ``placed`` waits until it is complete.

    It is read again while others are waited for: after a pod was replaced, the new one does not
    come to all servers at once. It must hold this server at the same place as before.
    """

    def __init__(
        self,
        placed: Callable[[], Awaitable[Placed]],
        *,
        may_move: bool = False,
    ) -> None:
        """``may_move``: later tables may hold this server elsewhere, and other numbers of them."""
        self._may_move = may_move
        self._placed = placed
        self._latest: Placed | None = None
        self._last_read: Placed | None = None
        self._agreed: Placed | None = None
        self._places: dict[str, Placed] = {}
        """By the digest of the table; the one that was read last is the last."""

    async def part(self) -> Contribution:
        self._latest = await self._placed()
        return Contribution(self._latest.node_rank, self._latest.found.table.servers)

    async def addresses(self) -> tuple[str, ...]:
        return ()

    async def get_ready(self, session: Session) -> None:
        at = self._latest or await self._placed()
        self._latest = None
        session.take_place(at.node_rank, at.found.table.servers, may_move=self._may_move)
        digest = at.found.essence
        self._keep(digest, at, session.ready_with)
        self._last_read = at
        if session.situation.table != digest:
            session.tell(table=digest)

    async def stay_ready(self, session: Session) -> NoReturn:
        while True:
            with anyio.move_on_after(AGAIN_SECONDS):
                while session.situation.table is not None:  # until it is taken back
                    await session.change()
            await self.get_ready(session)

    @property
    def labels(self) -> tuple[str, ...]:
        known = self._agreed or self._last_read
        return _labels(known) if known is not None else ()

    def agreed(self, session: Session, roster: Sequence[Seat]) -> Placed:  # noqa: ARG002
        at = self._places.get(session.ready_with, self._last_read)
        assert at is not None  # noqa: S101  (who starts was ready with one)
        self._agreed = at
        return at

    def _keep(self, digest: str, at: Placed, needed: str) -> None:
        """``needed`` is the digest of the table with which the others know us to be ready."""
        self._places.pop(digest, None)
        self._places[digest] = at
        old = [one for one in self._places if one != needed]
        for one in old[:-MOST_TABLES]:
            del self._places[one]


class MadeTable:
    """One that all servers make of the roster; ``address`` is ours, and may block.

    ``index`` is ours, None for any that is free.
    """

    def __init__(
        self,
        index: int | None,
        servers: int,
        devices: tuple[ServerDevice, ...],
        address: Callable[[], str],
    ) -> None:
        self._index = index
        self._servers = servers
        self._devices = devices
        self._address = address
        self._latest: Placed | None = None

    async def part(self) -> Contribution:
        return Contribution(self._index, self._servers, self._devices)

    async def addresses(self) -> tuple[str, ...]:
        return (await aside(self._address),)

    async def get_ready(self, session: Session) -> None:
        if session.situation.table != MADE:
            session.tell(table=MADE)

    async def stay_ready(self, session: Session) -> NoReturn:  # noqa: ARG002
        await anyio.sleep_forever()
        raise AssertionError

    @property
    def labels(self) -> tuple[str, ...]:
        return _labels(self._latest) if self._latest is not None else ()

    def agreed(self, session: Session, roster: Sequence[Seat]) -> Placed:
        found = made_table(tuple(map(_published, roster)))
        index = session.memory.index
        assert index is not None  # noqa: S101  (who starts is in the roster)
        self._latest = Placed(found, index, found.table.entries[index])
        return self._latest


def _labels(place: Placed) -> tuple[str, ...]:
    return tuple(entry.label for entry in place.found.table.entries)


def _published(seat: Seat) -> Server:
    return Server("".join(seat.addresses[:1]), seat.devices, machine_of(seat.place))
