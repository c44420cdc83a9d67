"""One server among the peers of its job: reads, decides and writes until it is to end."""

from __future__ import annotations

import random
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from time import time
from typing import Any, NoReturn

import anyio
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import (
    EndRanks,
    Exit,
    Forget,
    Read,
    RecordChange,
    StartRanks,
    WaitUntil,
)
from ascend_supervisor.coordination.agreement.case import Home
from ascend_supervisor.coordination.agreement.decision_table import decide
from ascend_supervisor.coordination.agreement.hearing import heard
from ascend_supervisor.coordination.agreement.memory import (
    KeptAlive,
    PeerMemory,
    carried_out,
    memory_at,
    remember,
)
from ascend_supervisor.coordination.agreement.records import Phase
from ascend_supervisor.coordination.agreement.situation import Clocks, JobRules, Ranks, Situation
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.coordination.peers.ends import moved_to
from ascend_supervisor.coordination.peers.near import (
    FEW,
    Look,
    Looks,
    Near,
    in_turn,
    look_of,
    near_of,
)
from ascend_supervisor.coordination.peers.requests import (
    AGAIN_SECONDS,
    EtcdRequests,
    Reply,
    boot_time,
)
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.coordination.peers.wakes import Wakes
from ascend_supervisor.coordination.peers.words import Others
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.etcd.failures import EtcdError
from ascend_supervisor.outcome import Reached
from ascend_supervisor.tasks.clock import whole_second

KEEP_ALIVE, KEEP_ALIVE_OF_MANY, KEEP_ALIVE_AGAIN = 1 / 4, 1 / 3, 1 / 12
"""TTLs before our lease is kept again, and after it could not be. A request is given up after a
quarter of one: three begin before the lease ends, of many servers two."""
KEEP_ALIVE_LOOK = 1 / 16
"""TTLs before the clock is looked at again; at least every second."""
JOB_SECONDS, MOST_JOB_SECONDS = 60.0, 900.0
"""How often the lease of the job's records is kept, by one server after another, and how often by
each at least. It lasts an hour."""

Order = StartRanks | EndRanks | Exit


class Session:
    """``fence`` is called with the time (CLOCK_BOOTTIME) at which our ranks must be gone.

    ``tell_trouble`` is called with a sentence when etcd does not answer, with None when it does
    again. More than ``few`` servers read little at each change. ``tell_damage`` is called with what
    is wrong with records, by key. Tasks that must run meanwhile: ``run``, ``stay_alive``,
    ``watch``.
    """

    def __init__(
        self,
        store: Store,
        rules: JobRules,
        fence: Callable[[float], None],
        tell_trouble: Callable[[str | None], None],
        tell_damage: Callable[[Mapping[str, str]], None],
        few: int = FEW,
    ) -> None:
        self._store = store
        self._rules = rules
        self._fence = fence
        self._few = few
        self._damage = tell_damage
        self._requests = EtcdRequests(tell_trouble)
        self._view: View | None = None
        self._revision = 0
        self._looks = Looks()
        self._wakes = Wakes()
        self.memory: PeerMemory = memory_at(boot_time())
        self.situation = Situation()
        self.order: Order | None = None
        """The latest; what it says holds until another one follows."""
        self.ready_with = ""
        """The digest of the rank table with which the others know us to be ready."""
        self.waits_for = ""
        self.has_decided = False
        """Whether there is nothing to do about what was told last, but to wait."""
        self.others = Others()

    def tell(self, **changes: Any) -> None:
        """The situation here has changed."""
        self.situation = replace(self.situation, **changes)
        self.has_decided = False
        self._wakes.wake()

    def begin(self, generation: int) -> None:
        """Its ranks are started here now: there is nothing to decide about that."""
        self.situation = replace(
            self.situation,
            ranks=Ranks.RUNNING,
            generation=generation,
            verdict=None,
            reached=Reached(),
        )

    async def change(self) -> None:
        """Return after the next change of the order, or of what is known of the job."""
        await self._wakes.change()

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

    def take_place(self, index: int, servers: int, *, may_move: bool) -> None:
        """As ``moved_to``."""
        self._rules = moved_to(self._rules, index, servers, may_move=may_move)

    @property
    def members_missing(self) -> tuple[int, ...]:
        """As ``Others.missing``."""
        return self.others.missing(self.memory.index, self._rules.servers)

    @property
    def members_lost(self) -> tuple[int, ...]:
        """As ``Others.lost``."""
        return self.others.lost(self.memory.index, self._rules.servers)

    # The tasks.

    async def run(self) -> None:
        """Decide and act, until this server is to end."""
        while not isinstance(self.order, Exit):
            await self._step()

    async def stay_alive(self) -> NoReturn:
        every = min(JOB_SECONDS * self._rules.servers, MOST_JOB_SECONDS)
        kept = boot_time() - every * random.random()  # noqa: S311
        pause = KEEP_ALIVE
        while True:
            await self._passes(self._rules.ttl * pause)
            if self.memory.index is None and not self.memory.offers:
                continue
            sent = boot_time()
            remains = await self._asked("keepalive", self._store.keep_alive)
            if remains is None:
                pause = KEEP_ALIVE_AGAIN
                continue
            pause = KEEP_ALIVE if self._near is None else KEEP_ALIVE_OF_MANY
            was = self.memory.misses_own_keys
            self._remember(KeptAlive(remains), sent)
            if not remains and not was:
                self._wakes.wake()
            if boot_time() - kept > every:
                kept = boot_time()
                with suppress(EtcdError):  # another server may do it, and the next write does
                    await self._store.keep_job()

    async def _passes(self, seconds: float) -> None:
        """Return so many seconds later, by the clock of the lease.

        The loop's own time is slower where the loop is held up.
        """
        end, look = boot_time() + seconds, self._rules.ttl * KEEP_ALIVE_LOOK
        while (left := end - boot_time()) > 0:
            await (whole_second() if look >= 1 else anyio.sleep(min(left, look)))

    async def watch(self) -> NoReturn:
        """Wake at every change. A watch may be silent, so nothing depends on it."""
        while True:
            try:
                near = self._near
                async with self._store.watch(self._revision, near) as watch:
                    async for _ in watch:
                        self._wakes.wake(None if near is None else self._store.told(watch.put))
                        if self._near != near:
                            break
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
            case RecordChange():
                await self._write(act)
            case WaitUntil(until=until, reason=reason):
                self._requests.withdraw("write")
                self.waits_for, self.has_decided = reason, True
                self._wakes.tell()
                await self._wait(until)
                self._view = None
            case EndRanks() | StartRanks():
                self._do(act)
            case Forget():
                self.memory = carried_out(self.memory, act, boot_time(), self._rules)
            case Exit():
                trouble = self._requests.trouble if self._is_cut_off else ""
                self._give(replace(act, reason=f"{act.reason}: {trouble}") if trouble else act)

    async def _wait(self, until: float) -> None:
        """Until it is time to read; what a watch tells meanwhile may be enough."""
        while (told := await self._wakes.woken(self._in_turn(until) - boot_time())) is not None:
            about, now = self.memory.about, boot_time()
            if about is not None and about.stamp == told.stamp:
                continue  # it was read already
            found = heard(told, Home(self.memory, self._clocks(), self.situation, self._rules))
            if found is None:
                return
            until, self.memory = found.until, found.memory
            self._looks.note(found.view, now)
            self.others.look(found.view, self._rules.servers, now)
            self._do(found.act)

    def _do(self, act: EndRanks | StartRanks) -> None:
        self.memory = carried_out(self.memory, act, boot_time(), self._rules)
        if isinstance(act, EndRanks):
            self.situation = replace(self.situation, ranks=Ranks.ENDING)
        self._give(act)

    def _in_vain(self) -> Exit | None:
        """The end if etcd answers, but not what is needed: nobody hears of us, or we of nobody.

        Where it answers nothing the contact is as old, and ``decide`` says that.
        """
        if self._is_cut_off:
            return None
        why = self._requests.in_vain_for(self._rules.patience)
        return None if why is None else Exit(UNAVAILABLE, f"etcd cannot be used: {why}", kills=True)

    async def _read(self) -> None:
        sent = boot_time()
        # A table with fewer servers may have come: what we hold ourselves is read until it is left.
        held = 0 if self.memory.index is None else self.memory.index + 1
        ask = partial(self._store.read, self._look(), max(self._rules.servers, held))
        view = await self._asked("read", ask)
        if view is None:
            await anyio.sleep(AGAIN_SECONDS)
        else:
            self._take(view, sent)

    def _take(self, view: View, sent: float) -> None:
        """``view`` is the answer to a request of then."""
        self._view, self._revision = view, view.revision
        self._looks.note(view, boot_time())
        self._tell_damage(view)
        self.others.look(view, self._rules.servers, boot_time())
        self._remember(view, sent)
        self._note_ready(view)

    async def _write(self, act: RecordChange) -> None:
        sent = boot_time()
        write = partial(self._store.write, act, self._look(own=act.is_counted))
        written = await self._asked("write", write)
        self._view = None  # whatever has become of it
        if written is None:
            await anyio.sleep(AGAIN_SECONDS)
        elif written.has_succeeded:
            self.memory = carried_out(self.memory, act, sent, self._rules)
            self._tell_fence()
            if act.afterwards is not None:
                self._give(act.afterwards)
            elif written.view is not None:
                self._take(written.view, sent)

    def _tell_damage(self, view: View) -> None:
        """A damaged record costs a sentence; that of the job itself ends who has never read it."""
        self._damage(view.damaged)
        if view.damaged_epoch and self.memory.epoch is None:
            self._requests.fails("epoch", view.damaged_epoch)
        else:
            self._requests.withdraw("epoch")

    def _note_ready(self, view: View) -> None:
        """From what etcd holds: a ``ready`` may have been put although its answer was lost."""
        index = self.memory.index
        mark = view.ready.get(index) if index is not None else None
        if mark is not None and mark.incarnation == self._rules.own.incarnation:
            self.ready_with = mark.digest

    async def _asked(self, what: str, ask: Callable[[], Awaitable[Reply]]) -> Reply | None:
        """None if there is no answer in time: our ranks must end before the fence."""
        left = self.memory.contact + self._rules.patience - boot_time()
        return await self._requests.ask(what, ask, left)

    @property
    def _near(self) -> Near | None:
        """What we read of a job of many servers; None if all is read."""
        return near_of(self.memory, self._rules, self._few)

    def _look(self, *, own: bool = False) -> Look | None:
        """``own``: others may have waited for what we write now."""
        near, now = self._near, boot_time()
        if near is None:
            return None
        look = look_of(near, self.memory, self.situation, self._rules, self._looks, now)
        delay = self.memory.about.delay if self.memory.about is not None else 0.0
        is_due = own and now >= self.memory.phase_seen + delay
        return replace(look, is_due=is_due or look.is_due)

    def _in_turn(self, until: float) -> float:
        return in_turn(until, self.memory, self._near, self._rules.ttl)

    @property
    def _is_cut_off(self) -> bool:
        return boot_time() - self.memory.contact >= self._rules.patience

    def _clocks(self) -> Clocks:
        word, fraction = secrets.token_hex(8), random.random()  # noqa: S311
        return Clocks(boot_time(), word, fraction, time())

    def _remember(self, seen: View | KeptAlive, sent: float) -> None:
        self.memory = remember(self.memory, seen, sent, boot_time(), self._rules)
        self._tell_fence()
        self._wakes.tell()

    def _tell_fence(self) -> None:
        self._fence(self.memory.contact + self._rules.fence)

    def _give(self, order: Order) -> None:
        self.order = order
        self.has_decided = isinstance(order, Exit)
        self._wakes.tell()
