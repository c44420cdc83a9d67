"""A supervisor in the model, and its ranks; it decides with the real functions."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import (
    Act,
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
from ascend_supervisor.coordination.agreement.history import FailureLimit
from ascend_supervisor.coordination.agreement.memory import (
    KeptAlive,
    PeerMemory,
    carried_out,
    memory_at,
    remember,
)
from ascend_supervisor.coordination.agreement.records import About, Phase, Seat
from ascend_supervisor.coordination.agreement.situation import (
    Clocks,
    JobRules,
    Obstacle,
    Ranks,
    Self,
    Situation,
)
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.coordination.peers.near import Look, Near
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.outcome import Crashed, Ended, ExitStatus, Failure, Fault, NotStarted, Remedy
from ascend_supervisor.restart_policy import RestartBudget
from tests.coordination.agreement.store import Store, ageless, near_seen, seen

TTL, FENCE, MARGIN, TIMEOUT, SOON = 2, 4, 1, 7, 1
"""In ticks of the model; every supervisor that works looks once a tick, which is TTL/2."""
MOST_WITHOUT_READ = 2
"""But one of many servers that rests: between two looks a whole tick may pass."""
FAILURE = Failure("rank 0", 0, 0, ExitStatus(3), 1.0)
CRASH = Ended(Crashed(FAILURE), 1.0)
LOSS = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
)
LOST_PEER = replace(FAILURE, status=ExitStatus(1), last_lines=(LOSS,))
CONSEQUENCE = Ended(Crashed(LOST_PEER), 1.0)
"""The same of ranks that have lost others."""
NEVER = FailureLimit()

WITHDRAWN = Ended(Fault("the cluster recovers", 69, Remedy.FREE, by_cluster=True), 0.0)


SICK = "this server is not fit for the job: NPU 3"
UNFIT = Situation(
    verdict=Ended(NotStarted(UNAVAILABLE, SICK), 0.0),
    obstacle=Obstacle(UNAVAILABLE, SICK),
    unable=SICK,
)
"""Of a server that was checked before its ranks were to start."""
NO_ROOM = "this server cannot start its ranks: no room"
CANNOT_START = Situation(
    ranks=Ranks.FAILED,
    verdict=Ended(Fault("no room", UNAVAILABLE, is_of_server=True), 0.0),
    unable=NO_ROOM,
    table="t",
)
"""Of a server that has started some of its ranks, and no more."""
STUCK = "what is left cannot be ended: 4711 (state D)"
CANNOT_END = Situation(
    verdict=Ended(Fault(STUCK, UNAVAILABLE, Remedy.FINAL), 0.0),
    obstacle=Obstacle(UNAVAILABLE, STUCK),
    unable=f"this server cannot go on: {STUCK}",
)
"""Of a server whose ranks wait in the kernel, where SIGKILL does not end them."""


class Reach(Enum):
    """What a process can reach."""

    FINE = "fine"
    FROZEN = "frozen"
    CUT = "cut off"
    GONE = "gone"


class Life(Struct, frozen=True):
    """The ranks that really run, whatever the supervisor knows of them."""

    job: str
    generation: int
    roster: tuple[Seat, ...]


class Process(Struct, frozen=True, cache_hash=True):
    """Times are in ticks, and now is always 0: the past is negative.

    ``pending`` is a transaction that was decided and is not done. ``told`` is what its watch has
    still to tell, also after it stood still. ``lease_age`` is that of its ``alive``. ``finished``
    are the ranks that have all ended with 0, ``fallen`` those that have ended otherwise. ``code``
    is its exit code. ``is_sick``: a check before its ranks start will find it unfit.
    ``has_room``: it can start all of its ranks. ``is_stuck``: it cannot end them.
    """

    name: str
    place: str
    memory: PeerMemory
    situation: Situation = Situation(table="t")
    pending: RecordChange | None = None
    told: tuple[About, ...] = ()
    reach: Reach = Reach.FINE
    lease_age: int = 0
    ranks: Life | None = None
    finished: Life | None = None
    fallen: Life | None = None
    code: int | None = None
    is_sick: bool = False
    has_room: bool = True
    is_stuck: bool = False

    @property
    def is_able(self) -> bool:
        """Whether it can do its part in another generation."""
        return self.has_room and not self.is_sick and not self.is_stuck

    @property
    def is_here(self) -> bool:
        return self.reach is not Reach.GONE

    @property
    def works(self) -> bool:
        return self.reach is Reach.FINE or self.reach is Reach.CUT


def new_process(name: str, place: str) -> Process:
    return Process(name, place, memory_at(0))


def rules_of(
    process: Process,
    servers: int,
    limit: int,
    group: int = 64,
    leave_after: FailureLimit = NEVER,
) -> JobRules:
    return JobRules(
        Self(process.name, process.place, machine=process.place),
        servers,
        RestartBudget(limit),
        ttl=TTL,
        fence=FENCE,
        timeout=TIMEOUT,
        margin=MARGIN,
        group=group,
        leave_after=leave_after,
        soon=SOON,
    )


class Looked(Struct, frozen=True, cache_hash=True):
    """A process after a look, and the act that it did at home; None: it has nothing to do.

    ``may_wait``: of many servers it reads all now and then only, so time may pass before.
    """

    process: Process
    act: Act | None = None
    may_wait: bool = False


def looks(
    process: Process,
    store: Store,
    rules: JobRules,
    without: frozenset[str],
    reach: int | None = None,
    *,
    rests: bool = False,
) -> tuple[Looked, ...]:
    """Everything that one wake may lead to: an index is taken at random.

    ``reach``: what is near is read, with the ``alive`` of so many next ones, and all at any time.
    ``rests``: it may only keep its lease instead, as often as it may.
    """
    usual = look(process, store, rules, without)
    if _taken(usual) is not None:
        every = range(rules.servers)
        others = (look(process, store, rules, without, one / rules.servers) for one in every)
        return tuple({_taken(one): one for one in others}.values())
    near = None if reach is None else _near(process, store, rules, reach)
    if near is None:
        return (usual,)
    little = look(process, store, rules, without, view=near)
    found = [replace(usual, may_wait=True)] if usual != Looked(process) else []
    if _without_absences(little) != _without_absences(Looked(process)):
        found = [little, *(one for one in found if one.process != little.process)]
    if rests and found and _may_rest(process, store):
        kept = _kept_alive(process, rules)
        if kept == process:
            found = [replace(one, may_wait=True) for one in found]
        elif kept != little.process:
            found = [Looked(kept), *found]
    return tuple(found) or (Looked(process),)


def _may_rest(process: Process, store: Store) -> bool:
    """Whether its lease is kept, and it may read later: it runs, and misses nobody."""
    memory, epoch = process.memory, process.memory.epoch
    runs = epoch is not None and epoch.phase is Phase.RUN and process.reach is Reach.FINE
    is_complete = not memory.absences and not memory.misses_own_keys
    has_read = memory.read is not None and memory.read > -MOST_WITHOUT_READ
    return runs and is_complete and has_read and store.holds(process.name)


def _kept_alive(process: Process, rules: JobRules) -> Process:
    memory = remember(process.memory, KeptAlive(remains=True), 0, 0, rules)
    return replace(process, memory=memory, lease_age=0)


def told_of(process: Process, about: About) -> Process:
    """The same, of which the watch will tell this at any time from now on."""
    return with_news(replace(process, told=(*process.told, about)))


def with_news(process: Process) -> Process:
    """The same, without what it has read since."""
    known, told = process.memory.epoch, []
    for one in process.told:
        epoch = one.epoch
        if known is None or epoch is None or epoch.job != known.job or epoch.phase is Phase.END:
            continue
        if epoch.order > known.order:
            told.append(one)
    return replace(process, told=tuple(told))


def hears(process: Process, rules: JobRules, without: frozenset[str]) -> tuple[Looked, ...]:
    """What it may do without reading: the next word, or a later one if these come together."""
    found = []
    for number, about in enumerate(process.told):
        home = Home(process.memory, Clocks(0, ""), process.situation, rules)
        if (now := heard(about, home, without)) is not None:
            rest = process.told[number + 1 :]
            found.append(_acted(replace(process, memory=now.memory, told=rest), now.act, rules))
    return tuple(found)


def _near(process: Process, store: Store, rules: JobRules, reach: int) -> View | None:
    """What a server of many reads; None: all."""
    index, leaves = process.memory.index, process.situation.stop is not None
    if index is None:
        return None
    near = Near(index, rules.servers, reach)
    view = near_seen(store, Look(near, leaves=leaves, jobs=process.memory.jobs))
    return None if view.known is None else view


def _without_absences(looked: Looked) -> Looked:
    """Who reads little forgets who was missing elsewhere, which decides nothing."""
    process = looked.process
    return replace(looked, process=replace(process, memory=replace(process.memory, absences=())))


def _taken(looked: Looked) -> int | None:
    """The index that is to be taken; None if none is."""
    act = looked.process.pending
    if act is None or not act.why.startswith("take index"):
        return None
    return int(act.why.rsplit(" ", 1)[1])


def look(
    process: Process,
    store: Store,
    rules: JobRules,
    without: frozenset[str],
    fraction: float = 0.0,
    view: View | None = None,
) -> Looked:
    """One wake: the fence first, then a read if etcd can be reached, then a decision.

    ``view`` is what is read; None: all.
    """
    clocks = Clocks(0, store.word, fraction)
    memory, situation = process.memory, process.situation
    act = decide(None, memory, clocks, situation, rules, without)
    if isinstance(act, Exit) and act.kills:
        return _acted(process, act, rules)
    if process.reach is not Reach.FINE:
        view = None
    else:
        view = view or seen(store)
        memory = remember(memory, view, 0, 0, rules)
        age = 0 if store.holds(process.name) else process.lease_age
        process = replace(process, memory=memory, lease_age=age)
    act = decide(view, memory, clocks, situation, rules, without)
    return _acted(process, act, rules)


def _acted(process: Process, act: Act, rules: JobRules) -> Looked:
    match act:
        case RecordChange():
            return Looked(replace(process, pending=ageless(act)))
        case WaitUntil() | Read():
            return Looked(_tries_again(process, act))
        case EndRanks():
            ranks = Ranks.ENDING if process.ranks else Ranks.NONE
            situation = replace(process.situation, ranks=ranks)
            return Looked(replace(process, situation=situation), act)
        case StartRanks(generation=generation, roster=roster):
            memory = carried_out(process.memory, act, 0, rules)
            epoch = memory.epoch
            life = Life(epoch.job if epoch else "", generation, roster)
            situation = replace(
                process.situation, ranks=Ranks.RUNNING, generation=generation, verdict=None
            )
            if process.situation.table is None:
                # Its files forbid it by now: nothing starts here. Ranks elsewhere wait for those of
                # this server, as for any that start late; they do not fail before the job hears.
                situation = replace(situation, ranks=Ranks.FAILED, verdict=WITHDRAWN)
                return Looked(replace(process, memory=memory, situation=situation))
            if process.is_sick:
                situation = replace(UNFIT, generation=generation)
                return Looked(replace(process, memory=memory, situation=situation))
            if not process.has_room:
                situation = replace(CANNOT_START, generation=generation)
            return Looked(replace(process, memory=memory, situation=situation, ranks=life), act)
        case Forget():
            return Looked(replace(process, memory=carried_out(process.memory, act, 0, rules)), act)
        case Exit():
            return Looked(gone(process, act.exit_code), act)


def _tries_again(process: Process, act: Act) -> Process:
    """The same, if it could not start its ranks, and has no spare: it goes on."""
    situation = process.situation
    is_over = situation.ranks is Ranks.NONE and situation.obstacle is None
    if not isinstance(act, WaitUntil) or not is_over or not situation.unable:
        return process
    return replace(process, situation=replace(situation, unable=""))


def gone(process: Process, code: int | None) -> Process:
    """Only what the others can still notice of it is kept."""
    blank = new_process(process.name, process.place)
    return replace(
        blank,
        reach=Reach.GONE,
        code=code,
        finished=process.finished,
        fallen=process.ranks or process.fallen,
        lease_age=process.lease_age,
    )


def failed(process: Process, verdict: Ended = CRASH) -> Process:
    situation = replace(process.situation, ranks=Ranks.FAILED, verdict=_of(process, verdict))
    return replace(process, situation=situation, ranks=None, fallen=process.ranks or process.fallen)


def _of(process: Process, verdict: Ended) -> Ended:
    """The same of the generation that runs."""
    outcome, life = verdict.outcome, process.ranks
    if not isinstance(outcome, Crashed) or life is None:
        return verdict
    return replace(verdict, outcome=Crashed(replace(outcome.failure, generation=life.generation)))


def forbidden(process: Process) -> Process:
    """Its files forbid a start from now on."""
    return replace(process, situation=replace(process.situation, table=None))


def sickened(process: Process) -> Process:
    return replace(process, is_sick=True)


def crowded(process: Process) -> Process:
    return replace(process, has_room=False)


def stuck(process: Process) -> Process:
    return replace(process, is_stuck=True)


def allowed(process: Process) -> Process:
    return replace(process, situation=replace(process.situation, table="t"))


def succeeded(process: Process) -> Process:
    situation = replace(process.situation, ranks=Ranks.SUCCEEDED)
    return replace(process, situation=situation, ranks=None, finished=process.ranks)


def released(process: Process) -> Process:
    situation = replace(process.situation, ranks=Ranks.NONE)
    if process.is_stuck:
        situation = replace(CANNOT_END, generation=situation.generation, stop=situation.stop)
    return replace(process, situation=situation, ranks=None, fallen=process.ranks or process.fallen)


def told_to_stop(process: Process) -> Process:
    return replace(process, situation=replace(process.situation, stop=15))


def older(process: Process) -> Process:
    """One tick later. What can make no difference any more does not grow older."""
    memory = process.memory
    contact = max(memory.contact - 1, -FENCE)
    memory = replace(
        memory,
        contact=contact,
        heard=max(memory.heard - 1, -TTL - 1),
        read=None if memory.read is None else max(memory.read - 1, -TTL - 1),
        generation_seen=0,
        phase_seen=_older(memory.phase_seen, TTL) or 0 if _may_be_last(memory) else 0,
        cautious_until=max(memory.cautious_until - 1, 0),
        epoch_missing=_older(memory.epoch_missing, TTL),
        only_ready=_older(memory.only_ready, TIMEOUT),
        absences=tuple(
            replace(one, since=max(one.since - 1, -FENCE - TTL)) for one in memory.absences
        ),
    )
    # The guardian was told at each contact when the fence falls.
    ranks = None if contact <= -FENCE else process.ranks
    fallen = process.fallen if ranks is process.ranks else process.ranks
    age = min(process.lease_age + 1, TTL)
    return replace(process, memory=memory, ranks=ranks, fallen=fallen, lease_age=age)


def _may_be_last(memory: PeerMemory) -> bool:
    """Whether it may wait for others to take a place first."""
    return memory.index is None and memory.about is not None and bool(memory.about.left)


def _older(since: float | None, most: int) -> float | None:
    return None if since is None else max(since - 1, -most)
