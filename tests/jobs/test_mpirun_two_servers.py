"""mpirun across two servers: real sshds, real ssh, in two network namespaces."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.running import Running, wait_until
from tests.two_servers import Server, on_each, two_servers

SSHD_CONFIG = """\
Port {{{{MY_SSHD_PORT}}}}
HostKey {keys}/host_key
AuthorizedKeysFile {keys}/id.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
"""
SSH_CONFIG = """\
IdentityFile {keys}/id
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""
SSH = """\
#!/bin/sh
exec {ssh} -F {keys}/ssh_config "$@"
"""
RANK = """\
import os, subprocess, sys, time
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
here = subprocess.run(["hostname", "-I"], stdout=subprocess.PIPE, text=True).stdout.strip()
line = f"rank {rank} of {os.environ['OMPI_COMM_WORLD_SIZE']} on {here}\\n"
os.write(1, line.encode())  # at once: all ranks share a pipe
os.write(1, f"told {os.environ['MA_TOLD']!r}\\n".encode())
"""
TOLD = "words; with = and\ttabs ="


@dataclass(frozen=True)
class Cluster:
    servers: tuple[Server, Server]
    start: Callable[..., list[Running]]


@pytest.fixture
def cluster(supervised: Callable[..., Running], tmp_path: Path) -> Iterator[Cluster]:
    """``start(script, *options)`` starts a supervisor with two ranks on each of both servers."""
    for name, package in (
        *(("mpirun", "openmpi-bin"), ("ssh", "openssh-client"), ("ssh-keygen", "openssh-client")),
        ("/usr/sbin/sshd", "openssh-server"),
    ):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is missing (Debian's package {package})")
    if os.geteuid():
        pytest.skip("network namespaces need root")
    Path("/run/sshd").mkdir(exist_ok=True)
    keys = tmp_path / "keys"
    keys.mkdir()
    for key in ("host_key", "id"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / key)]
        subprocess.run(words, check=True, timeout=30)
    (keys / "ssh_config").write_text(SSH_CONFIG.format(keys=keys))
    (keys / "ssh").write_text(SSH.format(keys=keys, ssh=shutil.which("ssh")))
    (keys / "ssh").chmod(0o755)
    etc = tmp_path / "etc" / "ssh"
    etc.mkdir(parents=True)
    (etc / "sshd_config").write_text(SSHD_CONFIG.format(keys=keys))
    script = tmp_path / "rank.py"
    with two_servers() as servers:

        def start(source: str, *options: str) -> list[Running]:
            script.write_text(RANK + source)
            return on_each(
                servers,
                supervised,
                tmp_path,
                *("--method", "mpirun", "--work-dir", str(tmp_path / "work"), *options),
                *("--", sys.executable, str(script)),
                deadline=60.0,
                environ={
                    "PATH": f"{keys}:{os.environ['PATH']}",
                    "HOME": str(tmp_path),
                    "MA_NUM_GPUS": "2",
                    "MA_TOLD": TOLD,
                    "MA_VJ_NAME": f"ma-job-{os.getpid()}",  # it names files in our home
                },
            )

        yield Cluster(servers, start)


def lines(job: Running) -> set[str]:
    return {event["message"] for event in job.all("output")}


def test_a_job_that_ends_well_ends_well_on_both(cluster):
    head, other = cluster.start("")
    assert [head.end(), other.end()] == [0, 0]
    first, second = cluster.servers
    assert lines(head) >= {
        *(f"rank {rank} of 4 on {first.address}" for rank in (0, 1)),
        *(f"rank {rank} of 4 on {second.address}" for rank in (2, 3)),
        f"told {TOLD!r}",
    }
    assert not head.survivors() + other.survivors()


def test_a_failure_is_that_of_the_rank_and_the_exit_code_of_both(cluster):
    head, other = cluster.start("if rank == 3: sys.exit(9)\ntime.sleep(600)\n")
    assert [head.end(), other.end()] == [9, 9]
    assert head.events[-1]["root_cause"].startswith("rank 3 failed first")
    assert not head.survivors() + other.survivors()


def test_told_to_stop_nothing_is_left_on_either(cluster):
    head, other = cluster.start("time.sleep(600)\n")
    for rank in range(4):
        head.wait_for("output", message=f"rank {rank} of 4 on {cluster.servers[rank // 2].address}")
    for job in (other, head):
        job.send(signal.SIGTERM)
    assert [head.end(), other.end()] == [143, 143]
    wait_until(lambda: not head.survivors() + other.survivors())


def test_where_node_0_has_vanished_the_other_does_not_end_well(cluster):
    head, other = cluster.start("time.sleep(600)\n")
    head.wait_for("output", message=f"rank 3 of 4 on {cluster.servers[1].address}")
    other.wait_for("output", message=f"ascend_supervisor: {cluster.servers[0].address} has begun")
    head.send(signal.SIGKILL)
    assert other.end() == 69
    cause = other.events[-1]["root_cause"]
    assert f"the connection to {cluster.servers[0].address}, which runs mpirun, was lost" in cause
    wait_until(lambda: not head.survivors() + other.survivors())


def test_a_server_that_never_answers_is_named(cluster):
    head, other = cluster.start("", "--rank-table-timeout", "3")
    other.send(signal.SIGKILL)
    assert head.end() == 69
    named = f"the sshd of {cluster.servers[1].address}, port 36666, has not answered within 3 s"
    assert named in head.events[-1]["root_cause"]


def test_where_another_server_has_vanished_node_0_does_not_end_well(cluster):
    head, other = cluster.start("time.sleep(600)\n")
    head.wait_for("output", message=f"rank 3 of 4 on {cluster.servers[1].address}")
    cluster.servers[1].kill_all()
    assert head.end() not in {0, 143}
    lost = f"{cluster.servers[1].address} was lost: its sshd does not answer any more"
    assert lost in head.events[-1]["root_cause"].splitlines()[0]
    wait_until(lambda: not head.survivors() + other.survivors())
