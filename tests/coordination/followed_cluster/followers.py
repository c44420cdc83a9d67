"""Servers that follow a cluster and agree through an etcd: hours are played in no time.

Each sees the cluster's files at moments of its own (``stories``), and decides with the real
functions what they mean and what follows; etcd is the model's. What the coordinator does beside
that is done here in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import (
    Act,
    EndRanks,
    Exit,
    Forget,
    RecordChange,
    StartRanks,
    WaitUntil,
)
from ascend_supervisor.coordination.agreement.decision_table import decide
from ascend_supervisor.coordination.agreement.memory import PeerMemory as Known
from ascend_supervisor.coordination.agreement.memory import carried_out, memory_at, remember
from ascend_supervisor.coordination.agreement.situation import (
    Clocks,
    JobRules,
    Ranks,
    Self,
    Situation,
)
from ascend_supervisor.coordination.followed_cluster.incident import fault
from ascend_supervisor.coordination.followed_cluster.memory import (
    ClusterMemory,
    judging,
    started,
    with_answered,
    with_table_accepted,
)
from ascend_supervisor.coordination.followed_cluster.start_obstacles import is_late
from ascend_supervisor.coordination.peers.words import Others
from ascend_supervisor.outcome import Ended, Fault, Outcome, Patience, Remedy
from ascend_supervisor.restart_policy import RestartBudget
from tests.coordination.agreement.store import Store, seen, transacted
from tests.coordination.followed_cluster.stories import HERE, Change, Server, found

TTL, FENCE, TIMEOUT, VERDICT = 10, 30, 2000, 30
ACTS = 100
"""In one second, at most."""
BUSY, IDLE = 8, 9
"""For so many seconds after a change every second is played, then every ninth: TTL is longer."""


@dataclass
class Job:
    """``servers`` by name, in order of their index; times are in seconds."""

    size: int
    store: Store = field(default_factory=Store)
    servers: dict[str, Follower] = field(default_factory=dict)
    words: int = 0
    changed_at: int = 0

    def join(self, name: str, index: int, ending: int = 2) -> Follower:
        one = Follower(self, name, index, ending)
        self.servers[name] = one
        return one

    def second(self, now: int, changes: Mapping[str, list[Change]]) -> None:
        """Let a second pass, at whose beginning the files have changed."""
        if changes or any(one.is_busy for one in self.servers.values()):
            self.changed_at = now
        if now - self.changed_at > BUSY and now % IDLE:
            return
        for name, one in self.servers.items():
            for change in changes.get(name, ()):
                one.files.change(change, now)
        for one in self.servers.values():
            one.look(now)
        for _ in range(2):  # who was asked first hears of the others in the same second
            for one in self.servers.values():
                one.act(now)

    @property
    def runs_since(self) -> int:
        """When the last of its servers has started its latest generation."""
        return max(one.started_at for one in self.servers.values())


class Files(Server):
    """The cluster's files at one server; what they mean is kept by the follower."""

    def _step(self, now: int) -> None:
        pass


class Follower:
    def __init__(self, job: Job, name: str, index: int, ending: int) -> None:
        self.job = job
        self.name = name
        self.files = Files(memory=ClusterMemory(has_peers=True))
        self.ending = ending
        self.known: Known | None = None
        self.situation = Situation()
        self.others = Others()
        self.generations: list[int] = []
        self.withdrawn: list[int] = []
        """Generations that were not started here although all were ready."""
        self.code: int | None = None
        self.over_at = inf
        self.started_at = 0
        self.rosters: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
        self.rules = JobRules(
            *(Self(name, f"place {index}", index), job.size, RestartBudget(3)),
            ttl=TTL,
            fence=FENCE,
            timeout=TIMEOUT,
            verdict=VERDICT,
        )

    @property
    def is_busy(self) -> bool:
        runs = self.situation.ranks is Ranks.RUNNING and self.situation.stop is None
        return self.code is None and not runs

    @property
    def memory(self) -> ClusterMemory:
        return self.files.memory

    @property
    def answered(self) -> frozenset[int]:
        about = self.known.about if self.known else None
        return frozenset(about.answered) if about else frozenset()

    # What the cluster says.

    def look(self, now: int) -> None:
        if self.code is not None:
            return
        self.files.memory = with_answered(self.memory, self.answered)
        self.files.look(now)
        incident = self.memory.incident
        told = None if incident is None else fault(incident, Patience(0.0, 1.0), 0.0)
        self.situation = replace(
            self.situation,
            cluster=told,
            retry_time=self.memory.retry_time,
            confirmed=self.memory.confirmed,
        )
        if told is not None and self.situation.ranks is Ranks.RUNNING:
            self._end(told, now)
        if self.situation.ranks is Ranks.NONE:
            self._get_ready(now)

    def _get_ready(self, now: int) -> None:
        obstacle = self.files.obstacle(now)
        content = self.files._content()
        is_there = content in self.others.tables_of_newcomers
        if obstacle is not None and obstacle.by_hand and is_there:
            self.files.memory = with_table_accepted(self.memory)
            obstacle = None
        table = content if obstacle is None and content else None
        self.situation = replace(self.situation, table=table)

    def _end(self, why: Outcome, now: int) -> None:
        verdict = Ended(why, now - self.started_at)
        self.situation = replace(self.situation, ranks=Ranks.FAILED, verdict=verdict)

    def stop(self) -> None:
        self.situation = replace(self.situation, stop=15)

    # What the servers agree on.

    def act(self, now: int) -> None:
        self.known = self.known or memory_at(now)
        if self.situation.ranks is Ranks.ENDING and now >= self.over_at:
            self.files.memory = judging(self.memory)
            self.situation = replace(self.situation, ranks=Ranks.NONE, table=None)
            self._get_ready(now)
        for _ in range(ACTS):
            if self.code is not None or isinstance(self._next(now), WaitUntil):
                return
        raise AssertionError(f"{self.name} never comes to rest")

    def _next(self, now: int) -> Act:
        assert self.known is not None
        self.job.words += 1
        view, rules = seen(self.job.store), self.rules
        self.known = remember(self.known, view, now, now, rules)
        self.others.look(view, self.job.size, now)
        clocks = Clocks(now, f"w{self.job.words}")
        act = decide(view, self.known, clocks, self.situation, rules)
        match act:
            case RecordChange():
                after = transacted(self.job.store, act, self.name)
                assert after is not None
                self.job.store = after
                self.known = carried_out(self.known, act, now, rules)
                if act.afterwards is not None:
                    self.code = act.afterwards.exit_code
            case StartRanks(generation=generation, roster=roster):
                self.known = carried_out(self.known, act, now, rules)
                self._start(generation, frozenset(one.incarnation for one in roster), now)
            case EndRanks():
                self.over_at = now + self.ending
                self.situation = replace(self.situation, ranks=Ranks.ENDING)
            case Forget():
                self.known = carried_out(self.known, act, now, rules)
            case Exit(exit_code=code):
                self.code = code
            case _:
                pass
        return act

    def _start(self, generation: int, servers: frozenset[str], now: int) -> None:
        about = self.known.about if self.known else None
        self.files.memory = with_answered(self.memory, self.answered)
        self.files.look(now)
        self.rosters = self.rosters[1], servers
        told = about is not None and about.by_cluster
        replaced = bool(self.rosters[0]) and self.rosters[0] != servers
        may_start = self.files.obstacle(now) is None or (
            (told or replaced) and is_late(self.memory, HERE)
        )
        self.situation = replace(self.situation, generation=generation, verdict=None)
        self.started_at = now
        if not may_start:
            self.withdrawn.append(generation)
            self._end(Fault("the cluster recovers", 69, Remedy.FREE, by_cluster=True), now)
            return
        content = self.situation.table or self.files._content()
        self.files.memory = started(
            *(self.memory, found(content), HERE, now),
            was_told=told,
            was_replaced=replaced,
        )
        self.generations.append(generation)
        self.situation = replace(self.situation, ranks=Ranks.RUNNING, cluster=None, confirmed=None)
