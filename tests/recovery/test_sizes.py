"""The job shrinks, grows, or is numbered anew: each server follows its place in the table."""

from __future__ import annotations

from tests.recovery.supervisors import started
from tests.recovery.tables import Member, members, template_1
from tests.recovery.writers import reset_file


def test_a_job_shrinks_when_another_server_is_not_replaced(cluster):
    job = members(3, cards=2)
    first, last = started(cluster, job, only=[0, 2])
    cluster.withdraw_table()
    cluster.move(20)
    for pod in (first, last):
        pod.then("cluster.waiting")
    cluster.write_table([job[0], job[2]])
    hosts = "among 10.0.0.1 10.0.0.3"
    assert first.up(1) == {f"rank {rank} of 4 {hosts}" for rank in (0, 1)}
    assert last.up(1) == {f"rank {rank} of 4 {hosts}" for rank in (2, 3)}
    assert [story.worlds for story in cluster.stop()] == [[6, 4]] * 2


def test_a_job_grows(cluster):
    job = members(2)
    first, second = started(cluster, job)
    grown = members(4)
    cluster.write_table(grown)
    third, fourth = cluster.start(grown, only=[2, 3])
    hosts = "of 4 among 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4"
    assert first.up(1) == {f"rank 0 {hosts}"}
    assert second.up(1) == {f"rank 1 {hosts}"}
    assert third.up() == {f"rank 2 {hosts}"}
    assert fourth.up() == {f"rank 3 {hosts}"}
    assert [story.worlds for story in cluster.stop()] == [[2, 4], [2, 4], [4], [4]]


def test_a_server_with_other_ranks_writes_their_logs(cluster):
    cluster.form = template_1
    first, second = job = members(2, cards=2)
    pods = started(cluster, job)
    cluster.write_table([second, first])
    assert pods[0].up(1) == {f"rank {rank} of 4 among 10.0.0.2 10.0.0.1" for rank in (2, 3)}
    pods[1].up(1)
    cluster.stop()
    for generation, ranks in enumerate([(0, 1), (2, 3)]):
        for device, rank in enumerate(ranks):
            (started_event,) = pods[0].job.all(
                "process.started", generation=generation, rank=rank, local_rank=device
            )
            log = pods[0].job.log(rank, device)
            assert started_event["log"] == str(log)
            assert f"rank {rank} of 4 among" in log.read_text()


def test_a_server_gets_more_npus(cluster):
    pods = started(cluster, members(2))
    cluster.write_table([Member(0, 1, cards=1), Member(1, 2, cards=4)])
    assert len(pods[0].up(1)) == 1
    assert len(pods[1].up(1)) == 4
    assert [story.worlds for story in cluster.stop()] == [[2, 5]] * 2


def test_a_rank_of_the_reset_file_is_judged_by_the_table_of_the_generation(cluster):
    cluster.form = template_1
    first, second = job = members(2)
    here, there = started(cluster, job)
    cluster.write_table([second, first])
    here.up(1)
    there.up(1)
    cluster.write_reset(reset_file([{"RankId": 0, "Status": "fault"}]))
    there.ends_with(69)
    cluster.move(10)
    assert here.job.process.poll() is None
