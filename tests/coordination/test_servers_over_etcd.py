"""Servers that agree through a real etcd: runs of ``supervise``, whose generations are played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
import pytest
from msgspec.structs import replace

from ascend_supervisor.cluster.identity import Identity
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.coordination.followed_cluster.cluster_files import FileLook
from ascend_supervisor.coordination.followed_cluster.followed_table import FollowedTable
from ascend_supervisor.coordination.followed_cluster.incident import FollowRules
from ascend_supervisor.coordination.followed_cluster.memory import CompletedTable, Sight
from ascend_supervisor.coordination.peers.coordinator import Peers
from ascend_supervisor.coordination.peers.in_cluster import PeersInCluster
from ascend_supervisor.coordination.peers.meeting import PeersMeeting
from ascend_supervisor.coordination.peers.near import FEW
from ascend_supervisor.coordination.peers.tables import WrittenTable
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.etcd.access import Access
from ascend_supervisor.etcd.client import etcd_client
from ascend_supervisor.events.generations import RestartScheduled
from ascend_supervisor.events.peers import PeersDiffer
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.life import Life, Placed
from ascend_supervisor.outcome import Crashed, ExitStatus, Fault, Outcome, Patience
from ascend_supervisor.restart_policy import RestartBudget
from ascend_supervisor.supervisor import Broken
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.coordination.followed_cluster.test_three_servers import FOUND, SERVERS
from tests.etcd.servers import EtcdServer
from tests.plays import Act, Stage, crash, failure, finish, train

TTL, FENCE, TIMEOUT = 4.0, 20.0, 60.0
"""Seconds."""
READS = pytest.mark.parametrize("few", [FEW, 1])
"""A job of more servers than that is one of many: they read little."""


async def found() -> FoundTable:
    return FOUND


@dataclass
class Servers:
    etcd: EtcdServer
    budget: RestartBudget
    settings: Sequence[str] = ("same",) * SERVERS
    fence: float = FENCE
    timeout: float = TIMEOUT
    few: int = FEW
    cann: Sequence[str] = ()
    """The version that each server has; empty: nothing is compared."""
    versions: Sequence[str] = ("1.0",) * SERVERS
    """Those of ascend-supervisor."""
    stages: list[Stage] = field(default_factory=list)

    def play(self, acts: Sequence[Sequence[Act]]) -> list[Stage]:
        """``acts[n][server]`` is what the ranks of a server do in generation n."""
        self.stages = [
            Stage([generation[server] for generation in acts], self._peers(server))
            for server in range(SERVERS)
        ]
        for stage, server in zip(self.stages, range(SERVERS), strict=True):
            stage.coordinator = self._peers(server, stage)
        return self.stages

    def beside(self, server: int) -> Stage:
        """One that waits for the place of this server, and then does the same."""
        stage = Stage(self.stages[server].acts)
        stage.coordinator = self._peers(server, stage, "-beside")
        return stage

    async def all_have_started(self, life: Life) -> None:
        """Else one that is late would miss this generation."""
        while not all(life.generation in stage.generations for stage in self.stages):
            await anyio.sleep(0.01)

    def follow(self, server: int, look: FileLook) -> None:
        """This server follows the cluster, too; ``look`` sees its files."""
        stage = self.stages[server]
        clock = MonotonicClock()
        rules = FollowRules(0.5, Patience(0.0, 1.0), 0.0, 30.0)
        parts = (found, (look,), Identity(node_rank=server), rules, clock, stage.report)
        followed = partial(FollowedTable, *parts)
        stage.coordinator = PeersInCluster(
            followed, self._meeting(server), lambda _: None, clock, stage.report
        )

    def _meeting(self, server: int, place: str = "") -> PeersMeeting:
        return PeersMeeting(
            etcd=partial(etcd_client, Access((self.etcd.endpoint,), deadline=TTL / 2)),
            budget=self.budget,
            patience=Patience(0.0, 1.0),
            name="job",
            state_file=self.etcd._root / f"state-{server}{place}.json",
            settings=self.settings[server],
            ttl=TTL,
            fence=self.fence,
            timeout=self.timeout,
            few=self.few,
            host=f"host {server}",
            facts=partial(self._facts, server) if self.cann else None,
            version=self.versions[server],
        )

    async def _facts(self, server: int) -> Mapping[str, str]:
        return {"CANN": self.cann[server]}

    def _peers(self, server: int, stage: Stage | None = None, place: str = "") -> Peers:
        async def placed() -> Placed:
            return Placed(FOUND, server, FOUND.table.entries[server])

        report = stage.report if stage is not None else (lambda _: None)
        tables, clock = WrittenTable(placed), MonotonicClock()
        return Peers(self._meeting(server, place), tables, lambda _: None, clock, report)


async def supervised(stages: Sequence[Stage]) -> dict[int, SupervisorExited]:
    """The ends of all, side by side."""
    ends: dict[int, SupervisorExited] = {}

    async def run(server: int) -> None:
        ends[server] = await stages[server].run()

    async with anyio.create_task_group() as tasks:
        for server in range(SERVERS):
            tasks.start_soon(run, server)
    return ends


@READS
async def test_when_all_ranks_of_all_servers_end_with_0_the_job_is_done(etcd, few):
    stages = Servers(etcd, RestartBudget(4), few=few).play([(finish, finish, finish)])
    ends = await supervised(stages)
    assert {end.exit_code for end in ends.values()} == {0}
    assert etcd.control("get", "--prefix", "--keys-only", "/ascend-supervisor/job/server") == ""


@pytest.mark.parametrize(("few", "told"), [(FEW, {0, 1, 2}), (1, {0, 2})])
async def test_of_many_servers_the_first_and_those_that_differ_are_told_so(etcd, few, told):
    servers = Servers(etcd, RestartBudget(0), few=few, cann=("8.3", "8.3", "8.2"))

    def heard() -> dict[int, list[str]]:
        every = enumerate(stage.events for stage in servers.stages)
        found = {n: [e.sentence for e in them if isinstance(e, PeersDiffer)] for n, them in every}
        return {number: sentences for number, sentences in found.items() if sentences}

    async def until_told(life: Life) -> Outcome:
        while not heard().keys() >= told:
            await anyio.sleep(0.01)
        return await finish(life)

    with anyio.fail_after(40):
        await supervised(servers.play([(until_told,) * SERVERS]))
    sentence = (
        "the servers of the job are not alike: "
        "CANN differs: server 2 (host 2) has 8.2, the 2 others have 8.3"
    )
    assert heard() == {number: [sentence] for number in told}


@pytest.mark.parametrize("is_shared", [False, True])
async def test_the_cause_on_one_server_is_told_on_all_where_its_lines_are_its_own(etcd, is_shared):
    """The server that has it looks itself, which is not played here."""
    servers = Servers(etcd, RestartBudget(0))

    async def busy(life: Life) -> Outcome:
        await servers.all_have_started(life)
        one = failure(life.plan.start.local_ranks[0], life.generation)
        return Crashed(replace(one, last_lines=("EJ0001: it is busy",), is_shared=is_shared))

    ends = await supervised(servers.play([(train, busy, train)]))
    known = [end.diagnosis and end.diagnosis.id for _, end in sorted(ends.items())]
    assert known == [None if is_shared else "EJ0001", None, None if is_shared else "EJ0001"]


@READS
async def test_three_servers_agree_on_generations_one_budget_and_one_root_cause(etcd, few):
    servers = Servers(etcd, RestartBudget(4), few=few)

    async def crash_in_company(life: Life) -> Outcome:
        await servers.all_have_started(life)
        return await crash(life)

    fail = crash_in_company
    acts = [
        (fail, train, train),
        (train, fail, train),
        (finish, train, fail),
        (fail, fail, fail),
        (train, train, fail),
    ]
    stages = servers.play(acts)
    ends = await supervised(stages)
    assert [stage.generations for stage in stages] == [[0, 1, 2, 3, 4]] * SERVERS
    assert {end.exit_code for end in ends.values()} == {1}
    (cause,) = {end.root_cause for end in ends.values()}
    assert cause is not None
    assert cause.startswith("rank 2 failed first, in generation 4: it exited with status 1")


async def test_a_defect_in_following_the_cluster_is_told_to_the_others(etcd):
    """Else they would wait for this server until it counts as lost."""
    servers = Servers(etcd, RestartBudget(4))
    stages = servers.play([(train, train, train)])

    async def look() -> Sight:
        if all(stage.generations for stage in stages):
            raise ZeroDivisionError("a division")
        return Sight(CompletedTable(FOUND), reset_is_missing=True)

    servers.follow(0, look)
    async with anyio.create_task_group() as tasks:
        for server in (1, 2):
            tasks.start_soon(stages[server].run)
        with pytest.raises(Broken, match="a division"):
            await stages[0].run()
    assert [stages[server].exit.event.exit_code for server in (1, 2)] == [70, 70]
    assert "ZeroDivisionError('a division')" in stages[1].exit.event.reason


@READS
async def test_a_generation_that_has_failed_before_all_have_started_it_is_left_out(etcd, few):
    servers = Servers(etcd, RestartBudget(8), few=few)
    stages = servers.play([*[(crash, train, train)] * 8, (finish, finish, finish)])
    ends = await supervised(stages)
    assert {end.exit_code for end in ends.values()} == {0}
    assert [stage.generations[-1] for stage in stages] == [8] * SERVERS


@READS
async def test_a_server_that_cannot_start_its_ranks_leaves_to_one_that_waits(etcd, few):
    """It backs off for no restart, and nothing is charged: none is left."""
    servers = Servers(etcd, RestartBudget(0), few=few)

    async def cannot_start(_: Life) -> Outcome:
        while not etcd.control("get", "--prefix", "/ascend-supervisor/job/spare/"):
            await anyio.sleep(0.1)
        return Fault("no room", UNAVAILABLE, is_of_server=True)

    stages = servers.play([(train, cannot_start, train), (finish, finish, finish)])
    spare = servers.beside(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(spare_comes, spare, stages)
        ends = await supervised(stages)
    assert [ends[server].exit_code for server in range(SERVERS)] == [0, 69, 0]
    assert spare.exit.event.exit_code == 0
    reason = "this server cannot start its ranks: no room; we have left our place to a spare"
    assert ends[1].reason == reason
    assert [stage.generations for stage in (*stages, spare)] == [[0, 1], [0], [0, 1], [1]]
    assert not [one for one in stages[1].events if isinstance(one, RestartScheduled)]


async def spare_comes(spare: Stage, stages: Sequence[Stage]) -> None:
    """When the others run: it would take any place."""
    while not all(stage.generations for stage in stages):
        await anyio.sleep(0.01)
    await spare.run()


@READS
async def test_when_one_server_is_told_to_stop_the_others_wait_for_another_one_then_end(etcd, few):
    servers = Servers(etcd, RestartBudget(4), few=few, timeout=12.0)

    async def told_to_stop(life: Life) -> Outcome:
        await servers.all_have_started(life)
        servers.stages[1].stop()
        return await train(life)

    stages = servers.play([(train, told_to_stop, train)])
    ends = await supervised(stages)
    assert [stage.generations for stage in stages] == [[0]] * SERVERS
    assert [ends[server].exit_code for server in range(SERVERS)] == [143] * SERVERS
    assert ends[0].root_cause == ends[2].root_cause
    assert "server 1 was told to stop" in ends[0].reason


async def test_a_server_with_other_settings_is_refused_and_names_both(etcd):
    servers = Servers(
        etcd, RestartBudget(4), ("restarts=3", "restarts=3", "restarts=4"), timeout=12
    )
    servers.stages = servers.play([(train, train, train)])
    ends: dict[int, SupervisorExited] = {}

    async def run(server: int) -> None:
        ends[server] = await servers.stages[server].run()

    async with anyio.create_task_group() as tasks:
        for server in (0, 1):
            tasks.start_soon(run, server)
        await told(servers.stages[1], "peers.joined")
        tasks.start_soon(run, 2)
    assert ends[2].exit_code == 64
    assert "restarts=4" in ends[2].reason
    assert "restarts=3" in ends[2].reason
    assert [ends[server].exit_code for server in (0, 1)] == [75, 75]


async def test_of_many_servers_one_with_another_version_is_refused_before_a_rank_starts(etcd):
    servers = Servers(etcd, RestartBudget(4), few=1, versions=("1.0", "1.0", "1.1"))
    stages = servers.stages = servers.play([(train, train, train)])
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            for stage in stages[:2]:
                tasks.start_soon(stage.run)
            for stage in stages[:2]:
                await told(stage, "peers.waiting")  # so there is a job by now
            end = await stages[2].run()
            tasks.cancel_scope.cancel()
    assert end.exit_code == 64
    assert end.reason == (
        "this server has version 1.1 of ascend-supervisor, and the job has 1.0; all servers of so "
        "many must have the same: install it on all"
    )
    assert all(not stage.generations for stage in stages)


async def test_servers_wait_for_an_etcd_that_starts_late(etcd):
    etcd.kill()
    servers = Servers(etcd, RestartBudget(0))
    stages = servers.play([(finish, finish, finish)])

    async def start_etcd() -> None:
        for stage in stages:
            await told(stage, "peers.unreachable")
        await anyio.to_thread.run_sync(etcd.start)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start_etcd)
        ends = await supervised(stages)
    assert {end.exit_code for end in ends.values()} == {0}


async def test_a_failure_while_etcd_is_away_is_told_when_it_is_back(etcd):
    servers = Servers(etcd, RestartBudget(1))

    async def kill_etcd_then_crash(life: Life) -> Outcome:
        await servers.all_have_started(life)
        etcd.kill()
        for stage in servers.stages:
            await told(stage, "peers.unreachable")
        return await crash(life)

    async def start_etcd() -> None:
        await told(servers.stages[0], "peers.unreachable")
        await anyio.sleep(TTL + 1)
        await anyio.to_thread.run_sync(etcd.start)

    stages = servers.play([(kill_etcd_then_crash, train, train), (finish, finish, finish)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start_etcd)
        ends = await supervised(stages)
    assert {end.exit_code for end in ends.values()} == {0}
    assert [stage.generations for stage in stages] == [[0, 1]] * SERVERS


async def test_a_consequence_while_etcd_is_away_does_not_hide_its_cause(etcd):
    servers = Servers(etcd, RestartBudget(0))
    pair = "../third_party/gloo/gloo/transport/tcp/pair.cc:534"
    lost = f"RuntimeError: [{pair}] Connection closed by peer"

    def fails(status: int, line: str, *, kills: bool = False) -> Act:
        async def act(life: Life) -> Outcome:
            if kills:
                etcd.kill()
            for stage in servers.stages:
                await told(stage, "peers.unreachable")
            found = await crash(life)
            assert isinstance(found, Crashed)
            words = {"status": ExitStatus(status), "last_lines": (line,)}
            return Crashed(replace(found.failure, **words))

        return act

    async def start_etcd() -> None:
        await told(servers.stages[0], "peers.unreachable")
        await anyio.sleep(TTL + 1)
        await anyio.to_thread.run_sync(etcd.start)

    acts = (fails(1, lost, kills=True), fails(1, lost), fails(7, "ValueError: bad batch 17"))
    stages = servers.play([acts])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start_etcd)
        ends = await supervised(stages)
    assert {end.exit_code for end in ends.values()} == {7}
    assert {end.peers_server for end in ends.values()} == {2}


async def test_without_etcd_every_server_ends_its_ranks_before_the_fence(etcd):
    servers = Servers(etcd, RestartBudget(1), fence=TTL + 11)

    async def kill_etcd(life: Life) -> Outcome:
        etcd.kill()
        return await train(life)

    ends = await supervised(servers.play([(kill_etcd, train, train)]))
    assert {end.exit_code for end in ends.values()} == {69}
    for end in ends.values():
        assert "connection refused" in end.reason


async def told(stage: Stage, name: str) -> None:
    """Wait until this server has reported such an event."""
    with anyio.fail_after(30):
        while not any(event.name == name for event in stage.events):
            await anyio.sleep(0.02)
