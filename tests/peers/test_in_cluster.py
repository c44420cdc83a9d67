"""--peers with --follow-cluster: the cluster says who is where, the servers agree when."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.etcd.servers import EtcdServer
from tests.peers.followed import FollowedJob
from tests.recovery.supervisors import NEW_SECONDS
from tests.recovery.writers import listed, reset_file
from tests.running import Running


@pytest.fixture
def job(
    tmp_path: Path, etcd: EtcdServer, supervised: Callable[..., Running]
) -> Iterator[FollowedJob]:
    made = FollowedJob(tmp_path, 3, etcd, supervised)
    yield made
    made.close()


def test_an_incident_that_servers_see_at_different_moments_is_one_free_restart(job):
    servers = job.start_all()
    job.move(NEW_SECONDS)
    job.write_table(0, 1, 2, on=[0])
    job.write_reset(reset_file(retry_time=1), on=[0])
    job.all_up(1)
    assert [job.restarts(index) for index in range(3)] == [[(True, 3)]] * 3
    for server in servers:
        (restart,) = server.all("restart.scheduled")
        assert "RetryTime in the reset file went from 0 to 1" in restart["cause"]
    for late in (1, 2):  # the others see all of it in the next generation, each a while later
        job.move(10)
        job.write_table(0, 1, 2, on=[late])
        job.write_reset(reset_file(retry_time=1), on=[late])
        job.looks()
    job.move(NEW_SECONDS)
    assert [len(server.all("cluster.incident")) for server in servers] == [1, 0, 0]
    # Pod 2 is replaced, by one at another address.
    servers[2].send(signal.SIGTERM)
    assert servers[2].end() == 143
    for index in (0, 1):
        servers[index].wait_for("generation.ended", generation=1)
    job.withdraw_table()
    for index in (0, 1):
        servers[index].wait_for("cluster.waiting")
    job.write_reset(reset_file(retry_time=2))
    job.addresses[2] = "10.0.0.9"
    job.write_table(0, 1, 2)
    job.servers[2] = job.start(2, place="-elsewhere")
    job.all_up(2)
    assert [job.restarts(index) for index in (0, 1)] == [[(True, 3)] * 2] * 2
    for server in job.servers:
        ready = server.all("rank_table.ready")[-1]
        assert ready["sha256"] == job.servers[0].all("rank_table.ready")[-1]["sha256"]
    job.succeed(2)


def test_a_pod_that_is_deleted_and_comes_back_at_once_costs_one_restart(job):
    """The cluster tells of it when all run again, and not to all at the same time."""
    servers = job.start_all()
    job.move(NEW_SECONDS)
    servers[2].send(signal.SIGTERM)
    assert servers[2].end() == 143
    job.servers[2] = job.start(2, place="-again")
    job.all_up(1)
    job.withdraw_table(on=[0])
    job.looks()
    job.write_reset(reset_file(retry_time=1), on=[0])
    job.looks()
    job.write_table(0, 1, 2, on=[0])
    job.looks()
    for late in (1, 2):
        job.move(NEW_SECONDS)
        job.write_reset(reset_file(retry_time=1), on=[late])
        job.withdraw_table(on=[late])
        job.looks()
        job.write_table(0, 1, 2, on=[late])
        job.looks()
    assert [job.restarts(index) for index in range(3)] == [[(True, 3)], [(True, 3)], []]
    for server in job.servers:
        assert not server.all("cluster.incident")
    job.succeed(1)


def test_no_generation_starts_while_the_files_of_a_server_that_was_ready_forbid_it(job):
    servers = job.start_all("--grace", "600")
    job.move(NEW_SECONDS)
    job.make_deaf(2)
    job.signal_rank(1, signal.SIGUSR1)  # server 2 ends its rank, the others are ready
    servers[0].wait_for("peers.waiting", missing=[2])
    job.write_reset(reset_file(listed(r0="unrecovered")), on=[0])
    job.looks()
    servers[1].wait_for("peers.waiting", missing=[0, 2])
    job.signal_rank(2, signal.SIGKILL)
    servers[1].wait_for("peers.waiting", missing=[0])
    job.write_reset(reset_file(listed(r0="recovered")), on=[0])
    job.all_up(1)
    for index, server in enumerate(servers):
        assert [started["generation"] for started in server.all("generation.started")] == [0, 1]
        assert len(job.restarts(index)) == 1
    job.succeed(1)


def test_a_failure_is_charged_where_the_cluster_is_silent_and_free_where_it_speaks(job):
    servers = job.start_all()
    job.signal_rank(1, signal.SIGKILL)
    job.all_up(1)
    for index, server in enumerate(servers):
        assert "it is charged" in server.wait_for("cluster.waiting")["reason"]
        assert job.restarts(index) == [(False, 2)]
    job.move(NEW_SECONDS)
    job.signal_rank(1, signal.SIGKILL, 1)
    job.write_table(0, 1, 2, on=[0])
    job.write_reset(reset_file(retry_time=1), on=[0])
    job.all_up(2)
    for index in range(3):
        assert job.restarts(index) == [(False, 2), (True, 2)]
    job.succeed(2)


def test_without_a_restart_left_the_word_of_the_cluster_decides(job):
    servers = job.start_all("--restarts", "0")
    job.move(NEW_SECONDS)
    job.signal_rank(0, signal.SIGUSR1)
    job.write_table(0, 1, 2, on=[2])
    job.write_reset(reset_file(retry_time=1), on=[2])
    job.all_up(1)
    job.signal_rank(0, signal.SIGUSR1, 1)
    assert [server.end() for server in servers] == [7, 7, 7]
    (cause,) = {server.events[-1]["root_cause"] for server in servers}
    assert cause.startswith("rank 0 failed first, in generation 1: it exited with status 7")


def test_a_server_with_a_faulty_npu_ends_and_the_others_wait_for_another_one(job):
    servers = job.start_all()
    job.write_reset(reset_file(listed(r1="fault")))
    assert servers[1].end() == 69
    assert "the NPU of rank 1 has a fault" in servers[1].events[-1]["reason"]
    for index in (0, 2):
        servers[index].wait_for("peers.waiting", missing=[1])
    job.write_reset(reset_file(retry_time=1))
    job.addresses[1] = "10.0.0.9"
    job.write_table(0, 1, 2)
    job.servers[1] = job.start(1, place="-elsewhere")
    job.all_up(1)
    assert [job.restarts(index) for index in (0, 2)] == [[(True, 3)]] * 2
    job.succeed(1)


def test_a_job_shrinks_and_grows_with_its_rank_table(job):
    """Server 1 is left out, so that server 2 becomes server 1; then all change their places."""
    servers = job.start_all()
    job.write_table(0, 2, on=[1, 2])
    assert servers[1].end() == 65
    job.write_table(0, 2, on=[0])
    for server, rank in ((servers[0], 0), (servers[2], 1)):
        server.wait_for("output", generation=1, msg=f"rank {rank} runs")
        assert server.all("rank_table.ready")[-1]["servers"] == 2
    job.write_table(1, 2, 0)
    job.servers[1] = job.start(1, place="-elsewhere")
    for index, rank in enumerate((2, 0, 1)):
        job.servers[index].wait_for("output", generation=2, msg=f"rank {rank} runs")
    assert [job.restarts(index) for index in (0, 2)] == [[(True, 3)] * 2] * 2
    for server in job.servers:
        server.send(signal.SIGTERM)
    assert [server.end() for server in job.servers] == [143] * 3
