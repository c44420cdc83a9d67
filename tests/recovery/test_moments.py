"""The cluster recovers at a bad moment: while we back off, release, drain, or start."""

from __future__ import annotations

import signal

from tests.recovery.pods import DONE, LOST_PEER, OWN_FAULT, Story
from tests.recovery.supervisors import started
from tests.recovery.tables import members, moved
from tests.recovery.writers import listed, reset_file


def test_a_fault_during_the_back_off_holds_up_the_restart(cluster):
    job = members(2)
    pods = started(cluster, job, "--restart-delay", "600", "--restart-delay-max", "600")
    cluster.write_table(moved(job, 1, host=9))
    for pod in pods:
        pod.then("restart.scheduled", free=True)
    cluster.withdraw_table()
    cluster.move(605)
    for pod in pods:
        pod.then("wait.ended")
        pod.then("cluster.waiting")
        assert len(pod.job.all("generation.started")) == 1
    cluster.write_table(moved(job, 1, host=8))
    for rank, pod in enumerate(pods):
        assert pod.up(1) == {f"rank {rank} of 2 among 10.0.0.1 10.0.0.8"}
    assert cluster.stop() == [Story([2, 2], [True], ["table_changed"], 143)] * 2


def test_a_fault_during_the_back_off_of_a_job_on_one_server_costs_no_second_restart(cluster):
    job = members(1, cards=2)
    (pod,) = started(
        *(cluster, job, "--restarts", "3"),
        *("--restart-delay", "600", "--restart-delay-max", "600", "--min-uptime", "0"),
    )
    pod.signal(0, OWN_FAULT)
    pod.then("restart.scheduled", free=False)
    cluster.write_table(moved(job, 0, host=9))
    cluster.move(605)
    assert len(pod.up(1)) == 2
    cluster.move(100)
    assert cluster.stop()[0].worlds == [2, 2]


def test_a_fault_during_the_release_holds_up_the_restart(cluster):
    job = members(2)
    pods = started(cluster, job, "--release-delay", "60")
    cluster.write_table(moved(job, 1, host=9))
    for pod in pods:
        assert pod.then("restart.scheduled", free=True)["delay_seconds"] == 60
    cluster.move(30)
    cluster.write_reset(reset_file(flushing=True))
    cluster.move(60)
    for pod in pods:
        pod.then("cluster.waiting")
        assert len(pod.job.all("generation.started")) == 1
    cluster.write_reset(reset_file())
    for pod in pods:
        pod.up(1)
    assert cluster.stop() == [Story([2, 2], [True], ["table_changed"], 143)] * 2


def test_a_fault_that_lasts_longer_than_a_quarter_of_an_hour_ends_the_job(cluster):
    job = members(2)
    pods = started(cluster, job)
    cluster.write_reset(reset_file(flushing=True))
    cluster.write_table(moved(job, 1, host=9))
    for pod in pods:
        pod.then("cluster.waiting")
    cluster.move(880)
    for pod in pods:
        assert pod.job.process.poll() is None
    cluster.move(40)
    for pod in pods:
        assert pod.job.end() not in {0, 70, 143}
        assert pod.story().worlds == [2]


def test_a_fault_during_the_drain_makes_the_restart_free_and_touches_no_rank_before_its_end(
    cluster,
):
    job = members(2, cards=2)
    here, there = started(cluster, job, "--drain", "60", on_term="saves")
    here.signal(0, LOST_PEER)
    here.job.wait_for("process.exited", rank=0)
    cluster.write_reset(reset_file(retry_time=1))
    there.then("cluster.incident", trigger="retry_time")
    cluster.move(30)
    assert not here.job.all("output", rank=1, msg="asked to end")
    cluster.move(35)
    here.job.wait_for("output", rank=1, msg="asked to end")
    for pod in (here, there):
        pod.make_room()
        pod.then("restart.scheduled", free=True)
        pod.then("cluster.waiting")
    cluster.write_table(moved(job, 1, host=9))
    for pod in (here, there):
        pod.up(1)
    assert cluster.stop() == [Story([4, 4], [True], ["retry_time"], 143)] * 2


def test_ranks_have_their_drain_when_pods_are_replaced(cluster):
    (pod,) = started(cluster, members(2), "--drain", "60", only=[0], on_term="saves")
    cluster.write_reset(reset_file(retry_time=1))
    pod.then("cluster.incident", trigger="retry_time")
    cluster.move(30)
    assert not pod.job.all("output", msg="asked to end")
    cluster.move(35)
    pod.job.wait_for("output", msg="asked to end")
    pod.make_room()
    pod.then("restart.scheduled", free=True)


def test_a_job_whose_ranks_all_end_well_during_the_drain_has_succeeded(cluster):
    (pod,) = started(cluster, members(1, cards=2), "--drain", "600", on_term="saves")
    cluster.write_reset(reset_file(retry_time=1))
    pod.then("cluster.incident", trigger="retry_time")
    for rank in range(2):
        pod.signal(rank, DONE)
    assert pod.ends_with(0) == Story([2], [], ["retry_time"], 0)
    assert pod.job.all("generation.ended")[0]["outcome"] == "completed"


def test_a_job_whose_ranks_end_well_once_they_are_told_to_runs_again(cluster):
    (pod,) = started(cluster, members(1, cards=2), on_term="saves")
    pod.make_room()
    cluster.write_table(moved(members(1, cards=2), 0, host=9))
    pod.then("generation.ended", outcome="fault")
    assert len(pod.up(1)) == 2


def test_a_server_of_several_whose_ranks_end_well_during_the_drain_runs_with_the_others(cluster):
    # Those of the lost pod have not ended well, and cannot meet anybody alone.
    job = members(2)
    (pod,) = started(cluster, job, "--drain", "600", only=[0], on_term="saves")
    cluster.write_reset(reset_file(retry_time=1))
    pod.then("cluster.incident", trigger="retry_time")
    pod.signal(0, DONE)
    pod.then("restart.scheduled", free=True)
    pod.then("cluster.waiting")
    cluster.write_table(moved(job, 1, host=9))
    pod.up(1)
    assert cluster.stop() == [Story([2, 2], [True], ["retry_time"], 143)]


def test_a_fault_while_the_ranks_are_being_ended_is_the_same_incident(cluster):
    job = members(2, cards=2)
    pods = started(cluster, job, "--grace", "600", on_term="saves")
    cluster.withdraw_table()
    cluster.move(8)
    for pod in pods:
        pod.then("cluster.incident", trigger="table_withdrawn")
        pod.job.wait_for("output", rank=pod.member.index * 2, msg="asked to end")
    cluster.write_reset(reset_file(retry_time=1))
    cluster.move(10)
    cluster.write_table(moved(job, 1, host=9))
    cluster.move(10)
    for pod in pods:
        pod.make_room()
        pod.up(1)
    cluster.move(100)
    assert cluster.stop() == [Story([4, 4], [True], ["table_withdrawn"], 143)] * 2


def test_a_sigterm_while_the_ranks_are_being_ended_ends_the_job(cluster):
    pods = started(cluster, members(2), "--grace", "600", on_term="saves")
    cluster.withdraw_table()
    cluster.move(8)
    for pod in pods:
        pod.job.wait_for("output", msg="asked to end")
        pod.job.send(signal.SIGTERM)
        pod.then("signal.received", signal="SIGTERM")
        pod.make_room()
    for pod in pods:
        assert pod.ends_with(143) == Story([2], [], ["table_withdrawn"], 143)
        assert pod.job.wait_for("process.exited")["status"] == 0


def test_a_reset_of_an_npu_here_ends_a_grace_that_runs_already(cluster):
    job = members(2, cards=2)
    here, there = started(cluster, job, "--grace", "600", on_term="ignores")
    cluster.withdraw_table()
    cluster.move(8)
    for pod in (here, there):
        pod.then("cluster.incident", trigger="table_withdrawn")
    here.job.wait_for("output", rank=1, msg="asked to end")
    cluster.write_reset(reset_file(listed(r0="unrecovered")))
    cluster.move(3)
    here.then("generation.ended")
    assert not there.job.all("generation.ended")
    cluster.write_reset(reset_file(listed(r0="recovered")))
    cluster.write_table(job)
    here.up(1)


def test_a_reset_of_an_npu_here_ends_a_drain_that_runs_already(cluster):
    (pod,) = started(
        cluster, members(2, cards=2), "--drain", "600", "--grace", "600", only=[0], on_term="saves"
    )
    pod.signal(0, LOST_PEER)
    pod.then("process.exited", rank=0)
    cluster.write_reset(reset_file(listed(r0="unrecovered")))
    assert pod.then("process.exited", rank=1)["signal"] == "SIGKILL"
    pod.then("cluster.waiting")
    cluster.write_reset(reset_file(listed(r0="recovered")))
    pod.up(1)


def test_a_job_that_ends_well_while_the_table_is_withdrawn_has_ended_well(cluster):
    (pod,) = started(cluster, members(2, cards=2), only=[0], on_term="saves")
    with cluster.held():
        cluster.withdraw_table()
        cluster.move(3)
        pod.make_room()
        for rank in (0, 1):
            pod.signal(rank, signal.SIGTERM)
    assert pod.ends_with(0) == Story([4], [], [], 0)


def test_a_fault_between_two_spawns_ends_what_has_started(cluster):
    job = members(2, cards=16)
    pods = cluster.start(job)
    for pod in pods:
        pod.job.wait_for("process.started", local_rank=0)
    cluster.write_table(moved(job, 1, host=9))
    cluster.move(1)
    for pod in pods:
        pod.then("cluster.incident", trigger="table_changed")
        assert len(pod.up(1)) == 16
    assert cluster.stop() == [Story([32, 32], [True], ["table_changed"], 143)] * 2


def test_tables_that_follow_each_other_quickly_lead_to_the_last_one(cluster):
    job = members(2)
    pods = started(cluster, job)
    for number in range(1, 6):
        cluster.write_table(moved(job, 1, host=10 + number))
        cluster.write_reset(reset_file(retry_time=number))
        cluster.move(1)
    for rank, pod in enumerate(pods):
        pod.job.wait_for("output", msg=f"rank {rank} of 2 among 10.0.0.1 10.0.0.15")
    for story in cluster.stop():
        assert all(story.free)


def test_a_table_that_changes_again_and_again_ends_the_job_after_ten_restarts(cluster):
    job = members(2)
    tables = [moved(job, 1, host=9), job]
    pods = started(cluster, job)
    for number in range(10):
        cluster.write_table(tables[number % 2])
        cluster.move(1)
        for pod in pods:
            pod.then("cluster.incident", trigger="table_changed")
            pod.then("restart.scheduled", free=True)
            pod.up(number + 1)
    cluster.write_table(tables[0])
    for pod in pods:
        assert pod.ends_with(69).free == [True] * 10


def test_a_table_that_flaps_every_ten_seconds_is_followed_at_the_pace_of_the_back_off(cluster):
    job = members(2)
    tables = [moved(job, 1, host=9), job]
    (pod,) = started(cluster, job, "--restart-delay", "1", "--restart-delay-max", "60", only=[0])
    for number in range(360):
        cluster.write_table(tables[number % 2])
        cluster.move(10)
        if not cluster.running:
            break
    story = pod.ends_with(69)
    assert len(story.triggers) == 11
    assert story.free == [True] * 10
    delays = [event["delay_seconds"] for event in pod.job.all("restart.scheduled")]
    assert all(delay <= 2.0**number for number, delay in enumerate(delays))
