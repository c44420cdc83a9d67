"""Starts in the middle of a recovery, tables that are wrong or never come, and clusters without."""

from __future__ import annotations

import sys

from tests.pods import pytorch
from tests.recovery import moved_clock
from tests.recovery.pods import Story
from tests.recovery.supervisors import PROGRAM, started
from tests.recovery.tables import members, moved
from tests.recovery.writers import RESET, TABLE, HostDirectory, listed, reset_file


def test_a_server_that_starts_during_a_reset_waits_for_its_end(cluster):
    (pod,) = cluster.start(members(1), reset=reset_file(listed(r0="unrecovered")))
    pod.then("cluster.waiting")
    cluster.move(100)
    assert not pod.job.all("generation.started")
    cluster.write_reset(reset_file(listed(r0="recovered")))
    pod.up()
    assert cluster.stop() == [Story([1], [], [], 143)]


def test_a_server_that_starts_while_faults_are_collected_waits_for_a_quarter_of_an_hour(cluster):
    (pod,) = cluster.start(members(1), reset=reset_file(flushing=True))
    pod.then("cluster.waiting")
    cluster.move(880)
    assert pod.job.process.poll() is None
    cluster.move(40)
    pod.ends_with(69)


def test_a_server_that_starts_without_a_table_waits_for_it_as_always(cluster):
    (pod,) = cluster.start(members(1), "--rank-table-timeout", "7200", table=b"")
    pod.then("rank_table.waiting")
    cluster.move(100)
    cluster.write_table(members(1))
    pod.up()
    cluster.move(100)
    assert cluster.stop() == [Story([1], [], [], 143)]


def test_a_new_table_that_is_wrong_is_refused_once_it_stays_so(cluster):
    job = members(2)
    pods = started(cluster, job)
    wrong = cluster.form(job).replace(b'"instance_count": "2"', b'"instance_count": "3"')
    cluster.withdraw_table()
    cluster.move(10)
    with cluster.held():
        for pod in pods:
            pod.then("cluster.waiting")
            pod.config.write({TABLE: wrong})
        cluster.move(5)
        assert cluster.running == pods
    cluster.move(15)
    for pod in pods:
        assert pod.ends_with(65).triggers == ["table_withdrawn"]
        assert "instance_count" in pod.job.events[-1]["reason"]


def test_a_wrong_table_that_is_corrected_in_time_is_used(cluster):
    job = members(2)
    pods = started(cluster, job)
    wrong = cluster.form(job).replace(b'"instance_count": "2"', b'"instance_count": "3"')
    with cluster.held():
        for pod in pods:
            pod.config.write({TABLE: wrong})
        cluster.move(5)
        for pod in pods:
            assert len(pod.job.all("generation.started")) == 1
        cluster.write_table(moved(job, 1, host=9))
        cluster.move(2)
    for pod in pods:
        pod.up(1)
    cluster.stop()


def test_a_table_that_becomes_wrong_while_the_ranks_run_is_told_once(cluster):
    job = members(2)
    pods = started(cluster, job)
    wrong = cluster.form(job).replace(b'"instance_count": "2"', b'"instance_count": "3"')
    for pod in pods:
        pod.config.write({TABLE: wrong})
    cluster.move(60)
    for pod in pods:
        told = pod.then("diagnostic", source="rank table")
        assert "instance_count" in told["message"]
        pod.config.write({TABLE: wrong + b"\n"})
    cluster.move(60)
    cluster.write_table(job)
    cluster.move(30)
    for pod in pods:
        assert len(pod.job.all("diagnostic", source="rank table")) == 1
    assert cluster.stop() == [Story([2], [], [], 143)] * 2


def test_a_table_that_never_comes_ends_the_wait_after_the_time_of_the_rank_table(cluster):
    pods = started(cluster, members(2), "--rank-table-timeout", "100")
    cluster.withdraw_table()
    cluster.move(20)
    for pod in pods:
        pod.then("cluster.waiting")
    cluster.move(60)
    for pod in pods:
        assert pod.job.process.poll() is None
    cluster.move(40)
    for pod in pods:
        assert pod.ends_with(75).triggers == ["table_withdrawn"]


def test_a_directory_of_the_table_that_is_missing_for_a_while_is_no_news(cluster):
    job = members(2)
    pods = started(cluster, job)
    for pod in pods:
        pod.config.path.rename(pod.config.path.with_name("moved"))
    cluster.move(100)
    for pod in pods:
        assert not pod.job.all("cluster.incident")
        pod.config.path.with_name("moved").rename(pod.config.path)
    cluster.write_table(moved(job, 1, host=9))
    for pod in pods:
        pod.up(1)
    assert cluster.stop() == [Story([2, 2], [True], ["table_changed"], 143)] * 2


UP = "import os, time; os.write(1, b'up\\n'); time.sleep(600)"


def test_only_the_reset_file_is_followed_where_variables_declare_the_cluster(
    supervised, tmp_path, cluster
):
    reset = HostDirectory(tmp_path / "config")
    reset.write({RESET: reset_file()})
    clock = cluster.new_clock(tmp_path / "clock")
    job = supervised(
        *("--follow-cluster", "--reset-file", str(reset.path / RESET), "--method", "once"),
        *("--restart-delay", "0", "--release-delay", "0"),
        *("--", sys.executable, "-c", UP),
        program=PROGRAM,
        environ={**pytorch(2, 2, 0), moved_clock.CLOCK: str(clock.place)},
    )
    job.wait_for("output", generation=0, msg="up")
    for _ in range(9):
        clock.order("+7")
        clock.wait(job.process)
    reset.write({RESET: reset_file(retry_time=1)})
    job.wait_for("cluster.incident", trigger="retry_time")
    job.wait_for("restart.scheduled", free=True)
    job.wait_for("output", generation=1, msg="up")
