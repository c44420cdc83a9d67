"""--peers first: the first server of a job starts its etcd, keeps it, and ends it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_supervisor.processes.descriptors import open_files
from tests.etcd.servers import PROGRAM
from tests.peers.own_etcd import OwnEtcdJob
from tests.peers.servers import PATIENT
from tests.running import Running, wait_until


@pytest.fixture
def job(tmp_path: Path, supervised: Callable[..., Running]) -> OwnEtcdJob:
    if PROGRAM is None:
        pytest.skip("etcd is not installed here (Debian: etcd-server)")
    return OwnEtcdJob(tmp_path, 2, supervised)


def test_a_job_brings_its_own_etcd_and_leaves_nothing_of_it(job):
    late = job.start(1)
    waiting = late.wait_for("etcd.waiting")
    assert "until the first server has started the job's etcd: no etcd" in waiting["what"]
    servers = job.servers = [job.start(0), late]
    job.all_up(0)
    assert late.all("peers.unreachable") == []
    etcd = job.etcd()
    (data,) = job.data()
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert listens_at(etcd.number) == {(job.host, job.port)}
    environ = Path(f"/proc/{etcd.number}/environ").read_bytes().split(b"\0")
    assert all(entry.startswith(b"ETCD_") for entry in environ if entry)
    shared = set(open_files(etcd.number)) & set(servers[0].open_files)
    (output,) = (name for name in shared if name.startswith(("pipe:", "socket:")))
    assert output.startswith("pipe:")
    job.rank(1).send(signal.SIGKILL)
    job.all_up(1)
    assert etcd.lives
    job.succeed(1)
    assert not etcd.lives
    assert not job.data()
    assert not job.data(1)
    assert [server.survivors() for server in servers] == [[], []]
    assert is_free(job)


def test_an_etcd_that_is_killed_is_started_again_on_its_data_and_costs_nothing(job):
    servers = job.start_all(*PATIENT)
    job.etcd().send(signal.SIGKILL)
    (ended,) = [servers[0].wait_for("etcd.ended")]
    assert ended["msg"].startswith("the etcd of the job was killed by SIGKILL; it is started again")
    again = job.etcd(1)
    servers[1].wait_for("peers.reachable")
    job.succeed(0)
    assert servers[1].all("restart.scheduled") == []
    assert not again.lives


def test_a_first_server_that_is_killed_leaves_no_etcd_and_the_others_end_and_name_it(job):
    servers = job.start_all()
    etcd = job.etcd()
    servers[0].process.kill()
    wait_until(lambda: not etcd.lives)
    assert servers[1].end() == 69
    reason = servers[1].events[-1]["reason"]
    assert "the etcd of the first server, server 0" in reason
    assert "connection refused" in reason


def test_a_first_server_that_comes_back_before_the_fence_goes_on_with_the_job(job):
    """Its etcd is empty: what the others know is put back.

    Nor does it know that it is the server that was lost, so it waits for the fence of that one.
    """
    fence = ("--peers-fence", "25")
    job.start_all(*fence)
    (data,) = job.data()
    (data / "of the job before").touch()
    job.servers[0].process.kill()
    job.servers[0] = job.start(0, *fence)
    job.all_up(1)
    assert not (data / "of the job before").exists()
    job.succeed(1)


def test_a_first_server_that_is_told_to_stop_ends_the_job(job):
    servers = job.start_all()
    etcd = job.etcd()
    servers[0].send(signal.SIGTERM)
    assert [server.end() for server in servers] == [143, 143]
    assert "server 0 was told to stop" in servers[1].events[-1]["root_cause"]
    assert not etcd.lives
    assert not job.data()


def test_sigterm_to_all_ends_all_with_143(job):
    servers = job.start_all()
    for server in servers:
        server.send(signal.SIGTERM)
    assert [server.end() for server in servers] == [143, 143]
    assert not job.data()
    assert is_free(job)


def test_without_setpriv_the_guardian_ends_the_etcd(tmp_path, supervised):
    path = tmp_path / "bin"
    path.mkdir()
    for program in (PROGRAM, shutil.which("setsid")):
        assert program is not None
        (path / Path(program).name).symlink_to(program)
    job = OwnEtcdJob(tmp_path, 1, supervised)
    job.servers = [job.start(0, environ={"PATH": str(path)})]
    etcd = job.etcd()
    job.servers[0].process.kill()
    wait_until(lambda: not etcd.lives)


def test_an_etcd_that_does_not_start_is_told_with_its_last_words(tmp_path, supervised):
    path = tmp_path / "bin"
    path.mkdir()
    (path / "etcd").write_text("#!/bin/sh\necho flag provided but not defined: -name\nexit 2\n")
    (path / "etcd").chmod(0o755)
    job = OwnEtcdJob(tmp_path, 1, supervised)
    first = job.start(0, environ={"PATH": str(path)})
    assert first.end() == 69
    assert (
        "--peers first: etcd exited with status 2: flag provided but not defined: -name; see its "
        "log, "
    ) in first.stderr
    assert not job.data()
    (log,) = first.log_dir.glob("*-etcd-node-0.txt")
    assert "flag provided" in log.read_text()


def test_a_port_that_is_taken_is_refused_with_its_holder(job):
    with socket.socket() as taken:
        taken.bind((job.host, job.port))
        taken.listen()
        first = job.start(0)
        assert first.end() == 69
    (sentence,) = first.stderr.splitlines()
    assert f"--peers-port {job.port}: the port is taken at {job.host}" in sentence
    assert f"process {os.getpid()} (state" in sentence
    assert not job.data()


def test_without_an_etcd_on_the_path_the_first_server_says_how_to_get_it(job, tmp_path):
    path = tmp_path / "bin"
    path.mkdir()
    first = job.start(0, environ={"PATH": str(path)})
    assert first.end() == 64
    assert "etcd was not found in PATH" in first.stderr
    assert "apt-get install etcd-server" in first.stderr


def test_the_etcd_stays_until_a_slow_server_has_read_the_end(job):
    servers = job.start_all(*PATIENT)
    etcd = job.etcd()
    job.rank(1).send(signal.SIGUSR2)
    wait_until(lambda: job.has_key("done/0/1"))
    servers[1].process.send_signal(signal.SIGSTOP)
    job.rank(0).send(signal.SIGUSR2)
    waiting = servers[0].wait_for("etcd.waiting")
    assert waiting["what"].startswith("the etcd of the job stays until server 1 has read the end")
    assert etcd.lives
    servers[1].process.send_signal(signal.SIGCONT)
    assert [server.end() for server in servers] == [0, 0]
    assert not etcd.lives


def listens_at(pid: int) -> set[tuple[str, int]]:
    """The TCP addresses at which a process listens."""
    sockets = {name[8:-1] for name in open_files(pid) if name.startswith("socket:[")}
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                host, port = fields[1].split(":")
                address = socket.inet_ntoa(bytes.fromhex(host)[::-1]) if name == "tcp" else host
                found.add((address, int(port, 16)))
    return found


def is_free(job: OwnEtcdJob) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((job.host, job.port))
    return True
