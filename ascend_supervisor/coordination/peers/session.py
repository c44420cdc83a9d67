"""One server among the peers of its job: reads, decides and writes until it is to end."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

import anyio
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.agreement.acts import (
    EndRanks,
    Exit,
    Forget,
    Read,
    StartRanks,
    Transaction,
    Wait,
)
from ascend_supervisor.coordination.agreement.clocks import Clocks
from ascend_supervisor.coordination.agreement.decision import decide
from ascend_supervisor.coordination.agreement.memory import (
    KeptAlive,
    Memory,
    carried_out,
    memory_at,
    remember,
)
from ascend_supervisor.coordination.agreement.records import DamagedRecord, Mark, Phase, decode
from ascend_supervisor.coordination.agreement.rules import Rules
from ascend_supervisor.coordination.agreement.situation import Ranks, Situation
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.errors import UNAVAILABLE, Unavailable
from ascend_supervisor.etcd.failures import EtcdError

AGAIN_SECONDS = 0.5
"""The pause after a request that has failed."""
JOB_SECONDS = 60.0

Order = StartRanks | EndRanks | Exit
Answer = TypeVar("Answer")


def boot_time() -> float:
    """Seconds of CLOCK_BOOTTIME, which goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Moved(Unavailable):
    """The rank table gives this server another place: it must be started anew."""


class Session:
    """``fence`` is called with the time (CLOCK_BOOTTIME) at which our ranks must be gone.

    ``tell_trouble`` is called with a sentence when etcd does not answer, with None when it does
    again. ``tasks`` that must run meanwhile: ``run``, ``stay_alive``, ``watch``.
    """

    def __init__(
        self,
        store: Store,
        rules: Rules,
        fence: Callable[[float], None],
        tell_trouble: Callable[[str | None], None],
    ) -> None:
        self._store = store
        self._rules = rules
        self._fence = fence
        self._tell_trouble = tell_trouble
        self._view: View | None = None
        self._revision = 0
        self._news = anyio.Event()
        self._changed = anyio.Event()
        self.memory: Memory = memory_at(boot_time())
        self.situation = Situation()
        self.order: Order | None = None
        """The latest; what it says holds until another one follows."""
        self.ready_with = ""
        """The digest of the rank table with which the others know us to be ready."""
        self.waits_for = ""
        self._members: tuple[int, ...] = ()
        self._failing: dict[str, tuple[float, str]] = {}
        """What etcd was last asked for in vain: since when, and why."""

    def tell(self, **changes: Any) -> None:
        """The situation here has changed."""
        self.situation = replace(self.situation, **changes)
        self._wake()

    async def change(self) -> None:
        """Return after the next change of the order, or of what is known of the job."""
        await self._changed.wait()

    @property
    def start(self) -> StartRanks | None:
        """The generation that all servers start now; None if there is none, or none any more."""
        order, epoch = self.order, self.memory.epoch
        if not isinstance(order, StartRanks) or epoch is None or epoch.phase is not Phase.RUN:
            return None
        is_its = (
            epoch.generation == order.generation and order.generation != self.situation.generation
        )
        return order if is_its else None

    def check_place(self, index: int, servers: int) -> None:
        """Raises Moved if the rank table gives us another place than the one we joined at."""
        own, all_of_them = self._rules.own.index, self._rules.servers
        if (index, servers) != (own, all_of_them):
            raise Moved(
                f"the rank table has changed: this was server {own} of {all_of_them}, and is now "
                f"server {index} of {servers}; a server that was moved must be started anew"
            )

    @property
    def members_missing(self) -> tuple[int, ...]:
        """The servers that were not ready for the next generation when they were last seen."""
        return tuple(index for index in range(self._rules.servers) if index not in self._members)

    # The tasks.

    async def run(self) -> None:
        """Decide and act, until this server is to end."""
        while not isinstance(self.order, Exit):
            await self._step()

    async def stay_alive(self) -> NoReturn:
        kept = boot_time()
        while True:
            await anyio.sleep(self._rules.ttl / 4)
            if self.memory.index is None:
                continue
            sent = boot_time()
            remains = await self._asked("keepalive", self._store.keep_alive)
            if remains is None:
                continue
            was = self.memory.misses_own_keys
            self._remember(KeptAlive(remains), sent)
            if not remains and not was:
                self._wake()
            if boot_time() - kept > JOB_SECONDS:
                kept = boot_time()
                with suppress(EtcdError):  # another server may do it, and the next write does
                    await self._store.keep_job()

    async def watch(self) -> NoReturn:
        """Wake at every change. A watch may be silent, so nothing depends on it."""
        while True:
            try:
                async with self._store.watch(self._revision) as watch:
                    async for _ in watch:
                        self._wake()
            except EtcdError:
                pass  # whoever reads tells it
            await anyio.sleep(AGAIN_SECONDS)

    # The parts of ``run``.

    async def _step(self) -> None:
        if (end := self._in_vain()) is not None:
            self._give(end)
            return
        act = decide(self._view, self.memory, self._clocks(), self.situation, self._rules)
        match act:
            case Read():
                await self._read()
            case Transaction():
                await self._write(act)
            case Wait(until=until, reason=reason):
                self._failing.pop("write", None)  # nothing is to be written any more
                self.waits_for = reason
                self._tell_change()
                await self._woken(until)
            case EndRanks():
                self._give(act)
                self.situation = replace(self.situation, ranks=Ranks.ENDING)
            case StartRanks():
                self.memory = carried_out(self.memory, act, boot_time(), self._rules)
                self._give(act)
            case Forget():
                self.memory = carried_out(self.memory, act, boot_time(), self._rules)
            case Exit():
                trouble = "".join(f": {why}" for _, why in list(self._failing.values())[:1])
                self._give(replace(act, reason=f"{act.reason}{trouble}") if act.kills else act)

    def _in_vain(self) -> Exit | None:
        """The end if etcd answers, but not what is needed: nobody hears of us, or we of nobody."""
        for since, why in self._failing.values():
            if boot_time() - since >= self._rules.patience:
                return Exit(UNAVAILABLE, f"etcd cannot be used: {why}", kills=True)
        return None

    async def _read(self) -> None:
        sent = boot_time()
        view = await self._asked("read", self._store.read)
        if view is None:
            await anyio.sleep(AGAIN_SECONDS)
            return
        self._view, self._revision, self._members = view, view.revision, view.prepared
        self._remember(view, sent)

    async def _write(self, act: Transaction) -> None:
        sent = boot_time()

        async def write() -> bool:
            return await self._store.write(act)

        has_succeeded = await self._asked("write", write)
        self._view = None  # whatever has become of it
        if has_succeeded is None:
            await anyio.sleep(AGAIN_SECONDS)
        elif has_succeeded:
            self.memory = carried_out(self.memory, act, sent, self._rules)
            self._tell_fence()
            self._note_ready(act)
            if act.then is not None:
                self._give(act.then)

    async def _woken(self, until: float) -> None:
        with anyio.move_on_after(max(0.0, until - boot_time())):
            await self._news.wait()
        self._news = anyio.Event()  # only now: what came while we read may not have been seen
        self._view = None

    def _note_ready(self, act: Transaction) -> None:
        for put in act.puts:
            if put.key.startswith(f"{keys.READY}/"):
                self.ready_with = decode(put.key, put.value, Mark).digest

    async def _asked(self, what: str, ask: Callable[[], Awaitable[Answer]]) -> Answer | None:
        """The answer of etcd; None if there is none in time: our ranks must end before the fence.

        ``what`` names the kind of request: that others succeed says nothing about this one.
        """
        left = self.memory.contact + self._rules.patience - boot_time()
        answer, why = None, "etcd has not answered"
        with anyio.move_on_after(max(left, AGAIN_SECONDS)):
            try:
                answer = await ask()
            except (EtcdError, DamagedRecord) as error:
                why = str(error)
        if answer is None:
            since, _ = self._failing.get(what, (boot_time(), ""))
            self._failing[what] = since, why
            self._tell_trouble(why)
        else:
            self._failing.pop(what, None)
            if not self._failing:
                self._tell_trouble(None)
        return answer

    def _clocks(self) -> Clocks:
        return Clocks(boot_time(), secrets.token_hex(8), random.random())  # noqa: S311

    def _remember(self, seen: View | KeptAlive, sent: float) -> None:
        self.memory = remember(self.memory, seen, sent, boot_time(), self._rules)
        self._tell_fence()
        self._tell_change()

    def _tell_fence(self) -> None:
        self._fence(self.memory.contact + self._rules.fence)

    def _give(self, order: Order) -> None:
        self.order = order
        self._tell_change()

    def _wake(self) -> None:
        self._news.set()  # until the next wait has ended

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
