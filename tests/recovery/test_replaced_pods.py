"""Pods are replaced (pod-level rescheduling): all others restart once, and nothing is charged."""

from __future__ import annotations

import signal

import pytest

from tests.recovery.pods import Story
from tests.recovery.supervisors import NEW_SECONDS, started
from tests.recovery.tables import Member, members, moved, super_pod, template_1, template_2
from tests.recovery.writers import RESTART_TYPE, TABLE, ConfigMap, reset_file

ONCE = Story(worlds=[3, 3], free=[True], triggers=["table_withdrawn"], exit_code=143)
REPLACED = reset_file(retry_time=1)
NEARLY_SECONDS = 100
"""Not yet the limit for a table in a ConfigMap."""


@pytest.mark.parametrize("form", [template_2, template_1, super_pod])
def test_a_replaced_pod_costs_one_free_restart_everywhere(cluster, form):
    cluster.form = form
    job = members(3)
    first, lost, last = started(cluster, job)
    lost.job.send(signal.SIGTERM)
    assert lost.ends_with(143).worlds == [3]
    cluster.withdraw_table()
    cluster.move(20)
    for pod in (first, last):
        pod.then("cluster.incident", trigger="table_withdrawn")
        pod.then("generation.ended", outcome="fault", next="restart")
        pod.then("cluster.waiting")
    cluster.write_reset(REPLACED)
    cluster.move(5)
    after = moved(job, 1, host=9)
    cluster.write_table(after)
    (new,) = cluster.start(after, only=[1], reset=REPLACED)
    assert first.up(1) == {"rank 0 of 3 among 10.0.0.1 10.0.0.9 10.0.0.3"}
    assert last.up(1) == {"rank 2 of 3 among 10.0.0.1 10.0.0.9 10.0.0.3"}
    assert new.up() == {"rank 1 of 3 among 10.0.0.1 10.0.0.9 10.0.0.3"}
    cluster.move(100)
    assert cluster.stop() == [ONCE, Story([3], [], [], 143), ONCE]


def test_a_table_that_comes_before_the_reset_file_is_the_same_incident(cluster):
    job = members(2)
    pods = started(cluster, job)
    cluster.write_table(moved(job, 1, host=9))
    for pod in pods:
        pod.then("cluster.incident", trigger="table_changed")
        assert len(pod.up(1)) == 1
    cluster.move(5)
    cluster.write_reset(REPLACED)
    cluster.move(100)
    assert cluster.stop() == [Story([2, 2], [True], ["table_changed"], 143)] * 2


def test_a_retry_time_that_rises_long_after_the_restart_is_an_incident_of_its_own(cluster):
    job = members(2)
    pods = started(cluster, job)
    cluster.write_table(moved(job, 1, host=9))
    for pod in pods:
        pod.up(1)
    cluster.move(70)
    cluster.write_reset(REPLACED)
    for pod in pods:
        pod.then("cluster.incident", trigger="retry_time")
        pod.then("cluster.waiting")
    cluster.write_table(moved(job, 1, host=8))
    for pod in pods:
        pod.up(2)
    story = Story([2, 2, 2], [True, True], ["table_changed", "retry_time"], 143)
    assert cluster.stop() == [story] * 2


def test_a_table_with_the_same_bytes_counts_once_it_was_withdrawn(cluster):
    job = members(2)
    pods = started(cluster, job)
    cluster.withdraw_table()
    cluster.move(20)
    for pod in pods:
        pod.then("cluster.waiting")
    cluster.write_reset(REPLACED)
    cluster.move(5)
    cluster.write_table(job)
    for pod in pods:
        pod.up(1)
    cluster.move(100)
    assert cluster.stop() == [Story([2, 2], [True], ["table_withdrawn"], 143)] * 2


def test_a_table_with_the_same_bytes_counts_once_it_was_written_again(cluster):
    job = members(2)
    pods = started(cluster, job)
    cluster.write_reset(REPLACED)
    for pod in pods:
        pod.then("cluster.incident", trigger="retry_time")
        pod.then("cluster.waiting")
    cluster.write_table(job)
    for pod in pods:
        pod.up(1)
        assert not pod.job.all("rank_table.unchanged")
    assert cluster.stop() == [Story([2, 2], [True], ["retry_time"], 143)] * 2


def test_a_table_that_nobody_writes_is_used_as_it_is_after_two_minutes(cluster):
    job = members(2)
    pods = started(cluster, job)
    cluster.write_reset(REPLACED)
    for pod in pods:
        pod.then("cluster.incident", trigger="retry_time")
        pod.then("cluster.waiting")
    cluster.move(80)
    for pod in pods:
        assert len(pod.job.all("generation.started")) == 1
    cluster.move(45)
    for pod in pods:
        pod.then("rank_table.unchanged", path=str(pod.config.path / TABLE))
        pod.up(1)
    assert cluster.stop() == [Story([2, 2], [True], ["retry_time"], 143)] * 2


def test_a_table_that_comes_after_two_minutes_costs_a_second_free_restart(cluster):
    # As in a ConfigMap, which kubelet copies once in 60 to 90 s. The wait has an end, because one
    # whose content is the same is not copied again.
    job = members(2)
    pods = started(cluster, job, mount=ConfigMap)
    cluster.write_reset(REPLACED)
    for pod in pods:
        pod.then("cluster.incident", trigger="retry_time")
        pod.then("cluster.waiting")
    cluster.move(125)
    for pod in pods:
        pod.then("rank_table.unchanged")
        pod.up(1)
    cluster.move(20)
    cluster.write_table(moved(job, 1, host=9))
    for rank, pod in enumerate(pods):
        pod.then("cluster.incident", trigger="table_changed")
        assert pod.up(2) == {f"rank {rank} of 2 among 10.0.0.1 10.0.0.9"}
    cluster.move(100)
    twice = Story([2, 2, 2], [True, True], ["retry_time", "table_changed"], 143)
    assert cluster.stop() == [twice] * 2


def test_files_of_config_maps_are_followed_like_those_of_hosts(cluster):
    job = members(2)
    pods = cluster.start(job, mount=ConfigMap)
    for pod in pods:
        pod.reset.write({RESTART_TYPE: b"hotReset"})
        pod.up()
    cluster.move(NEW_SECONDS)
    cluster.withdraw_table()
    cluster.move(20)
    for pod in pods:
        assert not pod.job.all("cluster.incident")
        pod.reset.write({"reset.json": REPLACED, RESTART_TYPE: None})
    for pod in pods:
        pod.then("cluster.incident", trigger="retry_time")
        pod.then("cluster.waiting")
    after = moved(job, 1, host=9)
    cluster.write_table(after)
    for pod in pods:
        pod.up(1)
    cluster.move(100)
    assert cluster.stop() == [Story([2, 2], [True], ["retry_time"], 143)] * 2


def test_a_table_of_a_config_map_that_stays_withdrawn_is_an_incident_after_two_minutes(cluster):
    job = members(2)
    pods = started(cluster, job, mount=ConfigMap)
    with cluster.held():
        cluster.withdraw_table()
        cluster.move(NEARLY_SECONDS)
        for pod in pods:
            assert not pod.job.all("cluster.incident")
        cluster.move(20)
    for pod in pods:
        pod.then("cluster.incident", trigger="table_withdrawn")
        pod.then("cluster.waiting")
    cluster.write_table(moved(job, 1, host=9))
    for pod in pods:
        pod.up(1)
    assert cluster.stop() == [Story([2, 2], [True], ["table_withdrawn"], 143)] * 2


def test_a_first_reset_file_that_was_only_initialized_is_followed(cluster):
    job = members(2)
    pods = started(cluster, job, reset=b'{"status":"initializing"}')
    cluster.write_reset(REPLACED)
    for pod in pods:
        pod.then("cluster.incident", trigger="retry_time")
        pod.then("cluster.waiting")
    cluster.write_table(moved(job, 1, host=9))
    for pod in pods:
        pod.up(1)
    assert cluster.stop() == [Story([2, 2], [True], ["retry_time"], 143)] * 2


def test_a_retry_time_of_before_our_start_is_no_news(cluster):
    started(cluster, members(2), reset=reset_file(retry_time=4))
    cluster.move(100)
    assert cluster.stop() == [Story([2], [], [], 143)] * 2


def test_a_retry_time_that_goes_back_is_followed(cluster):
    # The controller that counts it was restarted.
    pods = started(cluster, members(2), reset=reset_file(retry_time=4))
    cluster.write_reset(REPLACED)
    for pod in pods:
        pod.then("cluster.incident", trigger="retry_time")
    cluster.stop()


def test_no_generation_starts_with_a_table_that_is_withdrawn_again(cluster):
    job = members(3)
    first, last = started(cluster, job, only=[0, 2])
    cluster.withdraw_table()
    cluster.move(10)
    for pod in (first, last):
        pod.then("generation.ended")
    cluster.write_reset(reset_file(retry_time=1, flushing=True))
    cluster.move(5)
    cluster.write_table(moved(job, 1, host=9))  # it is seen, but faults are still collected
    cluster.move(5)
    cluster.withdraw_table()  # a second pod is lost
    cluster.move(5)
    cluster.write_reset(reset_file(retry_time=2))
    cluster.move(20)
    for pod in (first, last):
        assert len(pod.job.all("generation.started")) == 1
    cluster.write_table([Member(0, 1), Member(1, 9), Member(2, 7)])
    assert first.up(1) == {"rank 0 of 3 among 10.0.0.1 10.0.0.9 10.0.0.7"}
    assert last.up(1) == {"rank 2 of 3 among 10.0.0.1 10.0.0.9 10.0.0.7"}
    cluster.move(100)
    assert cluster.stop() == [ONCE, ONCE]


def test_the_pod_that_the_new_table_leaves_out_ends_and_the_others_go_on(cluster):
    job = members(3)
    first, second, left_out = started(cluster, job)
    cluster.withdraw_table()
    cluster.move(10)
    for pod in (first, second, left_out):
        pod.then("cluster.waiting")
    cluster.write_table(members(2))
    story = left_out.ends_with(65)
    assert (story.worlds, story.triggers) == ([3], ["table_withdrawn"])
    assert "pod-2" in left_out.job.events[-1]["reason"]
    assert first.up(1) == {"rank 0 of 2 among 10.0.0.1 10.0.0.2"}
    assert second.up(1) == {"rank 1 of 2 among 10.0.0.1 10.0.0.2"}
    assert cluster.stop() == [Story([3, 2], [True], ["table_withdrawn"], 143)] * 2


def test_a_running_pod_that_a_new_table_leaves_out_ends_too(cluster):
    first, second, left_out = started(cluster, members(3))
    cluster.write_table(members(2))
    assert left_out.ends_with(65).worlds == [3]
    for pod in (first, second):
        pod.up(1)
    assert cluster.stop() == [Story([3, 2], [True], ["table_changed"], 143)] * 2


def test_a_pod_that_is_left_out_has_its_time_anew_after_a_withdrawal(cluster):
    job = members(3)
    (pod,) = started(cluster, job, only=[2])
    cluster.withdraw_table()
    cluster.move(10)
    pod.then("cluster.waiting")

    def waits_for(words: str) -> bool:
        return words in pod.job.all("cluster.waiting")[-1]["reason"]

    with cluster.held():
        for _ in range(3):
            cluster.write_table(members(2))
            cluster.move_until(lambda: waits_for("does not hold this server"))
            cluster.move(6)
            cluster.withdraw_table()
            cluster.move_until(lambda: waits_for("not completed"))
    cluster.write_table(job)
    pod.up(1)
    assert cluster.stop() == [Story([3, 3], [True], ["table_withdrawn"], 143)]


def test_a_new_pod_that_the_table_leaves_out_waits_while_faults_are_collected(cluster):
    job = members(3)
    (pod,) = cluster.start(
        *(job, "--rank-table-timeout", "7200"),
        only=[2],
        table=cluster.form(members(2)),
        reset=reset_file(flushing=True),
    )
    pod.then("cluster.waiting")
    cluster.move(300)
    with cluster.held():
        cluster.write_reset(reset_file())
        cluster.move(60)
        assert pod.job.process.poll() is None
        cluster.write_table(job)
        cluster.move(2)
    pod.up()
    assert cluster.stop() == [Story([3], [], [], 143)]


def test_a_running_pod_that_a_new_table_leaves_out_ends_when_faults_are_collected(cluster):
    (pod,) = started(cluster, members(3), only=[2])
    cluster.write_reset(reset_file(flushing=True))
    cluster.write_table(members(2))
    pod.then("cluster.waiting")
    cluster.move(300)
    assert pod.job.process.poll() is None
    cluster.write_reset(reset_file())
    cluster.move(20)
    assert pod.ends_with(65).worlds == [3]
