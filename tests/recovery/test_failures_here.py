"""A rank fails here: whether the cluster speaks then decides what it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.recovery.pods import LOST_PEER, OWN_FAULT, Story
from tests.recovery.supervisors import started
from tests.recovery.tables import Member, members, moved, template_1, withdrawn
from tests.recovery.writers import listed, reset_file
from tests.two_servers import Server, add_second_address, switched_servers


def test_ranks_that_lost_a_peer_before_the_cluster_speaks_cost_one_free_restart(cluster):
    job = members(3)
    pods = first, last = started(cluster, job, only=[0, 2])
    for pod in pods:
        pod.signal(pod.member.index, LOST_PEER)
        pod.then("cluster.waiting")
    cluster.move(3)
    cluster.withdraw_table()
    for pod in pods:  # seen to be withdrawn for 5 s, before the time for the verdict is over
        pod.then("cluster.incident", trigger="table_withdrawn")
        pod.then("generation.ended", outcome="crashed", next="restart")
    cluster.move(52)
    cluster.write_reset(reset_file(retry_time=1))
    cluster.move(5)
    cluster.write_table(moved(job, 1, host=9))
    assert first.up(1) == {"rank 0 of 3 among 10.0.0.1 10.0.0.9 10.0.0.3"}
    assert last.up(1) == {"rank 2 of 3 among 10.0.0.1 10.0.0.9 10.0.0.3"}
    cluster.move(100)
    assert cluster.stop() == [Story([3, 3], [True], ["table_withdrawn"], 143)] * 2


@pytest.fixture
def servers() -> Iterator[Mapping[int, Server]]:
    """The servers of hosts 1, 2 and 9, which reach each other under their addresses."""
    with switched_servers(3) as made:
        servers = dict(zip((1, 2, 9), made, strict=True))
        for host, server in servers.items():
            others = [other for other in made if other is not server]
            add_second_address(Member(0, host).address, server, others)
        yield servers


@pytest.mark.picture("pod-level")
def test_a_pod_that_is_killed_while_its_network_is_up_costs_one_free_restart(cluster, servers):
    # Its connections end at once, so the ranks of the other pod fail first, and truly because of
    # that; the cluster speaks later.
    cluster.form = template_1
    job, replaced = members(2, cards=2), reset_file(retry_time=1)
    first, killed = started(cluster, job, servers=servers)
    cluster.kill(killed, servers[2])
    failed = first.then("process.exited", first_failure=True)
    first.then("cluster.waiting")
    cluster.move(3)
    cluster.withdraw_table()
    cluster.move(6)
    first.then("cluster.incident", trigger="table_withdrawn")
    first.then("generation.ended", outcome="crashed", next="restart")
    cluster.move(41)
    after = moved(job, 1, host=9)
    table = withdrawn(template_1)
    (new,) = cluster.start(after, only=[1], table=table, servers=servers)
    new.then("rank_table.waiting")
    cluster.move(10)
    cluster.write_reset(replaced)
    cluster.move(5)
    cluster.write_table(after)
    assert first.up(1) == {f"rank {rank} of 4 among 10.0.0.1 10.0.0.9" for rank in (0, 1)}
    assert new.up() == {f"rank {rank} of 4 among 10.0.0.1 10.0.0.9" for rank in (2, 3)}
    cluster.move(30)
    first.complete(1)
    new.complete(0)
    assert first.ends_with(0) == Story([4, 4], [True], ["table_withdrawn"], 0)
    assert new.ends_with(0) == Story([4], [], [], 0)
    assert any("[10.0.0.2]:" in line for line in first.job.said(failed["rank"]))


def test_ranks_that_fail_without_a_word_of_the_cluster_end_the_server(cluster):
    pods = started(cluster, members(3), only=[0, 2])
    for pod in pods:
        pod.signal(pod.member.index, LOST_PEER)
        pod.then("cluster.waiting")
    with cluster.held():
        cluster.move(20)
    assert cluster.running == pods
    cluster.move(12)
    for pod in pods:
        assert pod.ends_with(1) == Story([3], [], [], 1)
        assert pod.job.events[-1]["root_cause"].startswith(f"rank {pod.member.index} failed first")


def test_a_table_that_is_withdrawn_for_two_seconds_is_no_word_of_the_cluster(cluster):
    job = members(2)
    (pod,) = started(cluster, job, only=[0])
    with cluster.held():
        pod.signal(0, LOST_PEER)
        pod.then("cluster.waiting")
        cluster.withdraw_table()
        cluster.move(2)
        cluster.write_table(job)
        cluster.move(2)
    cluster.move(30)
    assert pod.ends_with(1) == Story([2], [], [], 1)


def test_a_new_table_is_a_word_of_the_cluster(cluster):
    job = members(2)
    (pod,) = started(cluster, job, only=[0])
    pod.signal(0, LOST_PEER)
    pod.then("cluster.waiting")
    cluster.move(20)
    cluster.write_table(moved(job, 1, host=9))
    pod.up(1)
    assert cluster.stop() == [Story([2, 2], [True], ["table_changed"], 143)]


def test_a_reset_is_a_word_of_the_cluster(cluster):
    (pod,) = started(cluster, members(2), only=[0])
    pod.signal(0, LOST_PEER)
    pod.then("cluster.waiting")
    cluster.write_reset(reset_file(listed(r1="unrecovered")))
    pod.then("cluster.incident", trigger="npu_reset")
    pod.then("generation.ended", next="restart")
    pod.then("cluster.waiting")
    cluster.write_reset(reset_file(listed(r1="recovered")))
    pod.up(1)
    assert cluster.stop() == [Story([2, 2], [True], ["npu_reset"], 143)]


def test_a_reset_that_fails_is_the_last_word(cluster):
    (pod,) = started(cluster, members(2), only=[0])
    pod.signal(0, LOST_PEER)
    pod.then("cluster.waiting")
    cluster.write_reset(reset_file(listed(r1="failed")))
    assert pod.ends_with(69) == Story([2], [], ["npu_failed"], 69)


def test_the_verdict_of_the_cluster_is_awaited_as_long_as_the_user_says(cluster):
    (pod,) = started(cluster, members(2), "--cluster-verdict", "100", only=[0])
    pod.signal(0, LOST_PEER)
    pod.then("cluster.waiting")
    with cluster.held():
        cluster.move(90)
    assert cluster.running == [pod]
    cluster.move(15)
    pod.ends_with(1)


def test_a_retryable_exit_code_replaces_the_code_of_the_failure(cluster):
    (pod,) = started(cluster, members(2), "--retryable-exit-code", "130", only=[0])
    pod.signal(0, LOST_PEER)
    pod.then("cluster.waiting")
    cluster.move(35)
    pod.ends_with(130)


@pytest.mark.parametrize(
    ("failure", "arguments"),
    [(OWN_FAULT, ()), (LOST_PEER, ("--no-restart-on", "1"))],
    ids=["an exception of its own", "a status that is never retried"],
)
def test_a_failure_that_is_certainly_our_own_waits_for_nobody(cluster, failure, arguments):
    (pod,) = started(cluster, members(2), *arguments, only=[0])
    pod.signal(0, failure)
    assert pod.ends_with(1) == Story([2], [], [], 1)
    assert not pod.job.all("cluster.waiting")


def test_a_failure_on_the_only_server_is_charged_as_always(cluster):
    (pod,) = started(cluster, members(1), "--restarts", "1", "--min-uptime", "0")
    pod.signal(0, OWN_FAULT)
    pod.up(1)
    pod.signal(0, OWN_FAULT, generation=1)
    assert pod.ends_with(1) == Story([1, 1], [False], [], 1)


def test_a_restart_that_the_cluster_asks_for_leaves_the_budget_as_it_is(cluster):
    job = members(1)
    (pod,) = started(cluster, job, "--restarts", "1", "--min-uptime", "0")
    cluster.write_table(moved(job, 0, host=9))
    assert pod.then("generation.started", generation=1)["restarts_left"] == 1
    pod.up(1)
    pod.signal(0, OWN_FAULT, generation=1)
    assert pod.then("generation.started", generation=2)["restarts_left"] == 0
    pod.up(2)
    assert cluster.stop() == [Story([1, 1, 1], [True, False], ["table_changed"], 143)]


def test_process_level_recovery_is_left_to_others(cluster):
    (pod,) = cluster.start(members(2), only=[0], environ={"PROCESS_RECOVER": "on"})
    assert pod.job.end() == 64
    reason = pod.job.events[-1]["reason"]
    assert "PROCESS_RECOVER" in reason
    assert "ClusterD" in reason


def test_survivors_of_a_failure_under_process_level_recovery_are_left_alone(cluster):
    job = members(2, cards=2)
    alone = {"PROCESS_RECOVER": "on", "ASCEND_SUPERVISOR_FOLLOW_CLUSTER": "false"}
    (pod,) = started(cluster, job, "--drain", "190", only=[0], on_term="saves", environ=alone)
    pod.signal(0, LOST_PEER)
    pod.then("process.exited", rank=0)
    cluster.withdraw_table()
    cluster.move(10)
    cluster.write_table(moved(job, 1, host=9))
    cluster.move(170)
    assert not pod.job.all("output", rank=1, msg="asked to end")
    assert not pod.job.all("process.exited", rank=1)
    cluster.move(15)
    pod.job.wait_for("output", rank=1, msg="asked to end")
    pod.make_room()
    assert pod.ends_with(1) == Story([4], [], [], 1)


def test_a_cluster_cannot_be_followed_where_there_is_none(supervised):
    job = supervised("--follow-cluster", "--standalone", "1", "--", "true")
    assert job.end() == 64
    assert "--standalone" in job.events[-1]["reason"]
