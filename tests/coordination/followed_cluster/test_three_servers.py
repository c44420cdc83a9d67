"""Three servers that agree in memory: three runs of ``supervise``, whose generations are played."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import Device, Entry, Format, FoundTable, RankTable
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.life import JobSeen, Life, Start
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    Failure,
    Fault,
    Interrupted,
    Outcome,
    Remedy,
)
from ascend_supervisor.probes import Probe
from ascend_supervisor.restart_policy import Decision, Restart, RestartBudget, Stop, decide
from tests.plays import Act, Stage, crash, finish, train

SERVERS = 3
ENTRIES = tuple(Entry((Device(rank, 0, None),), server_id=f"10.0.0.{rank}") for rank in range(3))
FOUND = FoundTable(
    path=Path("a table"),
    table=RankTable(Format.TEMPLATE_1, ENTRIES, SERVERS, SERVERS, b""),
    sha256="",
)


@dataclass
class Meeting:
    """Where the servers meet; what is kept for a generation stands under its number."""

    budget: RestartBudget
    number: int = 0
    here: list[set[int]] = field(default_factory=lambda: [set()])
    verdicts: list[tuple[int, int, Outcome]] = field(default_factory=list)
    settled: dict[int, set[int]] = field(default_factory=dict)
    decisions: dict[int, Decision] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._news = anyio.Event()

    def tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            await self._news.wait()

    def first_bad(self, generation: int) -> tuple[int, Outcome] | None:
        """Who ended this generation for all, and how."""
        for told_in, server, verdict in self.verdicts:
            if told_in == generation and not isinstance(verdict, Completed):
                return server, verdict
        return None

    def cause(self) -> Failure | None:
        """The first failure of the last generation that had one."""
        for _, _, verdict in reversed(self.verdicts):
            if isinstance(verdict, Crashed):
                return verdict.failure
        return None


class Member:
    """One server's coordinator."""

    def __init__(self, meeting: Meeting, server: int) -> None:
        self._meeting = meeting
        self._server = server

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._meeting.gone.add(self._server)
            self._meeting.tell()

    async def gather(self) -> Start | Stop:
        meeting = self._meeting
        number = meeting.number
        meeting.here[number].add(self._server)
        meeting.tell()
        await meeting.until(lambda: len(meeting.here[number]) == SERVERS or meeting.gone)
        if meeting.gone:
            return Stop(69, "another server has left the job", meeting.cause())
        left = meeting.budget.left(0.0)
        return Start(number, FOUND, self._server, ENTRIES[self._server], left)

    async def still(self, start: Start) -> bool:
        return True

    async def must_end(self, start: Start) -> Fault:
        meeting = self._meeting
        await meeting.until(lambda: meeting.first_bad(start.generation))
        found = meeting.first_bad(start.generation)
        assert found is not None
        server, verdict = found
        if isinstance(verdict, Crashed):
            code, cause = verdict.failure.status.exit_code, verdict.failure
            return Fault(f"server {server} has failed", code, Remedy.CHARGED, cause=cause)
        return Fault(f"server {server} was told to stop", 69, Remedy.FINAL)

    async def announce(self, start: Start, verdict: Outcome, uptime: float) -> None:
        self._meeting.verdicts.append((start.generation, self._server, verdict))
        self._meeting.tell()

    async def settle(self, start: Start, ended: Ended) -> Decision:
        meeting, number = self._meeting, start.generation
        settled = meeting.settled.setdefault(number, set())
        settled.add(self._server)
        meeting.tell()
        await meeting.until(lambda: len(settled | meeting.gone) == SERVERS)
        if number not in meeting.decisions:
            meeting.decisions[number] = self._decided(number, ended)
        return meeting.decisions[number]

    def seen(self) -> JobSeen | None:
        return None

    def end_wait(self) -> bool:
        return False

    def _decided(self, number: int, ended: Ended) -> Decision:
        meeting = self._meeting
        found = meeting.first_bad(number)
        verdict = Completed() if found is None else found[1]
        if isinstance(verdict, Interrupted):
            return Stop(69, "another server was told to stop", meeting.cause())
        decision = decide(
            Ended(verdict, ended.uptime), meeting.budget, 0.0, jitter=0.0, holds_all_ranks=True
        )
        if isinstance(decision, Stop):
            return replace(decision, cause=meeting.cause())
        meeting.budget = decision.budget
        meeting.number = number + 1
        meeting.here.append(set())
        return decision


class Late(Probe):
    """Comes to the gathering of generation n last, where ``late[n]`` is its server."""

    def __init__(self, meeting: Meeting, server: int, late: Sequence[int]) -> None:
        self._meeting = meeting
        self._server = server
        self._late = late

    async def released(self) -> None:
        meeting = self._meeting
        number = meeting.number
        if number < len(self._late) and self._late[number] == self._server:
            await meeting.until(lambda: len(meeting.here[number]) == SERVERS - 1)


async def supervised(stages: Sequence[Stage]) -> dict[int, SupervisorExited]:
    """The ends of all three, side by side."""
    ends: dict[int, SupervisorExited] = {}

    async def run(server: int) -> None:
        ends[server] = await stages[server].run()

    async with anyio.create_task_group() as tasks:
        for server in range(SERVERS):
            tasks.start_soon(run, server)
    return ends


def stages_of(
    meeting: Meeting, acts: Sequence[Sequence[Act]], late: Sequence[int] = ()
) -> list[Stage]:
    """``acts[n][server]`` is what the ranks of a server do in generation n."""
    return [
        Stage(
            [generation[server] for generation in acts],
            Member(meeting, server),
            [Late(meeting, server, late)],
        )
        for server in range(SERVERS)
    ]


def after_another(meeting: Meeting) -> Act:
    """Fail when the ranks of another server have ended already."""

    async def act(life: Life) -> Outcome:
        await meeting.until(lambda: any(v[0] == life.generation for v in meeting.verdicts))
        return await crash(life)

    return act


async def test_three_servers_agree_on_five_generations_one_budget_and_one_root_cause():
    meeting = Meeting(RestartBudget(4))
    acts = [
        (crash, train, train),
        (train, crash, train),
        (
            finish,
            train,
            after_another(meeting),
        ),  # the ranks of one end with 0, and then another's fail
        (crash, crash, crash),  # all at once: one of them is the first
        (train, train, crash),
    ]
    stages = stages_of(meeting, acts, late=(0, 1, 2, 0, 1))
    ends = await supervised(stages)
    assert [stage.generations for stage in stages] == [[0, 1, 2, 3, 4]] * SERVERS
    assert {end.exit_code for end in ends.values()} == {1}
    (reason,) = {end.reason for end in ends.values()}
    assert reason.startswith("rank 2 failed first, in generation 4: ")
    assert reason.endswith("; the restart budget of 4 is used up")
    (cause,) = {end.root_cause for end in ends.values()}
    assert cause is not None
    assert cause.startswith("rank 2 failed first, in generation 4: it exited with status 1")
    assert isinstance(stages[0].ended[2].outcome, Completed)
    restarts = [meeting.decisions[number] for number in range(4)]
    assert all(isinstance(decision, Restart) for decision in restarts)
    assert meeting.budget.left(0.0) == 0


async def test_when_one_server_is_told_to_stop_all_end():
    meeting = Meeting(RestartBudget(4))

    async def told_to_stop(life: Life) -> Outcome:
        stages[1].stop()
        return await train(life)

    stages = stages_of(meeting, [(crash, train, train), (train, told_to_stop, train)])
    ends = await supervised(stages)
    assert [stage.generations for stage in stages] == [[0, 1]] * SERVERS
    assert [ends[server].exit_code for server in range(SERVERS)] == [69, 143, 69]
    assert ends[0].root_cause == ends[2].root_cause


async def test_when_all_ranks_of_all_servers_end_with_0_the_job_is_done():
    meeting = Meeting(RestartBudget(4))
    stages = stages_of(meeting, [(finish, finish, finish)], late=(2,))
    ends = await supervised(stages)
    assert {end.exit_code for end in ends.values()} == {0}
