"""The cluster coordinates: real files that a cluster rewrites, generations that are played."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from ascend_supervisor.cluster.identity import Identity
from ascend_supervisor.cluster.wait_for_table import TableFile
from ascend_supervisor.coordination.alone import Ledger
from ascend_supervisor.coordination.followed_cluster.cluster_files import (
    RankTableLook,
    ResetFileLook,
)
from ascend_supervisor.coordination.followed_cluster.coordinator import FollowedCluster
from ascend_supervisor.coordination.followed_cluster.followed_table import FollowedTable
from ascend_supervisor.coordination.followed_cluster.incident import FollowRules
from ascend_supervisor.events import Event
from ascend_supervisor.events.cluster import ClusterIncident, ClusterWaiting
from ascend_supervisor.events.generations import GenerationStarted, RestartsBarred, RestartScheduled
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.life import Life, Start
from ascend_supervisor.outcome import (
    Crashed,
    Ended,
    ExitStatus,
    Failure,
    Fault,
    Outcome,
    Patience,
    Remedy,
)
from ascend_supervisor.restart_policy import Restart, RestartBudget
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.clocks import LeapingClock
from tests.plays import Stage, crash, finish, train

WITHDRAWN = b'{"status": "initializing"}'


def table(*servers: str) -> bytes:
    """Each server has a device; the ranks are in this order."""
    listed = [
        {
            "server_id": server,
            "device": [
                {"device_id": "0", "rank_id": str(rank), "device_ip": f"192.168.0.{rank}"},
            ],
        }
        for rank, server in enumerate(servers)
    ]
    document = {"status": "completed", "version": "1.0", "server_count": str(len(servers))}
    return json.dumps(document | {"server_list": listed}).encode()


HERE, PEER, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.3"


class Cluster:
    """The files of a cluster, and a supervisor on the server HERE that follows them."""

    def __init__(self, folder: Path, *, verdict: float = 0.5, restarts: int = 0) -> None:
        self.restarts = restarts
        self.table = folder / "hccl.json"
        self.reset = folder / "reset.json"
        self.table.write_bytes(table(HERE, PEER))
        self.rules = FollowRules(verdict, Patience(0.0, 20.0), 0.0, 30.0)

    def stage(self, *acts) -> Stage:
        stage = Stage(acts)
        clock = MonotonicClock()
        file, followed = (TableFile([self.table], clock, stage.report) for _ in range(2))
        where = FollowedTable(
            lambda: file.wait(30.0),
            (RankTableLook(followed), ResetFileLook(self.reset)),
            Identity(server_id=HERE),
            self.rules,
            clock,
            stage.report,
        )
        ledger = Ledger(RestartBudget(self.restarts), clock.now, lambda: 0.0)
        stage.coordinator = FollowedCluster(where, ledger, clock, stage.report)
        return stage

    def tells(self, **news: object) -> None:
        self.reset.write_text(json.dumps({"RankList": [], "RetryTime": 0} | news))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


E = TypeVar("E", bound=Event)


def of_kind(stage: Stage, kind: type[E]) -> list[E]:
    return [event for event in stage.events if isinstance(event, kind)]


async def test_another_table_is_a_free_restart_with_the_new_ranks(cluster: Cluster) -> None:
    async def pod_is_replaced(_: Life) -> Outcome:
        cluster.table.write_bytes(table(OTHER, HERE))
        return await train(_)

    stage = cluster.stage(pod_is_replaced, finish)
    assert (await stage.run()).exit_code == 0
    assert stage.generations == [0, 1]
    assert [plan.start.local_ranks for plan in stage.plans] == [(0,), (1,)]
    (incident,) = of_kind(stage, ClusterIncident)
    assert incident.trigger == "table_changed"
    (restart,) = of_kind(stage, RestartScheduled)
    assert (restart.free, restart.cause) == (
        True,
        "the cluster recovers: the rank table has changed",
    )
    assert (restart.cluster_restarts_used, restart.cluster_restarts_limit) == (1, 10)
    begun = of_kind(stage, GenerationStarted)
    assert [event.cluster_restarts_used for event in begun] == [0, 1]


@pytest.mark.long
@pytest.mark.long
async def test_a_table_without_us_ends_this_server(cluster: Cluster) -> None:
    async def we_are_left_out(_: Life) -> Outcome:
        cluster.table.write_bytes(table(PEER, OTHER))
        return await train(_)

    stage = cluster.stage(we_are_left_out)
    end = await stage.run()
    assert end.exit_code == 65
    assert HERE in end.reason


async def test_a_failure_that_the_cluster_explains_is_free(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, verdict=30.0)
    cluster.tells()

    async def crash_first(life: Life) -> Outcome:
        return await crash(life)

    async def speak(_: Life) -> Outcome:
        cluster.table.write_bytes(WITHDRAWN)
        cluster.tells(RetryTime=1)
        cluster.table.write_bytes(table(HERE, OTHER))
        return await finish(_)

    stage = cluster.stage(crash_first, finish)
    stage.winding_down = speak
    assert (await stage.run()).exit_code == 0
    (restart,) = of_kind(stage, RestartScheduled)
    assert restart.free
    assert restart.cause.startswith("the cluster recovers: ")


async def test_a_failure_that_the_cluster_does_not_explain_ends_this_server(
    cluster: Cluster,
) -> None:
    stage = cluster.stage(crash)
    end = await stage.run()
    assert end.exit_code == 1
    assert "the cluster has not acted within 0.5 s (--cluster-verdict)" in end.reason
    (waiting,) = of_kind(stage, ClusterWaiting)
    assert waiting.limit_seconds == 0.5


async def test_a_failure_whose_cause_is_here_does_not_wait(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, verdict=60.0)

    async def out_of_memory(life: Life) -> Outcome:
        failure = Failure("rank 0", 0, 0, ExitStatus(None, 9), 1.0, oom_killed=True)
        return Crashed(failure)

    stage = cluster.stage(out_of_memory)
    assert (await stage.run()).exit_code == 137
    assert not of_kind(stage, ClusterWaiting)


@pytest.mark.parametrize(
    ("news", "trigger"),
    [
        ({"GracefulExit": 1}, "graceful_exit"),
        ({"RankList": [{"RankId": 1, "Status": "failed"}]}, "npu_failed"),
        ({"RankList": [{"RankId": 0, "Status": "fault"}]}, "npu_fault"),
    ],
)
async def test_what_no_restart_here_can_mend_ends_this_server(
    cluster: Cluster, news: dict[str, object], trigger: str
) -> None:
    cluster.tells()

    async def speak(_: Life) -> Outcome:
        cluster.tells(**news)
        return await train(_)

    stage = cluster.stage(speak)
    assert (await stage.run()).exit_code == 69
    assert [event.trigger for event in of_kind(stage, ClusterIncident)] == [trigger]


async def test_an_npu_that_is_reset_delays_the_restart_of_all(cluster: Cluster) -> None:
    cluster.tells()

    async def speak(life: Life) -> Outcome:
        cluster.tells(RankList=[{"RankId": 0, "Status": "unrecovered"}])
        return await train(life)

    stage = cluster.stage(speak, finish)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.run)
        while not of_kind(stage, ClusterWaiting):
            await anyio.sleep(0.01)
        assert stage.generations == [0]
        cluster.tells(RankList=[{"RankId": 0, "Status": "recovered"}])
    assert stage.generations == [0, 1]
    (ended, _) = stage.ended
    assert isinstance(ended.outcome, Fault)
    assert ended.outcome.patience == Patience(0.0, 0.0, hurried=frozenset({0}))


async def test_a_start_is_given_up_where_the_table_is_withdrawn_meanwhile(
    cluster: Cluster,
) -> None:
    stage = cluster.stage(finish)
    servers = stage.coordinator
    async with servers.joined():
        start, again = await servers.gather(), await servers.gather()
        assert isinstance(start, Start)
        assert isinstance(again, Start)
        assert await servers.still(start)
        cluster.table.write_bytes(WITHDRAWN)
        assert not await servers.still(again)


async def test_a_job_on_one_server_restarts_by_itself(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, restarts=1)
    cluster.table.write_bytes(table(HERE))
    stage = cluster.stage(crash, finish)
    assert (await stage.run()).exit_code == 0
    assert not of_kind(stage, ClusterWaiting)


async def test_restarts_of_several_servers_are_the_clusters(tmp_path: Path) -> None:
    stage = Cluster(tmp_path, restarts=3).stage(crash)
    await stage.run()
    (barred,) = of_kind(stage, RestartsBarred)
    assert "the cluster says when all of them start again" in barred.msg
    assert stage.plans[0].start.restarts_left == 0


async def test_many_restarts_over_hours_are_no_row_that_ends_the_job(tmp_path: Path) -> None:
    """What the wait for a table takes is not the time of generations that fail."""
    clock = LeapingClock()
    ledger = Ledger(RestartBudget(0), clock.now, lambda: 0.0)
    ended = Ended(Fault("pods were replaced", 69, Remedy.FREE), 1.0)
    for _ in range(5):
        decision = ledger.settle_recovered(ended)
        assert isinstance(decision, Restart)
        assert decision.is_free
        await clock.sleep(4000.0)


async def test_a_missing_reset_file_is_told_once(cluster: Cluster) -> None:
    stage = cluster.stage(finish)
    await stage.run()
    (told,) = of_kind(stage, Diagnostic)
    assert "until there is one, only the rank table is followed" in told.msg


async def test_a_graceful_end_is_nothing_to_retry(cluster: Cluster) -> None:
    async def speak(_: Life) -> Outcome:
        cluster.tells(GracefulExit=1)
        return await train(_)

    stage = cluster.stage(speak)
    await stage.run()
    assert not stage.exit.is_retryable


async def test_a_new_pod_waits_for_a_table_that_holds_it(cluster: Cluster) -> None:
    cluster.table.write_bytes(table(PEER, OTHER))
    stage = cluster.stage(finish)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.run)
        while not of_kind(stage, ClusterWaiting):
            await anyio.sleep(0.01)
        cluster.table.write_bytes(table(PEER, HERE))
    assert [plan.start.local_ranks for plan in stage.plans] == [(1,)]


async def test_a_doubt_about_a_start_is_told_once_it_starts(
    cluster: Cluster,
) -> None:
    """The doubt about a start is told when it starts, not each time that it is tried."""
    stage = cluster.stage(finish)
    servers = stage.coordinator
    async with servers.joined():
        start, again = await servers.gather(), await servers.gather()
        assert not of_kind(stage, Diagnostic)
        assert isinstance(start, Start)
        assert await servers.still(start)
        assert len(of_kind(stage, Diagnostic)) == 1
        assert isinstance(again, Start)
