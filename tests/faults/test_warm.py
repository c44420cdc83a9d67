"""Standbys on a bad day: nothing is left, nothing grows, no rank dies for one.

WARM_RESTARTS=200 and WARM_MOMENTS=200 are an endurance run; what grew is in the report of
--junitxml.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ascend_supervisor.processes.scheduling import FIRST_VICTIM
from ascend_supervisor.workers.standby import KILLED
from tests.running import Running, wait_until

NO_DELAY = (
    *("--restart-delay", "0", "--restart-delay-max", "0", "--release-delay", "0"),
    *("--min-uptime", "0", "--no-progress-limit", "0", "--restart-period", "3600"),
)
RANK = """
import large
import os, time
print(" iteration        1/      60 | elapsed time per iteration (ms): 20.0 |", flush=True)
with open("scores", "a") as scores, open("/proc/self/oom_score_adj") as own:
    print(own.read().strip(), file=scores)
last = int(os.environ["LAST"])
while int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < last and not os.path.exists("fail"):
    time.sleep(0.01)
    if os.environ["RANK"] == "0" and os.path.exists("eat") and not os.path.exists("eaten"):
        eaten = b"x" * (120 << 20)
        open("eaten", "w").close()
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
HOLDS = "import sys\nheld = b'x' * (50 << 20)"
ROOM = 80 << 20
"""More than is to stay free, and less than a rank eats: without its standby there is enough."""
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


# Standbys give way, also to the other tests of a busy machine.
@pytest.mark.timeout(900 + 60 * max(0, RESTARTS - 12))
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


@pytest.mark.parametrize("way", ["ordinary", "unprivileged"], indirect=True)
def test_a_standby_is_the_first_that_is_killed_for_memory_and_its_rank_is_not(bad_day, place):
    job = warm(bad_day, place, last=1)
    job.wait_for("standbys.ready")
    waiting = [pid for pid in job.pids() if b"warm_rank.py" in words_of(pid)]
    own = score(job.pid)
    assert [score(pid) for pid in waiting] == [FIRST_VICTIM] * 2
    (place / "fail").touch()
    ranks = [next(job.each("process.started", generation=1, rank=rank)) for rank in range(2)]
    assert [rank["warm"] for rank in ranks] == [True] * 2
    assert job.end() == 0
    assert (place / "scores").read_text().split() == [str(own)] * 4


def words_of(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@pytest.mark.parametrize("way", ["ordinary", "unprivileged"], indirect=True)
@pytest.mark.skipif(not os.access(CGROUP, os.W_OK), reason="no memory cgroup (v1) to write")
def test_where_memory_runs_out_a_standby_is_killed_and_told_and_no_rank(bad_day, place):
    """The kernel chooses it, unless the supervisor has seen just before that there is no room."""
    group = CGROUP / place.name
    group.mkdir()
    try:
        enter = ("sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh")
        job = warm(bad_day, place, last=1, large=HOLDS, before=enter)
        job.wait_for("standbys.ready")
        used = int((group / "memory.usage_in_bytes").read_text())
        (group / "memory.limit_in_bytes").write_text(str(used + ROOM))
        (place / "eat").touch()
        told = job.wait_for("diagnostic", source="--warm")
        assert told["message"].endswith((KILLED, "there is too little memory beside the ranks"))
        wait_until((place / "eaten").exists)
        (place / "fail").touch()
        assert job.end() == 0
        assert all(event["signal"] != "SIGKILL" for event in job.all("process.exited"))
        assert any(not event["warm"] for event in job.all("process.started", generation=1))
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


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
