"""The servers of a job, their etcd, and everything that can happen next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import Exit, RecordChange, StartRanks
from ascend_supervisor.coordination.agreement.history import FailureLimit
from ascend_supervisor.coordination.agreement.memory import carried_out
from ascend_supervisor.coordination.agreement.situation import JobRules, Ranks
from ascend_supervisor.outcome import Ended
from tests.coordination.agreement.process import (
    CONSEQUENCE,
    CRASH,
    NEVER,
    TTL,
    Life,
    Looked,
    Process,
    Reach,
    allowed,
    crowded,
    failed,
    forbidden,
    gone,
    hears,
    looks,
    new_process,
    older,
    released,
    rules_of,
    sickened,
    stuck,
    succeeded,
    told_of,
    told_to_stop,
    with_news,
)
from tests.coordination.agreement.store import Store, seen, transacted
from tests.coordination.agreement.watch import (
    Watch,
    are_ready,
    has_decided,
    has_ended,
    has_started,
    has_written,
    is_given_up,
)

FAULTS = ("fail", "kill", "term", "freeze", "cut", "stall", "wipe")
FORBID = "forbid"
"""The files of a cluster forbid a start, on one server, for a while."""
UNFIT = "unfit"
"""From now on a server cannot run ranks, which a check finds out before they start."""
UNABLE = "unable"
"""From now on a server cannot start all of its ranks."""
STUCK = "stuck"
"""From now on a server cannot end its ranks: they wait in the kernel."""
GROUP = 2
SCRIBBLE = "scribble"
"""Somebody else overwrites one of the keys, which no lease takes away then."""


class World(Struct, frozen=True, cache_hash=True):
    """``faults`` and ``newcomers`` (places) may still come; ``watch`` knows what must hold."""

    store: Store
    processes: tuple[Process, ...]
    faults: tuple[str, ...] = ()
    newcomers: tuple[str, ...] = ()
    watch: Watch = Watch()

    def process(self, name: str) -> Process:
        return next(one for one in self.processes if one.name == name)

    def with_process(self, new: Process) -> World:
        new = with_news(new)
        processes = tuple(new if one.name == new.name else one for one in self.processes)
        return replace(self, processes=processes)


Event = tuple[str, ...]
"""What happens, and to whom."""


class Model:
    """``servers`` run the job, and ``spares`` more are started with them.

    ``without`` are lines of the table that are switched off; ``limit`` is that of the budget.
    ``reach``: they read as servers of many do, each with the ``alive`` of so many next ones, hear
    of each epoch at any time after it was written, and keep rosters in blocks of GROUP. ``rests``:
    they read less where they run and miss nobody, and keep their leases meanwhile.
    ``leave_after`` is when a server leaves to a spare; with it, ranks that have lost others end by
    ``lost_peer``.
    """

    def __init__(
        self,
        servers: int,
        limit: int = 1,
        without: frozenset[str] = frozenset(),
        spares: int = 0,
        reach: int | None = None,
        leave_after: FailureLimit = NEVER,
        lost_peer: Ended = CONSEQUENCE,
        *,
        rests: bool = False,
    ) -> None:
        self.reach = reach
        self.rests = rests
        self.group = 64 if reach is None else GROUP
        self.servers = servers
        self.spares = spares
        self.limit = limit
        self.without = without
        self.leave_after = leave_after
        self._follow = partial(failed, verdict=lost_peer if leave_after.count else CRASH)
        self._looks: dict[tuple[Process, Store], tuple[Looked, ...]] = {}

    def cold(self, faults: tuple[str, ...] = (), newcomers: tuple[str, ...] = ()) -> World:
        """Every server has just been started, and etcd is empty."""
        names = "ABCDEFGH"[: self.servers + self.spares]
        processes = tuple(new_process(name, name.lower()) for name in names)
        return World(Store(), processes, faults, newcomers)

    def running(self, faults: tuple[str, ...] = (), newcomers: tuple[str, ...] = ()) -> World:
        """All run the first generation, for so long that a loss would be believed."""
        world = self.cold()
        while sum(one.ranks is not None for one in world.processes) < self.servers:
            world = self.happened(world, self.usual(self.events(world)))
        for _ in range(TTL):
            while ("tick",) not in (events := list(self.events(world))):
                event = next(one for one in events if one[0] in {"look", "do"})
                world = self.happened(world, event)
            world = self.happened(world, ("tick",))
        while ("tick",) not in (events := list(self.events(world))):
            world = self.happened(world, next(one for one in events if one[0] in {"look", "do"}))
        return replace(world, faults=faults, newcomers=newcomers)

    # What can happen.

    def events(self, world: World) -> Iterator[Event]:
        """Everything that can happen next. Time passes when all have done what they can do now."""
        busy = False
        for one in world.processes:
            if one.works and one.pending is not None:
                yield "do", one.name
                busy = True
            elif one.works and (looked := self._looked(world, one)) != (Looked(one),):
                yield "look", one.name
                for number in range(1, len(looked)):
                    yield "look", one.name, f"and takes choice {number}"
                busy = busy or not looked[0].may_wait
            for number in range(len(self._heard(one))):
                yield "hear", one.name, f"{number}"
            yield from self._of_ranks(world, one)
        yield from self._faults(world)
        yield from self._healings(world)
        yield from self._comings(world)
        if not busy:
            yield ("tick",)

    def _of_ranks(self, world: World, one: Process) -> Iterator[Event]:
        if not one.is_here:
            return
        if one.situation.ranks is Ranks.ENDING and one.works:
            yield "released", one.name
        if one.ranks is not None and one.situation.ranks is Ranks.RUNNING:
            if self._can_succeed(world, one.ranks):
                yield "succeed", one.name
            elif self._misses_others(world, one.ranks):
                yield "follow", one.name

    def _can_succeed(self, world: World, life: Life) -> bool:
        """Ranks need those of all other servers, until these have ended with 0."""
        with_it = {one.name for one in world.processes if life in (one.ranks, one.finished)}
        return {seat.incarnation for seat in life.roster} <= with_it

    def _misses_others(self, world: World, life: Life) -> bool:
        """Whether ranks elsewhere have ended before their time, so that ours will fail, too."""
        return any(one.fallen == life for one in world.processes)

    def _faults(self, world: World) -> Iterator[Event]:
        for fault in dict.fromkeys(world.faults):
            if fault in {"stall", "wipe"}:
                yield (fault,)
                continue
            if fault == SCRIBBLE:
                yield from ((fault, item.key) for item in world.store.items)
                continue
            for one in world.processes:
                if self._can_hit(fault, one):
                    yield fault, one.name
                    if one.pending is not None and fault in {"kill", "freeze", "cut"}:
                        yield fault, one.name, "after its request"

    def _healings(self, world: World) -> Iterator[Event]:
        for one in world.processes:
            if one.reach in {Reach.FROZEN, Reach.CUT}:
                yield "heal", one.name
            if one.is_here and one.situation.table is None:
                yield "allow", one.name

    def _comings(self, world: World) -> Iterator[Event]:
        for place in dict.fromkeys(world.newcomers):
            for one in world.processes:
                if place == "same" and not one.is_here and self._is_free(world, one.place):
                    yield "come", place, one.place
            if place == "other":
                yield "come", place, f"place {len(world.processes)}"

    def _is_free(self, world: World, place: str) -> bool:
        return not any(one.is_here and one.place == place for one in world.processes)

    def _can_hit(self, fault: str, one: Process) -> bool:
        if fault == "fail":
            return one.ranks is not None and one.situation.ranks is Ranks.RUNNING
        if fault == "term":
            return one.is_here and one.situation.stop is None
        if fault == "kill":
            return one.is_here
        if fault == UNFIT:
            return one.is_here and not one.is_sick
        if fault == UNABLE:
            return one.is_here and one.has_room
        if fault == STUCK:
            return one.is_here and not one.is_stuck
        if fault == FORBID:
            has_ranks = one.situation.ranks is not Ranks.NONE
            return one.is_here and not has_ranks and one.situation.table is not None
        return one.reach is Reach.FINE

    def usual(self, events: Iterable[Event]) -> Event:
        """What happens next if nothing goes wrong any more: the first of what can happen."""
        return min(events, key=lambda event: _USUAL.get(event[0], len(_USUAL)))

    def is_over(self, world: World) -> bool:
        """Whether everybody has ended, but for those that are frozen."""
        return not any(one.works for one in world.processes)

    # What then is.

    def happened(self, world: World, event: Event) -> World:
        """The world after an event; raises Violation."""
        kind, *whom = event
        match kind:
            case "tick":
                return self._ticked(world)
            case "look":
                choice = int(whom[1].rsplit(" ", 1)[1]) if len(whom) > 1 else 0
                return self._after_look(world, world.process(whom[0]), choice)
            case "hear":
                one = world.process(whom[0])
                return self._after_act(world, one, self._heard(one)[int(whom[1])])
            case "do":
                return self._done(world, world.process(whom[0]))
            case "come":
                return self._come(world, *whom)
            case "heal":
                return world.with_process(replace(world.process(whom[0]), reach=Reach.FINE))
            case "allow":
                return world.with_process(allowed(world.process(whom[0])))
            case "released" | "succeed" | "follow":
                acts: dict[str, Callable[[Process], Process]]
                acts = {"released": released, "succeed": succeeded, "follow": self._follow}
                return world.with_process(acts[kind](world.process(whom[0])))
            case _:
                return self._faulted(world, event)

    def _rules(self, one: Process) -> JobRules:
        return rules_of(one, self.servers, self.limit, self.group, self.leave_after)

    def _looked(self, world: World, one: Process) -> tuple[Looked, ...]:
        """What a look may lead to."""
        known = self._looks.get((one, world.store))
        if known is None:
            rules = self._rules(one)
            known = looks(one, world.store, rules, self.without, self.reach, rests=self.rests)
            self._looks[one, world.store] = known
        return known

    def _after_look(self, world: World, one: Process, choice: int) -> World:
        return self._after_act(world, one, self._looked(world, one)[choice])

    def _heard(self, one: Process) -> tuple[Looked, ...]:
        """What a word of the watch may lead to."""
        is_free = one.works and one.pending is None
        return hears(one, self._rules(one), self.without) if is_free and one.told else ()

    def _after_act(self, world: World, one: Process, looked: Looked) -> World:
        has_decided(looked.process, seen(world.store), self.servers)
        world = world.with_process(looked.process)
        if isinstance(looked.act, StartRanks) and looked.process.ranks is not None:
            return replace(world, watch=has_started(world.watch, looked.process, world.processes))
        if isinstance(looked.act, Exit):
            return self._exited(world, one, looked.act)
        return world

    def _exited(self, world: World, one: Process, act: Exit) -> World:
        """``one`` is the process as it was before."""
        watch = has_ended(world.watch, one, act)
        store = world.store
        if act.farewell is not None and one.reach is Reach.FINE:
            store = transacted(store, act.farewell, one.name) or store
        return replace(world, watch=watch, store=store)

    def _done(self, world: World, one: Process) -> World:
        act = one.pending
        assert act is not None
        one = replace(one, pending=None)
        if one.reach is Reach.CUT:
            return world.with_process(one)
        rules = self._rules(one)
        after = transacted(world.store, act, one.name)
        if after is None:
            return world.with_process(one)
        world = self._written(world, after, act)
        age = 0 if after.holds(one.name) else one.lease_age
        one = replace(one, memory=carried_out(one.memory, act, 0, rules), lease_age=age)
        if act.afterwards is None:
            return world.with_process(one)
        world = world.with_process(gone(one, act.afterwards.exit_code))
        return self._exited(world, one, act.afterwards)

    def _written(self, world: World, after: Store, act: RecordChange) -> World:
        watch = has_written(world.watch, seen(world.store), seen(after), act)
        about = seen(after).about
        if seen(world.store).epoch != seen(after).epoch:
            is_given_up(watch, seen(after), world.processes, self.servers)
            if self.reach is not None and about is not None:
                processes = tuple(told_of(one, about) for one in world.processes)
                world = replace(world, processes=processes)
        return replace(world, store=after, watch=watch)

    def _come(self, world: World, kind: str, place: str) -> World:
        name = "XYZ"[sum(one.name in "XYZ" for one in world.processes)]
        newcomers = list(world.newcomers)
        newcomers.remove(kind)
        processes = (*world.processes, new_process(name, place))
        watch = replace(world.watch, is_calm=False)
        return replace(world, processes=processes, newcomers=tuple(newcomers), watch=watch)

    def _faulted(self, world: World, event: Event) -> World:
        fault, *whom = event
        faults = list(world.faults)
        faults.remove(fault)
        watch = world.watch.after_fault(fault, seen(world.store).epoch)
        if self.leave_after.count or fault in {UNFIT, UNABLE, STUCK}:
            watch = watch.with_hit(fault, *whom)
        world = replace(world, faults=tuple(faults), watch=watch)
        if fault == "stall":
            return replace(world, store=world.store.without_leases())
        if fault == "wipe":
            return replace(world, store=world.store.wiped())
        if fault == SCRIBBLE:
            return replace(world, store=world.store.overwritten(whom[0]))
        one = world.process(whom[0])
        if one.pending is not None and len(whom) > 1:
            after = transacted(world.store, one.pending, one.name)
            world = world if after is None else self._written(world, after, one.pending)
            one = replace(world.process(one.name), pending=None)
        if fault == "cut":
            one = replace(one, pending=None)
        return world.with_process(_HITS[fault](one))

    def _ticked(self, world: World) -> World:
        are_ready(seen(world.store), world.processes)
        processes = tuple(
            older(one) if one.is_here else _aged_lease(one) for one in world.processes
        )
        store = world.store
        for one in processes:
            if one.lease_age >= TTL:
                store = store.without(one.name)
        return replace(world, store=store, processes=processes)


def _aged_lease(one: Process) -> Process:
    return replace(one, lease_age=min(one.lease_age + 1, TTL))


_USUAL = {"do": 0, "look": 1, "released": 2, "succeed": 3, "follow": 4, "allow": 5, "tick": 6}
_HITS: dict[str, Callable[[Process], Process]] = {
    "fail": failed,
    FORBID: forbidden,
    UNFIT: sickened,
    UNABLE: crowded,
    STUCK: stuck,
    "kill": partial(gone, code=None),
    "term": told_to_stop,
    "freeze": lambda one: replace(one, reach=Reach.FROZEN),
    "cut": lambda one: replace(one, reach=Reach.CUT),
}
