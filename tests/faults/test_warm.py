"""Standbys on a bad day: nothing is left, nothing grows, no rank dies for one.

WARM_RESTARTS=200 and WARM_MOMENTS=200, with pytest's --timeout 3600, are an endurance run; what
grew is in the report (--junitxml).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.running import Running, wait_until

NO_DELAY = (
    *("--restart-delay", "0", "--restart-delay-max", "0", "--release-delay", "0"),
    *("--min-uptime", "0", "--no-progress-limit", "0", "--restart-period", "3600"),
)
RANK = """
import large
import os, time
print(" iteration        1/      60 | elapsed time per iteration (ms): 20.0 |", flush=True)
last = int(os.environ["LAST"])
while int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < last and not os.path.exists("fail"):
    time.sleep(0.01)
if int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < last:
    try:
        os.remove("fail")
    except FileNotFoundError:
        pass
    os._exit(3)
"""
GROWS = """
import time
held = []
for _ in range(20):
    held.append(b"x" * (4 << 20))
    time.sleep(0.02)
"""
RESTARTS = int(os.environ.get("WARM_RESTARTS", "12"))
MOMENTS = int(os.environ.get("WARM_MOMENTS", "8"))
"""Of a SIGKILL, spread over MOMENT_SECONDS: some starts of standbys."""
MOMENT_SECONDS = 1.6
CGROUP = Path("/sys/fs/cgroup/memory")
LIMIT = 220 << 20


def warm(bad_day, place: Path, last: int, large: str = "", **options) -> Running:
    packages = place / "site-packages"
    packages.mkdir()
    (packages / "large.py").write_text(large)
    (place / "train.py").write_text(RANK)
    for path in (packages, place):
        path.chmod(0o777)
    environ = {"PYTHONPATH": str(packages), "LAST": str(last), "PYTHONDONTWRITEBYTECODE": "1"}
    words = ("--standalone", "2", "--restarts", "500", "--warm", *NO_DELAY)
    job: Running = bad_day(*words, "--", sys.executable, "train.py", environ=environ, **options)
    return job


@pytest.mark.timeout(900)  # standbys give way, also to the other tests of a busy machine
def test_restarts_in_a_row_start_warm_and_nothing_grows(bad_day, place, record_property):
    job = warm(bad_day, place, last=RESTARTS, deadline=300)
    sizes = []
    ready = job.each("standbys.ready")
    for _ in range(RESTARTS):
        next(ready)
        sizes.append((job.memory, len(job.open_files), len(job.pids())))
        (place / "fail").touch()
    assert job.end() == 0
    started = job.all("process.started")
    assert [event["warm"] for event in started] == [False] * 2 + [True] * 2 * RESTARTS
    early, late = sizes[4], sizes[-1]
    record_property("bytes, descriptors, processes", (early, late))
    assert late[1:] == early[1:]
    assert late[0] - early[0] < 2 << 20


@pytest.mark.parametrize("seconds", [MOMENT_SECONDS * n / MOMENTS for n in range(MOMENTS)])
def test_a_supervisor_that_is_killed_at_any_moment_leaves_no_standby(bad_day, place, seconds):
    job = warm(bad_day, place, last=100)
    job.wait_for("training.started")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        (place / "fail").touch()
        time.sleep(0.05)
    os.kill(job.pid, signal.SIGKILL)
    # During an exec a process has no environment by which to find it: the guardian looks again.
    wait_until(lambda: not job.guardians and not job.survivors())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_standbys_make_their_imports_ends_them(bad_day, place, number):
    job = warm(bad_day, place, last=100, large="import time; time.sleep(1)")
    job.wait_for("training.started")
    wait_until(lambda: any("warm_rank.py" in one for one in job.survivors()))
    job.send(number)
    assert job.end() == 128 + number
    assert not job.survivors()


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
@pytest.mark.skipif(not os.access(CGROUP, os.W_OK), reason="no memory cgroup (v1) to write")
def test_in_a_cgroup_that_is_too_small_the_job_runs_cold_and_nobody_is_killed(bad_day, place):
    group = CGROUP / place.name
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(LIMIT))
    try:
        enter = ("sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh")
        job = warm(bad_day, place, last=1, large=GROWS, before=enter)
        told = job.wait_for("diagnostic", source="--warm")
        assert told["message"].endswith("there is too little memory beside the ranks")
        (place / "fail").touch()
        assert job.end() == 0
        assert all(event["signal"] != "SIGKILL" for event in job.all("process.exited"))
        assert "oom_kill 0" in (group / "memory.oom_control").read_text()
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()
