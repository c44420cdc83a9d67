"""Stories of a cluster's two files, and what a server that looks at them once a second does.

The server follows coordination.detection and coordination.obstacles as the coordinator does, but
nothing in it runs or waits: a story of hours is played in no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import Format, FoundTable, RankTable
from ascend_supervisor.cluster.reset_file import ListedRank, ResetFile
from ascend_supervisor.coordination.followed_cluster.incident_detection import noticed
from ascend_supervisor.coordination.followed_cluster.memory import (
    ClusterMemory,
    CompletedTable,
    Sight,
    WithdrawnTable,
    WrongTable,
    judging,
    started,
)
from ascend_supervisor.coordination.followed_cluster.start_obstacles import (
    StartObstacle,
    is_accepted_unchanged,
    obstacle,
)

HERE = (0, 1)
"""The ranks of this server; 2 and 3 are elsewhere."""
WITHDRAWN = "withdrawn"
WRONG = "wrong"
TORN = "torn"
"""Also for a file that is missing: neither is news of the table."""


@dataclass(frozen=True)
class T:
    """The rank table is written: one that is named by a letter, or one of the words above.

    ``is_back``: the first file is in its place again, as it was (a symlink that is swapped back).
    """

    content: str
    is_back: bool = False


@dataclass(frozen=True)
class R:
    """The reset file is written; ``listed`` are statuses by rank, ``why`` is the restart type."""

    retry_time: int = 0
    listed: tuple[tuple[int, str], ...] = ()
    is_flushing: bool = False
    graceful_exit: bool = False
    why: str = ""

    @property
    def news(self) -> ResetFile:
        ranks = tuple(ListedRank(rank, status) for rank, status in self.listed)
        told = (self.retry_time, self.is_flushing, self.graceful_exit, self.why)
        return ResetFile(ranks, *told)


@dataclass(frozen=True)
class Missing:
    """The reset file, or its whole directory, is removed."""


@dataclass(frozen=True)
class Torn:
    """The reset file cannot be understood, or is being initialized."""


@dataclass(frozen=True)
class Crash:
    """A rank of this server fails."""


State = Literal["waiting", "releasing", "running", "ending", "verdict", "over"]
Change = T | R | Missing | Torn | Crash
Story = Iterable[tuple[int, Change]]


def found(content: str) -> FoundTable:
    return FoundTable(Path("/t.json"), RankTable(Format.TEMPLATE_1, (), 4, 2, b"x"), content)


@dataclass
class Server:
    """``ending`` and ``release`` in seconds: until all ranks have ended, then until a restart.

    ``again``: an unchanged reset file is read again at every look. ``projected``: the table is in a
    ConfigMap. ``order``: the files are looked
    at together, or one after the other. Neither must make a difference.
    """

    ending: int = 2
    release: int = 0
    verdict: int = 30
    again: bool = False
    projected: bool = False
    order: Literal["together", "table first", "reset first"] = "together"
    memory: ClusterMemory = field(default_factory=ClusterMemory)
    history: list[str] = field(default_factory=list)
    told: Sight = field(default_factory=Sight)
    news: Sight = field(default_factory=Sight)
    stamp: int = 0
    state: State = "waiting"
    until: int = 0
    starting: str = ""

    def change(self, change: Change, now: int) -> None:
        match change:
            case T():
                self._tell(table=self._written(change))
            case R():
                self._tell(reset=change.news, reset_is_missing=False, reset_is_there=True)
            case Missing():
                self._tell(reset=None, reset_is_missing=True, reset_is_there=False)
            case Torn():
                self._tell(reset=None, reset_is_missing=False, reset_is_there=True)
            case Crash():
                self._crash(now)

    def _tell(self, **changes: Any) -> None:
        self.told = replace(self.told, **changes)
        self.news = replace(self.news, **changes)

    def _written(self, change: T) -> CompletedTable | WithdrawnTable | WrongTable | None:
        self.stamp += 1
        if change.content == TORN:
            return None
        if change.content == WITHDRAWN:
            return WithdrawnTable("status is 'initializing'", self.projected)
        if change.content == WRONG:
            return WrongTable(("$: wrong",))
        return CompletedTable(found(change.content), (1, 1, 1 if change.is_back else self.stamp))

    def _crash(self, now: int) -> None:
        if self.state == "running":
            self._enter("ending", now + self.ending)
            self.history.append(f"{now} crashed")

    def look(self, now: int) -> None:
        for sight in self._sights():
            self._notice(sight, now)
        self.news = Sight(reset_is_missing=self.news.reset_is_missing)
        before: State | None = None
        while before != self.state:
            before = self.state
            self._step(now)

    def _sights(self) -> tuple[Sight, ...]:
        reset = self.told if self.again else self.news
        sight = replace(reset, table=self.told.table, reset_is_there=self.told.reset_is_there)
        table, reset = Sight(sight.table), replace(sight, table=None)
        match self.order:
            case "together":
                return (sight,)
            case "table first":
                return table, reset
            case "reset first":
                return reset, table

    def _notice(self, sight: Sight, now: int) -> None:
        known = self.memory.incident
        self.memory = noticed(self.memory, sight, now)
        incident = self.memory.incident
        if incident is not None and (known is None or incident.trigger != known.trigger):
            self.history.append(f"{now} {incident.trigger}")

    def _step(self, now: int) -> None:
        match self.state:
            case "running" if self.memory.incident is not None:
                self._enter("ending", now + self.ending)
            case "ending" if now >= self.until:
                self.memory = judging(self.memory)
                self._enter("verdict", now + self.verdict)
            case "verdict":
                self._judge(now)
            case "waiting":
                self._gather(now)
            case "releasing" if now >= self.until:
                self._start(now)

    def _judge(self, now: int) -> None:
        incident = self.memory.incident
        if incident is None and now < self.until:
            return
        if incident is None:
            self._stop(now, "alone")
        elif incident.is_final:
            self._stop(now, incident.trigger)
        elif self.memory.is_unstable(now):
            self._stop(now, "unstable")
        else:
            self._enter("waiting", 0)

    def _gather(self, now: int) -> None:
        incident = self.memory.incident
        if incident is not None and incident.is_final:
            self._stop(now, incident.trigger)
        elif self.obstacle(now) is None:
            self.starting = self._content()
            self._enter("releasing", now + (self.release if self.memory.running else 0))

    def _start(self, now: int) -> None:
        incident = self.memory.incident
        is_final = incident is not None and incident.is_final
        if is_final or self.obstacle(now) is not None or self._content() != self.starting:
            self._enter("waiting", 0)
            return
        unchanged = " unchanged" if is_accepted_unchanged(self.memory) else ""
        self.history.append(f"{now} starts {self.starting}{unchanged}")
        self.memory = started(self.memory, found(self.starting), HERE, now)
        self._enter("running", 0)

    def _stop(self, now: int, why: str) -> None:
        self.history.append(f"{now} stops {why}")
        self._enter("over", 0)

    def _enter(self, state: State, until: int) -> None:
        self.state, self.until = state, until

    def _content(self) -> str:
        table = self.memory.table
        return table.found.sha256 if isinstance(table, CompletedTable) else ""

    def obstacle(self, now: int) -> StartObstacle | None:
        return obstacle(self.memory, HERE, now)


def seconds(server: Server, story: Story, until: int) -> Iterator[int]:
    """Play the story second by second, from the first change on; each has passed when it comes."""
    changes: dict[int, list[Change]] = {}
    for at, change in story:
        changes.setdefault(at, []).append(change)
    for now in range(min(changes), until + 1):
        for change in changes.get(now, ()):
            server.change(change, now)
        server.look(now)
        yield now


def play(server: Server, story: Story, until: int) -> list[str]:
    """The server's history when the story is over."""
    for _ in seconds(server, story, until):
        pass
    return server.history


# What most stories have in common.

BEGIN: Story = ((-100, T("A")), (-100, R()))
"""The first generation runs on A for a while before second 0."""
ELSEWHERE, LOCAL = 2, 1
"""Ranks of another server and of this one."""


def listed(rank: int, status: str, retry_time: int = 0, why: str = "") -> R:
    return R(retry_time, listed=((rank, status),), why=why)


def played(*story: tuple[int, Change], until: int = 500) -> list[str]:
    """The history after the first start; both kinds of look at unchanged files agree."""
    history = play(Server(), (*BEGIN, *story), until)
    assert history[0] == "-100 starts A"
    assert play(Server(again=True), (*BEGIN, *story), until) == history
    return history[1:]


def running(retry_time: int = 0) -> ClusterMemory:
    """The memory of a generation that was started with A at 0."""
    sight = Sight(CompletedTable(found("A"), (1, 1, 1)), R(retry_time).news, reset_is_there=True)
    return started(noticed(ClusterMemory(), sight, 0.0), found("A"), HERE, 0.0)
