"""NPUs are reset in place, as the reset file says of the ranks of the whole job."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest

from tests.recovery.pods import Pod, Story
from tests.recovery.supervisors import started
from tests.recovery.tables import members, template_1
from tests.recovery.writers import listed, make_again, reset_file

FOREVER = ("--grace", "600")
"""No test waits that long: a rank that ignores SIGTERM was killed by something else."""
RESET_ONCE = Story(worlds=[4, 4], free=[True], triggers=["npu_reset"], exit_code=143)


def waits_for_reset(pods: Sequence[Pod]) -> None:
    for pod in pods:
        pod.then("cluster.incident", trigger="npu_reset")


def test_ranks_beside_a_waiting_npu_are_killed_at_once_and_come_back_after_the_reset(cluster):
    # ``ignores``: with the grace of the job this would take ten minutes.
    here, there = started(cluster, members(2, cards=2), *FOREVER, on_term="ignores")
    cluster.write_reset(reset_file(listed(r0="unrecovered")))
    waits_for_reset([here])
    for _ in range(2):
        assert here.then("process.exited")["signal"] == "SIGKILL"
    here.then("generation.ended")
    there.then("cluster.incident", trigger="npu_reset")
    cluster.move(600)  # the other server's ranks get all of their grace
    there.then("generation.ended")
    for pod in (here, there):
        pod.then("cluster.waiting")
        assert len(pod.job.all("generation.started")) == 1
    cluster.write_reset(reset_file(listed(r0="recovered")))
    for pod in (here, there):
        pod.up(1)
    cluster.write_reset(reset_file())
    cluster.move(30)
    assert cluster.stop_at_once() == [RESET_ONCE] * 2


@pytest.mark.parametrize("of_reset", ["hotReset", ""])
def test_a_retry_time_that_rises_with_a_reset_awaits_no_table(cluster, of_reset):
    # As the device plugin writes it, up to MindCluster 26.0.
    pods = started(cluster, members(2, cards=2))
    cluster.write_reset(reset_file(listed(r0="unrecovered"), retry_time=1), of_reset)
    for pod in pods:
        pod.then("generation.ended")
    cluster.move(50)
    cluster.write_reset(reset_file(listed(r0="recovered"), retry_time=1), of_reset)
    for pod in pods:
        pod.up(1)
    # The next one is so short that no server sees more than its end.
    cluster.write_reset(reset_file(listed(r0="recovered"), retry_time=2), of_reset)
    for pod in pods:
        pod.up(2)
        assert not pod.job.all("rank_table.unchanged")
    twice = Story([4, 4, 4], [True, True], ["npu_reset", "npu_reset"], 143)
    assert cluster.stop() == [twice] * 2


def test_the_relaunch_waits_for_all_npus_that_are_listed(cluster):
    here, there = pods = started(cluster, members(2, cards=2))
    cluster.write_reset(reset_file(listed(r0="unrecovered", r2="unrecovered")))
    waits_for_reset(pods)
    for pod in pods:
        pod.then("generation.ended")
    cluster.move(100)
    cluster.write_reset(reset_file(listed(r0="recovered", r2="unrecovered")))
    cluster.move(50)
    for pod in pods:
        assert len(pod.job.all("generation.started")) == 1
    cluster.write_reset(reset_file(listed(r0="recovered", r2="recovered")))
    for pod in pods:
        pod.up(1)
    assert cluster.stop() == [RESET_ONCE] * 2
    assert here.job.all("cluster.waiting")
    assert there.job.all("cluster.waiting")


def test_a_reset_that_failed_ends_the_job(cluster):
    pods = started(cluster, members(2, cards=2))
    cluster.write_reset(reset_file(listed(r0="unrecovered")))
    waits_for_reset(pods)
    for pod in pods:
        pod.then("generation.ended")
    cluster.move(100)
    cluster.write_reset(reset_file(listed(r0="failed")))
    for pod in pods:
        assert pod.ends_with(69).worlds == [4]


def test_a_failed_reset_ends_ranks_that_run(cluster):
    pods = started(cluster, members(2, cards=2))
    cluster.write_reset(reset_file(listed(r0="failed")))
    for pod in pods:
        story = pod.ends_with(69)
        assert (story.worlds, story.triggers) == ([4], ["npu_failed"])


def test_a_fault_of_an_npu_of_this_server_ends_only_this_server(cluster):
    here, there = started(cluster, members(2, cards=2))
    cluster.write_reset(reset_file(listed(r1="fault")))
    story = here.ends_with(69)
    assert (story.worlds, story.triggers) == ([4], ["npu_fault"])
    cluster.move(30)
    assert not there.job.all("cluster.incident")
    assert cluster.stop() == [Story([4], [], [], 143)]


def test_a_reset_that_takes_too_long_ends_the_job(cluster):
    pods = started(cluster, members(2, cards=2))
    cluster.write_reset(reset_file(listed(r0="unrecovered")))
    for pod in pods:
        pod.then("generation.ended")
        pod.then("cluster.waiting")
    cluster.move(910)
    for pod in pods:
        assert pod.ends_with(69).worlds == [4]


def test_healthy_ranks_may_save_while_the_listed_one_is_killed_first(cluster):
    job = members(2, cards=2)
    here, _ = started(cluster, job, *FOREVER, "--reset-grace", "50", on_term="ignores")
    with cluster.held():
        cluster.write_reset(reset_file(listed(r0="unrecovered")))
        cluster.move_until(lambda: here.job.all("cluster.incident"))
        waits_for_reset([here])
        for rank in (0, 1):
            here.job.wait_for("output", rank=rank, msg="asked to end")
        cluster.move(11)
        assert here.then("process.exited")["rank"] == 0
        cluster.move(28)
        assert not here.job.all("process.exited", rank=1)
        cluster.move(12)
        assert here.then("process.exited")["signal"] == "SIGKILL"
    here.job.wait_for("generation.ended")


def test_healthy_ranks_that_have_saved_are_not_waited_for(cluster):
    (here,) = started(
        cluster, members(1, cards=2), *FOREVER, "--reset-grace", "50", on_term="saves"
    )
    cluster.write_reset(reset_file(listed(r0="unrecovered")))
    here.job.wait_for("output", rank=1, msg="asked to end")
    here.make_room()
    here.then("generation.ended")
    assert here.job.wait_for("process.exited", rank=1)["status"] == 0


@pytest.mark.picture("npu-reset")
def test_a_reset_elsewhere_leaves_the_ranks_here_their_grace(cluster):
    cluster.form = template_1
    here, there = started(cluster, members(2, cards=2), *FOREVER, on_term="saves")
    cluster.write_reset(reset_file(listed(r2="unrecovered")))
    there.then("generation.ended")
    for rank in (0, 1):
        here.job.wait_for("output", rank=rank, msg="asked to end")
    cluster.move(20)
    assert not here.job.all("process.exited")
    here.make_room()
    assert [here.then("process.exited")["status"] for _ in range(2)] == [0, 0]
    for pod in (here, there):
        pod.then("cluster.waiting")
    cluster.move(130)
    cluster.write_reset(reset_file(listed(r2="recovered")))
    for pod in (here, there):
        pod.up(1)
    cluster.move(30)
    for pod in (here, there):
        pod.complete(1)
        assert pod.ends_with(0) == Story([4, 4], [True], ["npu_reset"], 0)


def test_a_graceful_exit_and_a_sigterm_are_one_stop(cluster):
    pods = started(cluster, members(2), *FOREVER, on_term="saves")
    cluster.write_reset(reset_file(graceful_exit=1))
    for pod in pods:
        pod.then("cluster.incident", trigger="graceful_exit")
        pod.job.wait_for("output", msg="asked to end")
    cluster.move(3)
    for pod in pods:
        pod.job.send(signal.SIGTERM)
        pod.then("signal.received", signal="SIGTERM")
        pod.make_room()
        assert pod.ends_with(143) == Story([2], [], ["graceful_exit"], 143)
        (exited,) = pod.job.all("process.exited")
        assert exited["status"] == 0


def test_a_graceful_exit_ends_non_zero_though_all_ranks_end_well(cluster):
    pods = started(cluster, members(2), *FOREVER, on_term="saves")
    cluster.write_reset(reset_file(graceful_exit=1))
    for pod in pods:
        pod.job.wait_for("output", msg="asked to end")
        pod.make_room()
        assert pod.ends_with(69).triggers == ["graceful_exit"]


def test_a_reset_file_that_is_removed_for_good_is_forgotten(cluster):
    # The device plugin removes its directory when a pod of the job leaves the node.
    (pod,) = started(cluster, members(1, cards=2))
    cluster.write_reset(reset_file(listed(r0="unrecovered")))
    waits_for_reset([pod])
    pod.then("cluster.waiting")
    make_again(pod.reset.path)
    cluster.move(200)
    assert len(pod.job.all("generation.started")) == 1
    assert any("the file was removed" in one["reason"] for one in pod.job.all("cluster.waiting"))
    cluster.move(150)
    assert len(pod.up(1)) == 2
    assert cluster.stop() == [Story([2, 2], [True], ["npu_reset"], 143)]
