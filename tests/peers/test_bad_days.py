"""What becomes of a job of several servers that agree through etcd, on bad days."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from ascend_supervisor.processes.pid import Pid
from tests.peers.servers import FENCE, PATIENT, TTL, boot_time
from tests.running import wait_until


def test_a_rank_that_is_killed_restarts_the_ranks_of_all_servers_once(job):
    job.start_all()
    job.signal_rank(1, signal.SIGKILL)
    job.all_up(1)
    for server in job.servers:
        (restart,) = server.all("restart.scheduled")
        assert restart["cause"].startswith("server 1: rank 1 was killed by SIGKILL")
        assert restart["restarts_left"] == 2
        assert restart["root_cause"].startswith(
            "rank 1 failed first, in generation 0: it was killed"
        )
        assert "  rank 1 runs" in restart["root_cause"]
    job.succeed(1)
    for server in job.servers:
        assert not server.survivors()


def test_two_ranks_that_die_together_cost_one_restart(job):
    job.start_all()
    job.signal_rank(0, signal.SIGKILL)
    job.signal_rank(2, signal.SIGKILL)
    job.all_up(1)
    lefts = [server.all("restart.scheduled")[-1]["restarts_left"] for server in job.servers]
    assert lefts == [2, 2, 2]
    job.succeed(1)


def test_a_budget_that_is_used_up_ends_every_server_with_the_same_cause(job):
    servers = job.start_all("--restarts", "0")
    job.signal_rank(2, signal.SIGUSR1)
    assert [server.end() for server in servers] == [7, 7, 7]
    causes = {server.events[-1]["root_cause"] for server in servers}
    (cause,) = causes
    assert cause.startswith("rank 2 failed first, in generation 0: it exited with status 7")


def test_a_supervisor_that_is_killed_and_started_again_takes_its_place(job):
    job.start_all()
    job.servers[1].process.kill()
    waiting = job.servers[0].wait_for("peers.waiting", lost=[1])
    at = waiting["missing"].index(1)
    assert f"1 ({waiting['hosts'][at]})" in waiting["msg"]
    assert waiting["hosts"][at].startswith("pod job-test-0")
    job.servers[1] = job.start(1)
    job.all_up(1)
    (restart,) = job.servers[0].all("restart.scheduled")
    assert restart["cause"].startswith("server 1 was lost (")
    job.succeed(1)


def test_a_supervisor_that_is_killed_and_never_comes_back_ends_the_job(job):
    servers = job.start_all(timeout=20)
    servers[1].process.kill()
    assert [servers[index].end() for index in (0, 2)] == [69, 69]
    assert "server 1 was lost" in servers[0].events[-1]["reason"]


def test_a_supervisor_that_is_frozen_loses_its_ranks_at_the_fence(job):
    servers = job.start_all()
    rank = Pid.of(servers[1].wait_for("process.started", rank=1)["child_pid"])
    assert rank is not None
    servers[1].process.send_signal(signal.SIGSTOP)
    frozen_at = boot_time()
    servers[0].wait_for("generation.ended")
    wait_until(lambda: not rank.lives)
    assert boot_time() - frozen_at < FENCE + 15
    servers[1].process.send_signal(signal.SIGCONT)
    assert servers[1].end() == 69
    cause = servers[1].events[-1]["root_cause"]
    assert cause.startswith("server 1: etcd has not confirmed this server for")


def test_a_server_that_is_cut_off_for_ever_kills_its_ranks_and_ends(job):
    servers = job.start_all()
    job.cables[2].cut()
    assert servers[2].end() == 69
    assert "etcd has not confirmed this server" in servers[2].events[-1]["reason"]
    job.cables[2].mend()
    job.servers[2] = job.start(2)
    job.all_up(1)
    job.succeed(1)


def test_an_etcd_that_is_frozen_for_longer_than_the_ttl_costs_nothing(job):
    job.start_all(*PATIENT)
    frozen_at = boot_time()
    job.etcd.freeze()
    job.servers[0].wait_for("peers.unreachable")
    wait_until(lambda: boot_time() > frozen_at + 2 * TTL)
    job.etcd.thaw()
    job.servers[0].wait_for("peers.reachable")
    job.succeed(0)


def test_a_server_that_is_cut_off_for_a_while_restarts_with_the_others(job):
    """For longer than the TTL, and for less than the fence."""
    servers = job.start_all(*PATIENT)
    job.cables[2].cut()
    servers[0].wait_for("generation.ended")
    job.cables[2].mend()
    job.all_up(1)
    (restart,) = servers[2].all("restart.scheduled")
    assert restart["cause"].startswith("server 2 was lost (")
    assert not restart["free"]
    job.succeed(1)


def test_a_supervisor_that_is_frozen_for_a_while_restarts_with_the_others(job):
    servers = job.start_all(*PATIENT)
    servers[1].process.send_signal(signal.SIGSTOP)
    servers[0].wait_for("generation.ended")
    servers[1].process.send_signal(signal.SIGCONT)
    job.all_up(1)
    job.succeed(1)


def test_a_table_that_a_new_pod_has_changed_is_read_again(job):
    servers = job.start_all()
    servers[1].process.kill()
    servers[0].wait_for("peers.waiting")
    servers[2].wait_for("peers.waiting")
    job.table.write_text(job.table.read_text().replace("10.0.0.2", "10.0.0.7"))
    job.servers[1] = job.start(1, place="-elsewhere")
    job.all_up(1)
    job.succeed(1)


def test_an_operator_restarts_the_ranks_of_all_servers_from_one_of_them(job):
    servers = job.start_all("--restarts", "0")
    (state_file,) = (servers[2].root / "modelarts").rglob("*-supervisor-*.json")
    words = ("-m", "ascend_supervisor.ctl", "restart", "--state-file", str(state_file))
    subprocess.run((sys.executable, *words), check=True, timeout=30)
    job.all_up(1)
    assert [server.all("restart.scheduled")[0]["free"] for server in servers] == [True] * 3
    job.succeed(1)


def test_a_job_that_has_succeeded_is_not_to_be_retried(job):
    job.start_all("--retryable-exit-code", "100")
    job.succeed(0)


def test_an_end_is_blamed_on_no_failure_that_was_recovered_from(job):
    servers = job.start_all()
    job.signal_rank(0, signal.SIGKILL)
    job.all_up(1)
    job.cables[2].cut()
    assert servers[2].end() == 69
    assert "rank 0" not in servers[2].events[-1]["root_cause"]
    assert "etcd" in servers[2].events[-1]["reason"]


def test_records_that_nobody_can_put_again_end_the_servers_with_their_key(job):
    job.etcd.control("put", "/ascend-supervisor/test/epoch", "no record")
    servers = [job.start(index) for index in range(3)]
    assert [server.end() for server in servers] == [69, 69, 69]
    assert "epoch: expected a record of this job" in servers[0].events[-1]["reason"]
    assert len(servers[0].all("peers.unreachable")) == 1


def test_a_rank_that_dies_while_etcd_is_frozen_restarts_all_when_it_is_back(job):
    servers = job.start_all(*PATIENT)
    job.etcd.freeze()
    job.signal_rank(1, signal.SIGKILL)
    servers[1].wait_for("process.exited", first_failure=True)
    servers[1].wait_for("peers.unreachable")
    job.etcd.thaw()
    job.all_up(1)
    job.succeed(1)


def test_an_etcd_that_loses_its_data_costs_nothing(job):
    job.start_all(*PATIENT)
    job.etcd.wipe()
    job.signal_rank(0, signal.SIGKILL)
    job.all_up(1)
    job.succeed(1)


def test_an_etcd_restored_from_a_backup_that_holds_an_ended_job_of_this_name_costs_nothing(job):
    job.start_all()
    job.signal_rank(1, signal.SIGUSR1)
    job.all_up(1)
    job.succeed(1)
    job.etcd.keep_backup()
    job.start_all(*PATIENT)
    job.etcd.restore()
    epoch = ("get", "/ascend-supervisor/test/epoch")
    wait_until(lambda: '"phase":"run"' in job.etcd.control(*epoch))
    job.signal_rank(0, signal.SIGKILL)
    job.all_up(1)
    job.succeed(1)


def test_another_job_of_the_same_name_is_refused_and_one_that_runs_goes_on(job):
    job.start_all()
    other = job.start(1, place="-other", command=(sys.executable, "-c", "print('other')"))
    assert other.end() == 64
    told = other.events[-1]["reason"]
    assert "this server was started with command=python" in told
    assert "give another job another name (--peers-job)" in told
    ports = job.start(2, "--master-port", "2222", place="-port")
    assert ports.end() == 64
    assert "master_port=2222, and the job with master_port=None" in ports.events[-1]["reason"]
    job.succeed(0)


def test_a_pod_that_is_replaced_from_elsewhere(job):
    job.start_all()
    job.servers[1].process.kill()
    job.servers[1] = job.start(1, place="-elsewhere")
    job.all_up(1)
    job.succeed(1)


def test_sigterm_to_all_ends_all_with_143(job):
    servers = job.start_all()
    for server in servers:
        server.send(signal.SIGTERM)
    assert [server.end() for server in servers] == [143, 143, 143]


def test_servers_that_are_told_to_stop_while_etcd_is_frozen_do_not_wait_for_it(job):
    servers = job.start_all(*PATIENT)
    job.etcd.freeze()
    told_at = boot_time()
    for server in servers:
        server.send(signal.SIGTERM)
    assert [server.end() for server in servers] == [143, 143, 143]
    assert boot_time() - told_at < 30  # not until the fence, which is 60 s away


def test_the_same_job_again_at_once_is_a_new_one(job):
    job.start_all()
    job.succeed(0)
    job.start_all()
    job.succeed(0)


def test_who_waits_for_the_end_of_ranks_is_idle(job):
    """The ranks of server 0 ignore SIGTERM; meanwhile records change, and wake all servers."""
    servers = job.start_all("--grace", "6", "--restarts", "0")
    job.make_deaf(0)
    job.signal_rank(2, signal.SIGUSR1)
    servers[2].wait_for("generation.ended")
    before = cpu_seconds(servers[0].pid)
    began = boot_time()
    assert servers[0].wait_for("generation.ended")
    assert boot_time() - began > TTL  # else this says nothing
    assert cpu_seconds(servers[0].pid) - before < (boot_time() - began) / 2


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
