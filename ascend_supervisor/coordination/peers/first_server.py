"""``--peers first``: the first server of the job starts an etcd, the others wait for it.

At its end it keeps the etcd until the servers that still need it have ended.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import NoReturn

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import RecordChange
from ascend_supervisor.coordination.agreement.records import Cause, Phase
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.coordination.agreement.writing import put
from ascend_supervisor.coordination.peers.meeting import PeersMeeting
from ascend_supervisor.coordination.peers.own_etcd import (
    MISSING,
    PROGRAM,
    EtcdProcess,
    Surroundings,
    keep,
    start_first,
)
from ascend_supervisor.coordination.peers.own_etcd_address import own_addresses, serves_at
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.errors import TABLE_NOT_READY, UNAVAILABLE, SettingsRefused, Unavailable
from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.failures import EtcdError, MalformedAnswer, Refused
from ascend_supervisor.etcd.values import Get, Key
from ascend_supervisor.events import Report
from ascend_supervisor.events.leftovers import wait_ended
from ascend_supervisor.events.own_etcd import EtcdWaiting
from ascend_supervisor.life import Placed
from ascend_supervisor.outcome import SIGNAL_BASE
from ascend_supervisor.phrases import have
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.long_wait import SERVERS, LongWait
from ascend_supervisor.tasks.race import beside

TOLD_TO_STOP = SIGNAL_BASE + 15
"""Of SIGTERM. Every other end of the first server was written by itself, or is a loss."""


def others_here(view: View, own: int) -> tuple[int, ...]:
    """The other servers that have keys in etcd: who has read the end deletes them."""
    present = {index for index, member in view.members.items() if not member.has_left}
    return tuple(sorted((present | set(view.alive)) - {own}))


def told_of(others: tuple[int, ...] | None) -> str:
    """What an etcd that stays for ``others`` waits for; None: it has not answered who is left."""
    if others is None:
        return "the etcd of the job does not answer; it stays in case the other servers need it"
    return f"the etcd of the job stays until {have('server', others)} read the end of the job"


def may_finish(view: View, own: int) -> bool:
    """Whether the ranks of the others may still end with 0, as ours have."""
    return view.epoch is not None and view.epoch.phase is Phase.RUN and own in view.done


def end_without_us(view: View, own: int, stamp: str) -> RecordChange | None:
    """The end of a job whose first server leaves; None if it has ended, or has not begun.

    Nobody can take its place, because the etcd of the job ends with it. ``stamp`` is a new word.
    """
    epoch, about = view.epoch, view.about
    if epoch is None or about is None or epoch.phase is Phase.END:
        return None
    why = f"server {own}, the first, has left, and the etcd of the job ends with it"
    known = about.cause
    cause = known if known and known.server == own else Cause(own, TOLD_TO_STOP, why)
    is_retryable = cause.exit_code in {UNAVAILABLE, TABLE_NOT_READY}
    ended = replace(epoch, phase=Phase.END, exit_code=cause.exit_code, stamp=stamp)
    told = replace(about, cause=cause, is_retryable=is_retryable, why=why, stamp=stamp, epoch=ended)
    puts = (
        put(records.EPOCH_KEY, ended, epoch.job),
        put(records.ABOUT_KEY, told, epoch.job),
    )
    return RecordChange(view.unchanged(records.EPOCH_KEY), puts, why=why)


class OwnEtcdRules(Struct, frozen=True):
    """``job`` is the name of the job in etcd; the times are those of its servers, in seconds."""

    job: str
    ttl: int
    fence: float
    timeout: float


LOOK_SECONDS = 0.1
LOOK_SECONDS_AT_MOST = 1.0
"""All records are read, and those of many servers are large."""


async def stay(
    store: Store, own: int, seconds: float, runs: Callable[[], bool], clock: Clock, report: Report
) -> None:
    """Until the others have left, for ``seconds`` at most, or while etcd ``runs``.

    A job that goes on is ended: at once, or after half of the time if the ranks here have ended
    with 0, because those of the others may, too.
    """
    began = clock.elapsed()
    pause = LOOK_SECONDS
    others: tuple[int, ...] | None = None

    with anyio.move_on_after(seconds):
        async with telling(lambda: told_of(others), seconds, clock, report):
            while runs():
                with suppress(EtcdError):
                    view = await store.read()
                    others = others_here(view, own)
                    if not others:
                        return
                    is_late = clock.elapsed() - began >= seconds / 2
                    end = end_without_us(view, own, secrets.token_hex(8))
                    if end is not None and (is_late or not may_finish(view, own)):
                        await store.write(end)
                await anyio.sleep(pause)
                pause = min(2 * pause, LOOK_SECONDS_AT_MOST)


def telling(
    what: Callable[[], str], limit: float, clock: Clock, report: Report
) -> AbstractAsyncContextManager[object]:
    """Tell that etcd is waited for, or waits, while this is entered; ``limit`` is in seconds."""

    async def tell() -> NoReturn:
        with LongWait(SERVERS, clock.elapsed, wait_ended(report)) as wait:
            while True:
                await clock.sleep(wait.pause)
                report(EtcdWaiting(what(), wait.told(), limit))

    return beside(tell)


FIRST = 0
"""The node rank of the server that starts it."""
AGAIN_SECONDS = 0.5


class FirstServer:
    """``client`` makes a client that is told later where etcd is."""

    def __init__(
        self,
        client: Callable[[], AbstractAsyncContextManager[Etcd]],
        rules: OwnEtcdRules,
        machine: Surroundings,
    ) -> None:
        self._new_client = client
        self._rules = rules
        self._machine = machine
        self._process: EtcdProcess | None = None
        self._keeping = anyio.CancelScope()
        self._is_kept = False
        self._has_answered = False
        self._why = "it has not answered yet"

    @asynccontextmanager
    async def etcd(self) -> AsyncIterator[Etcd]:
        """A client. At the end, the etcd that runs here stays while other servers need it."""
        async with self._new_client() as self._client, beside() as self._tasks:
            try:
                yield self._client
            finally:
                with anyio.CancelScope(shield=True):
                    await self._leave()

    async def serve(self, endpoint: Endpoint, own_addresses: Sequence[str]) -> None:
        """Start it, to be found at ``endpoint``, unless it was started; ``etcd`` is entered.

        Returns when it answers; raises a Refusal. ``own_addresses`` are those of this machine, as
        far as they are known.
        """
        if self._process is not None:
            return
        machine = self._machine
        program = machine.find(PROGRAM)
        if program is None:
            raise SettingsRefused(MISSING)
        serves = await serves_at(endpoint, own_addresses)
        process = self._process = EtcdProcess(program, serves, machine, self._tasks)
        await process.prepare()
        self._client.move(serves)
        await start_first(process, self._client, machine)
        self._has_answered = self._is_kept = True
        self._tasks.start_soon(self._keep, process)

    def _lives(self) -> bool:
        """Whether it runs, or is started again."""
        return self._is_kept

    async def _keep(self, process: EtcdProcess) -> None:
        with self._keeping:
            await keep(process, self._machine)
            self._is_kept = False

    async def wait(self, endpoint: Endpoint) -> None:
        """Return when the etcd of the first server answers at ``endpoint``; ``etcd`` is entered.

        It is not waited for again if it is elsewhere later. Raises Unavailable. That it starts
        later than we is ordinary.
        """
        self._client.move(endpoint)
        if self._has_answered:
            return
        machine, seconds = self._machine, self._rules.timeout
        with anyio.move_on_after(seconds):
            async with telling(self._missing, seconds, machine.clock, machine.report):
                await self._look_until_it_answers()
                return
        raise Unavailable(
            f"--peers first: {endpoint.whose}, has not answered within {seconds:g} s: {self._why}; "
            f"see whether server {FIRST} runs, and whether its port {endpoint.port} can be reached"
        )

    def _missing(self) -> str:
        return f"waiting until the first server has started the job's etcd: {self._why}"

    async def _look_until_it_answers(self) -> None:
        while not self._has_answered:
            try:
                await self._client.read(Get(Key(records.job_prefix(self._rules.job))))
            except (Refused, MalformedAnswer) as error:
                raise Unavailable(f"--peers first: {error}") from error
            except EtcdError as error:
                self._why = str(error)
                await anyio.sleep(AGAIN_SECONDS)
            else:
                self._has_answered = True

    async def _leave(self) -> None:
        process, machine, rules = self._process, self._machine, self._rules
        if process is None:
            return
        if self._has_answered:
            store = Store(self._client, rules.job, secrets.token_hex(8), rules.ttl)
            await stay(store, FIRST, rules.fence, self._lives, machine.clock, machine.report)
        self._keeping.cancel()
        await process.end()


def first_server_of(meeting: PeersMeeting, machine: Surroundings) -> FirstServer:
    rules = OwnEtcdRules(meeting.name, round(meeting.ttl), meeting.fence, meeting.timeout)
    return FirstServer(meeting.etcd, rules, machine)


def placed_with_etcd(
    placed: Callable[[], Awaitable[Placed]],
    endpoint_of: Callable[[RankTable], Endpoint],
    first: FirstServer,
) -> Callable[[], Awaitable[Placed]]:
    """The same place, when the etcd answers where it is by the table (``endpoint_of``).

    The first server has node rank 0.
    """

    async def reached() -> Placed:
        at = await placed()
        endpoint = endpoint_of(at.found.table)
        if at.node_rank == FIRST:
            await first.serve(endpoint, own_addresses(at.found.table))
        else:
            await first.wait(endpoint)
        return at

    return reached
