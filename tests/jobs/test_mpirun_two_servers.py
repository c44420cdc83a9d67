"""mpirun across two servers: real sshds, real ssh, in two network namespaces."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from ascend_supervisor.launchers.choice import PROGRAMS
from ascend_supervisor.programs import mpirun_head
from tests.faults.facilities import program
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
def account(tmp_path: Path) -> dict[str, str]:
    """The variables of a user who may log in: with keys, and an ssh that uses them."""
    for name, package in (
        *(("mpirun", "openmpi-bin"), ("ssh", "openssh-client"), ("ssh-keygen", "openssh-client")),
        ("/usr/sbin/sshd", "openssh-server"),
    ):
        program(name, package)
    if os.geteuid():
        pytest.skip("sshd needs root")
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
    return {"PATH": f"{keys}:{os.environ['PATH']}", "HOME": str(tmp_path)}


@pytest.fixture
def cluster(
    supervised: Callable[..., Running], tmp_path: Path, account: dict[str, str]
) -> Iterator[Cluster]:
    """``start(script, *options)`` starts a supervisor with two ranks on each of both servers."""
    script = tmp_path / "rank.py"
    run = (sys.executable, str(script))
    with two_servers() as servers:

        def start(
            source: str,
            *options: str,
            command: Sequence[str] = run,
            root: Path = tmp_path,
            port: str = "36666",
        ) -> list[Running]:
            script.write_text(RANK + source)
            return on_each(
                servers,
                supervised,
                root,
                *("--method", "mpirun", "--work-dir", str(root / "work"), *options),
                *("--", *command),
                deadline=60.0,
                environ={
                    **account,
                    "MA_NUM_GPUS": "2",
                    "MA_TOLD": TOLD,
                    "MY_SSHD_PORT": port,
                    "MA_VJ_NAME": f"ma-job-{os.getpid()}",  # it names files in our home
                },
            )

        yield Cluster(servers, start)


def lines(job: Running) -> set[str]:
    return {event["msg"] for event in job.all("output")}


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


def not_for_us(tmp_path: Path) -> str:
    """A directory with files where sshd and Python have a library, and mpirun and ranks none."""
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("libcap-ng.so.0", str(sysconfig.get_config_var("INSTSONAME"))):
        (libraries / name).write_text("no library")
    return str(libraries)


def test_libraries_that_the_user_names_are_those_of_mpirun_and_its_ranks(cluster, tmp_path):
    """Our own programs around it, and sshd, keep ours: they could not start with these."""
    libraries = not_for_us(tmp_path)
    shows = ("sh", "-c", 'echo "rank $OMPI_COMM_WORLD_RANK: ${LD_LIBRARY_PATH##*/usr/lib:}"')
    head, other = cluster.start("", "--rank-env", f"LD_LIBRARY_PATH={libraries}", command=shows)
    assert [head.end(), other.end()] == [0, 0]
    assert lines(head) >= {f"rank {rank}: {libraries}" for rank in range(4)}


def test_a_failure_is_that_of_the_rank_and_the_exit_code_of_both(cluster):
    head, other = cluster.start("if rank == 3: sys.exit(9)\ntime.sleep(600)\n")
    assert [head.end(), other.end()] == [9, 9]
    names_it = any("Exit code:" in line for line in lines(head))  # Open MPI 4.1.4 may not
    culprit = "rank 3" if names_it else "mpirun"
    assert head.events[-1]["root_cause"].startswith(f"{culprit} failed first")
    assert not head.survivors() + other.survivors()


def test_told_to_stop_nothing_is_left_on_either(cluster):
    head, other = cluster.start("time.sleep(600)\n")
    for rank in range(4):
        head.wait_for("output", msg=f"rank {rank} of 4 on {cluster.servers[rank // 2].address}")
    for job in (other, head):
        job.send(signal.SIGTERM)
    assert [head.end(), other.end()] == [143, 143]
    wait_until(lambda: not head.survivors() + other.survivors())


def test_where_node_0_has_vanished_the_other_does_not_end_well(cluster):
    head, other = cluster.start("time.sleep(600)\n")
    head.wait_for("output", msg=f"rank 3 of 4 on {cluster.servers[1].address}")
    other.wait_for("output", msg=f"ascend_supervisor: {cluster.servers[0].address} has begun")
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
    head.wait_for("output", msg=f"rank 3 of 4 on {cluster.servers[1].address}")
    cluster.servers[1].kill_all()
    assert head.end() not in {0, 143}
    lost = f"{cluster.servers[1].address} was lost: its sshd does not answer any more"
    assert lost in head.events[-1]["root_cause"].splitlines()[0]
    wait_until(lambda: not head.survivors() + other.survivors())


def test_a_second_job_at_the_same_port_is_told_which_one_and_how_to_get_another(
    supervised, account, tmp_path
):
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as taken:
        port = str(taken.getsockname()[1])
        environ = {"MA_NUM_HOSTS": "2", "VC_WORKER_HOSTS": "127.0.0.1,127.0.0.2"}
        job = supervised(
            *("--method", "mpirun", "--work-dir", str(tmp_path / "work"), "--", "true"),
            environ={**account, **environ, "VC_TASK_INDEX": "0", "MY_SSHD_PORT": port},
        )
        assert job.end() == 255
    reason = job.events[-1]["reason"]
    assert reason.startswith("sshd failed first")
    assert f"port {port} is in use by another process, " in reason
    assert "give this job another port with MY_SSHD_PORT, the same on all its servers" in reason


def test_libraries_that_a_file_names_are_not_those_of_what_starts_mpirun(supervised, tmp_path):
    program("mpirun", "openmpi-bin")
    libraries = not_for_us(tmp_path)
    (tmp_path / "set_env.sh").write_text(f"export LD_LIBRARY_PATH={libraries}:$LD_LIBRARY_PATH\n")
    words = ("--standalone", "2", "--method", "mpirun", "--env-from", "set_env.sh")
    shows = ("sh", "-c", 'echo "${LD_LIBRARY_PATH##*/usr/lib:}"')  # mpirun has put its own first
    job = supervised(*words, "--", *shows, environ={"LD_LIBRARY_PATH": "/ours"})
    assert job.end() == 0
    assert lines(job) >= {f"{libraries}:/ours"}


def test_two_jobs_of_one_server_share_a_machine_and_a_name(supervised, account, tmp_path):
    """They need no sshd, so no port, and leave nothing for other servers to fetch."""
    name = f"ma-job-{os.getpid()}-alone"
    environ = {**account, "MA_NUM_HOSTS": "1", "MA_NUM_GPUS": "2", "MA_VJ_NAME": name}
    gate = tmp_path / "gate"
    wait = f"echo up; while [ ! -e {gate} ]; do sleep 0.1; done"
    jobs = []
    for number in range(2):
        root = tmp_path / f"job-{number}"
        root.mkdir()
        words = ("--method", "mpirun", "--work-dir", str(root / "work"), "--", "sh", "-c", wait)
        jobs.append(supervised(*words, root=root, environ=environ))
    for job in jobs:
        job.wait_for("output", msg="up")
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert not list(home.glob(f".ascend_supervisor/*{os.getpid()}-alone*"))
    gate.touch()
    assert [job.end() for job in jobs] == [0, 0]


def test_two_jobs_of_two_servers_share_a_home_and_a_name(cluster, tmp_path):
    """The end of the second is not that of the first, on any server."""
    gate = tmp_path / "gate"
    waits = ("sh", "-c", f"echo up; while [ ! -e {gate} ]; do sleep 0.1; done; exit 3")
    first = cluster.start("", command=waits)
    first[0].wait_for("output", msg="up")
    first[1].wait_for("output", msg=f"ascend_supervisor: {cluster.servers[0].address} has begun")
    second = cluster.start(
        "", command=("sh", "-c", "exit 9"), root=tmp_path / "second", port="36667"
    )
    assert [job.end() for job in second] == [9, 9]
    gate.touch()
    assert [job.end() for job in first] == [3, 3]


def test_a_name_with_a_pattern_in_it_is_no_pattern(tmp_path):
    code_file, fetched = (tmp_path / f"job-[1].exit_code{end}" for end in ("", ".fetched.w-1.7"))
    fetched.touch()
    mpirun_head.leave(code_file, 0, others=1, seconds=0.0)
    assert not list(tmp_path.iterdir())


@dataclass(frozen=True)
class Waiting:
    """A node's wait for an mpirun that never begins, over a real ssh to this machine."""

    sshd: subprocess.Popen[bytes]
    node: subprocess.Popen[bytes]
    job: str

    @property
    def shells(self) -> list[int]:
        """What the node has started on node 0."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                first, *words = path.read_bytes().split(b"\0")
                if first == b"sh" and self.job in b" ".join(words).decode(errors="replace"):
                    found.append(int(path.parent.name))
        return found


@pytest.fixture
def waiting(account: dict[str, str], tmp_path: Path) -> Iterator[Waiting]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    usual = (tmp_path / "etc" / "ssh" / "sshd_config").read_text()
    config = tmp_path / "sshd_config"
    config.write_text(usual.replace("{{MY_SSHD_PORT}}", port))
    job = f"job-{os.getpid()}-{port}"
    program = str(PROGRAMS / "mpirun_node.py")
    words = (sys.executable, program, "--port", port, "--wait", "60", "--job", job)
    environ = os.environ | account
    with (
        subprocess.Popen(("/usr/sbin/sshd", "-D", "-f", str(config), "-p", port)) as sshd,
        subprocess.Popen((*words, "127.0.0.1"), env=environ, start_new_session=True) as node,
    ):
        wait = Waiting(sshd, node, job)
        yield wait
        for process in (sshd, node):
            process.kill()
        for pid in wait.shells:
            os.kill(pid, signal.SIGKILL)


def test_the_shell_that_waits_on_node_0_ends_with_its_ssh(waiting):
    wait_until(lambda: waiting.shells)
    os.killpg(waiting.node.pid, signal.SIGKILL)  # and ssh
    wait_until(lambda: not waiting.shells)
