"""Limits, shared memory, the termination log and what earlier jobs have left, on a real kernel."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor.doctor.check import ThisServer
from ascend_supervisor.doctor.checks import OF_THE_PLAN, OF_THE_SERVER, ONLY_ASKED, checkup
from ascend_supervisor.doctor.disks import access, old_plogs, termination_file
from ascend_supervisor.doctor.limits import limits
from ascend_supervisor.doctor.npus import OF_THE_DRIVER
from ascend_supervisor.doctor.other_processes import held_devices, left_processes
from ascend_supervisor.doctor.shared_memory import shared_memory
from ascend_supervisor.settings.user_variables import OWNER
from tests.doctor.programs import ask
from tests.doctor.servers import only, server, verdicts
from tests.ports import free_port

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
HOLDS = "import sys; file = open(sys.argv[1]); print('up', flush=True); sys.stdin.read()"


def with_npu(root: Path, **more: Any) -> ThisServer:
    found = server(root, **more)
    (found.roots.dev / "davinci0").touch()
    return found


@pytest.fixture
def few_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (800, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def process():
    """``process(source, *arguments, **environ)``: a Python process, from its first word ``up``."""
    started = []

    def start(source, *arguments, **environ):
        words = (sys.executable, "-c", source, *arguments)
        one = subprocess.Popen(
            words,
            env={**os.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(one)
        assert one.stdout is not None
        assert one.stdout.readline() == b"up\n"
        return one

    yield start
    for one in started:
        one.communicate()


@pytest.fixture
def shm(tmp_path):
    """``shm(size)``: a server whose /dev/shm has this size."""
    found = server(tmp_path)
    place = found.roots.dev / "shm"
    place.mkdir()

    def made(size):
        subprocess.run(("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place), check=True)
        return found, place

    yield made
    subprocess.run(("umount", place), check=True)


@pytest.mark.usefixtures("few_descriptors")
def test_few_descriptors_are_told(tmp_path):
    row = only(limits(server(tmp_path)))
    assert (row.verdict, row.found) == ("warning", "ulimit -n 800")


CGROUPS = {
    "v1": ("1:pids:/job\n2:memory:/job\n", "pids/job", "memory/job", "memory.limit_in_bytes"),
    "v2": ("0::/job\n", "job", "job", "memory.max"),
}


def in_cgroup(root: Path, version: str, pids: str, memory: str, **more: Any) -> ThisServer:
    """A server with an NPU whose cgroup has these limits, and uses 100 processes and 1 GiB."""
    found = with_npu(root, **more)
    (found.roots.proc / "self").mkdir()
    (found.roots.proc / "meminfo").write_text("MemAvailable:  1000000000 kB\n")
    lines, of_pids, of_memory, limit = CGROUPS[version]
    (found.roots.proc / "self" / "cgroup").write_text(lines)
    for folder in {of_pids, of_memory}:
        (found.roots.cgroups / folder).mkdir(parents=True)
    used = "memory.usage_in_bytes" if version == "v1" else "memory.current"
    values = {"pids.max": pids, "pids.current": "100"}
    for name, text in values.items():
        (found.roots.cgroups / of_pids / name).write_text(f"{text}\n")
    for name, text in {limit: memory, used: str(1 << 30)}.items():
        (found.roots.cgroups / of_memory / name).write_text(f"{text}\n")
    return found


@pytest.mark.parametrize("version", CGROUPS)
def test_limits_of_the_cgroup_that_are_low_for_the_ranks_are_told(tmp_path, version):
    _, processes, memory = limits(in_cgroup(tmp_path, version, "200", str(5 << 30), ranks=8))
    assert (processes.verdict, memory.verdict) == ("warning", "warning")
    assert processes.found == "room for 100 more in the cgroup"
    assert processes.expected == "at least 256: 32 for each of 8 ranks"
    assert (memory.found, memory.expected) == (
        "4.0 GiB free",
        "at least 8 GiB: 1 for each of 8 ranks",
    )


@pytest.mark.parametrize("version", CGROUPS)
@pytest.mark.parametrize("pids", ["max", "32768"])
def test_a_cgroup_with_room_is_fit(tmp_path, version, pids):
    rows = limits(in_cgroup(tmp_path, version, pids, str(64 << 30), ranks=8))
    assert set(verdicts(rows).values()) == {"fit"}


@NEEDS_ROOT
def test_dockers_shared_memory_is_told_where_npus_are(shm):
    found, place = shm("64m")
    assert only(shared_memory(found)).verdict == "fit"
    (found.roots.dev / "davinci0").touch()
    row = only(shared_memory(found))
    assert (row.verdict, row.found) == ("warning", f"{place} of 64 MiB, 64 MiB of it free")
    assert "--shm-size" in row.remedy


@NEEDS_ROOT
def test_shared_memory_that_the_dead_have_filled_is_told(shm, process):
    found, place = shm("100m")
    dead = process("print('up', flush=True)")
    dead.communicate()
    (place / f"torch_{os.getpid()}_1_0").write_bytes(bytes(30 << 20))
    assert only(shared_memory(found)).verdict == "fit"
    (place / f"torch_{dead.pid}_1_0").write_bytes(bytes(55 << 20))
    row = only(shared_memory(found))
    assert row.verdict == "warning"
    assert row.found.endswith("15 MiB of it free; 55 MiB in 1 file of processes that have ended")


def test_a_termination_log_that_is_no_file_is_told(tmp_path):
    found = server(tmp_path)
    assert list(termination_file(found)) == []
    log = found.roots.dev / "termination-log"
    log.touch()
    assert only(termination_file(found)).verdict == "fit"
    log.unlink()
    log.mkdir()
    row = only(termination_file(found))
    assert (row.verdict, row.found) == ("warning", f"that {log} is a directory")


def test_a_holder_of_an_npu_that_is_none_of_a_supervisor_is_described(tmp_path, process):
    found = with_npu(tmp_path)
    assert only(held_devices(found)).found == "held by nobody"
    device = str(found.roots.dev / "davinci0")
    process(HOLDS, device, **{OWNER: "1.1@/state.json"})
    assert only(held_devices(found)).found == "held by 1 process of a supervisor"
    stranger = process(HOLDS, device)
    row = only(held_devices(found))
    assert row.verdict == "warning"
    assert row.found.startswith(f"held by {stranger.pid} (state ")


def test_processes_of_a_supervisor_that_is_dead_are_told_but_not_those_of_this_job(
    tmp_path, process
):
    found = server(tmp_path)
    dead = process("print('up', flush=True)")
    dead.communicate()
    process(HOLDS, "/dev/null", **{OWNER: f"{dead.pid}.1@{found.state_file}"})
    left = process(HOLDS, "/dev/null", **{OWNER: f"{dead.pid}.1@{tmp_path}/other.json"})
    row = only(row for row in left_processes(found))
    assert f"{left.pid} (state " in row.found
    assert f"kill -9 {left.pid}" in row.remedy


@NEEDS_ROOT
def test_logs_of_cann_that_take_more_than_is_left_are_told(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", place), check=True)
    try:
        folder = place / "rank_0" / "debug" / "plog"
        folder.mkdir(parents=True)
        found = server(tmp_path, plogs=(place, tmp_path / "absent"))
        assert list(old_plogs(found)) == []
        (folder / "plog-1_2.log").write_bytes(bytes(5 << 20))
        assert only(old_plogs(found)).verdict == "fit"
        (folder / "plog-2_2.log").write_bytes(bytes(7 << 20))
        row = only(old_plogs(found))
        assert (row.verdict, row.found) == (
            "warning",
            f"12 MiB in {place}, 8 MiB left beside them",
        )
    finally:
        subprocess.run(("umount", place), check=True)


def test_a_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    found = server(tmp_path, state_file=tmp_path / "file" / "state.json")
    fit, unfit = access(found)
    assert (fit.verdict, unfit.verdict) == ("fit", "unfit")
    assert unfit.found.endswith(f"can neither write to {tmp_path}/file nor make it")


@pytest.mark.parametrize("version", CGROUPS)
async def test_all_checks_find_nothing_wrong_with_512_ranks_in_a_cgroup_with_room(
    tmp_path, version
):
    """On a port and among processes that no other test has a part in."""
    facts = {"ranks": 512, "devices": (0,), "environ": {"HCCL_IF_BASE_PORT": str(free_port())}}
    found = in_cgroup(tmp_path, version, "max", str(1 << 40), **facts)
    for name in OF_THE_DRIVER:
        (found.roots.dev / name).touch()
    net = found.roots.proc / "sys" / "net" / "ipv4"
    net.mkdir(parents=True)
    (net / "ip_local_port_range").write_text("32768\t59999\n")
    (net / "ip_local_reserved_ports").write_text("\n")
    of_others = {"left processes"}
    checks = [*OF_THE_SERVER, *OF_THE_PLAN, *ONLY_ASKED]
    checks = [check for check in checks if check.subject not in of_others]
    rows = await checkup(found, tuple(checks), ask)
    assert {row.verdict for row in rows} == {"fit"}
    assert {"devices", "memory", "log directory", "held devices"} <= {row.subject for row in rows}
