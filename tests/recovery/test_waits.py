"""Waits for the cluster: what is shown of them, and that a SIGTERM ends them at once."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.ctl.calling import Answer, ctl
from tests.recovery.pods import LOST_PEER, Pod, Story
from tests.recovery.supervisors import SimulatedCluster, started
from tests.recovery.tables import members, moved
from tests.recovery.writers import listed, reset_file
from tests.running import wait_until


def asked(pod: Pod, command: str) -> Answer:
    environ = {
        "MA_MOUNT_PATH": str(pod.job.root / "modelarts"),
        "MA_VJ_NAME": "ma-job-test",
        "MA_CURRENT_INSTANCE_NAME": pod.member.name,
    }
    return ctl(command, environ=environ)


def status_of(pod: Pod) -> str:
    return asked(pod, "status").stdout


def for_a_table(cluster: SimulatedCluster) -> None:
    cluster.withdraw_table()
    cluster.move(10)


def for_an_unchanged_table(cluster: SimulatedCluster) -> None:
    cluster.write_reset(reset_file(retry_time=1))


def for_the_end_of_a_fault(cluster: SimulatedCluster) -> None:
    cluster.write_reset(reset_file(flushing=True))
    cluster.write_table(moved(members(2), 1, host=9))


def for_a_reset(cluster: SimulatedCluster) -> None:
    cluster.write_reset(reset_file(listed(r1="unrecovered")))


def for_the_verdict(cluster: SimulatedCluster) -> None:
    cluster.pods[0].signal(0, LOST_PEER)


@pytest.mark.parametrize(
    "wait",
    [for_a_table, for_an_unchanged_table, for_the_end_of_a_fault, for_a_reset, for_the_verdict],
)
def test_a_wait_is_shown_and_a_sigterm_ends_it_at_once(
    cluster: SimulatedCluster, wait: Callable[[SimulatedCluster], None]
) -> None:
    (pod,) = started(cluster, members(2), only=[0])
    wait(cluster)
    told = pod.then("cluster.waiting")
    wait_until(lambda: told["reason"] in status_of(pod))
    pod.job.send(signal.SIGTERM)
    story = pod.ends_with(143)
    assert story.worlds == [2]
    assert pod.job.all("wait.ended")


def test_an_operator_ends_the_wait_for_a_new_table(cluster: SimulatedCluster) -> None:
    pods = started(cluster, members(2))
    with cluster.held():
        for_an_unchanged_table(cluster)
        cluster.move(5)
        for pod in pods:
            told = pod.then("cluster.waiting")
            assert "ascend-supervisorctl restart" in told["reason"]
            assert "starts with the rank table as it is" in asked(pod, "restart").stdout
            pod.up(1)
            assert pod.job.all("rank_table.unchanged")[0]["waited_seconds"] < 60
    assert cluster.stop() == [Story([2, 2], [True], ["retry_time"], 143)] * 2


@pytest.mark.parametrize("wait", [for_a_table, for_the_end_of_a_fault, for_a_reset])
def test_other_waits_are_not_ended_by_a_restart(
    cluster: SimulatedCluster, wait: Callable[[SimulatedCluster], None]
) -> None:
    (pod,) = started(cluster, members(2), only=[0])
    wait(cluster)
    told = pod.then("cluster.waiting")
    assert "ascend-supervisorctl" not in told["reason"]
    answer = asked(pod, "restart")
    assert answer.returncode == 1
    assert "no generation runs" in answer.stderr
    assert pod.job.wait_for("control.requested")["effect"].startswith("declined: ")
    cluster.stop()


def test_a_sigterm_during_the_back_off_after_an_incident_ends_it_at_once(cluster):
    job = members(2)
    (pod,) = started(
        *(cluster, job, "--restart-delay", "600", "--restart-delay-max", "600"), only=[0]
    )
    cluster.write_table(moved(job, 1, host=9))
    pod.then("restart.scheduled")
    pod.job.send(signal.SIGTERM)
    pod.ends_with(143)


def test_a_wait_is_told_at_growing_intervals(cluster):
    (pod,) = started(cluster, members(2), only=[0])
    cluster.withdraw_table()
    cluster.move(1000)
    pod.then("generation.ended")
    cluster.move(2000)
    assert 3 <= len(pod.job.all("cluster.waiting")) <= 30


def test_while_the_ranks_run_nothing_is_told(cluster):
    (pod,) = started(cluster, members(2), only=[0])
    before = len(pod.job.events)
    cluster.move(1000)
    assert len(pod.job.events) == before
