"""--bind-cpus through whole jobs, on two CPUs of the machine: ranks say where they run."""

from __future__ import annotations

import errno
import os
import platform
import signal
import sys
from pathlib import Path

import pytest

from ascend_supervisor.phrases import run_list
from tests.running import FORBIDS, Running, python, wait_until
from tests.workers.standbys.test_warm_jobs import environ as of_place
from tests.workers.standbys.test_warm_jobs import fail, place, train

__all__ = ["place"]  # a fixture

CPUS = sorted(os.sched_getaffinity(0))[:2]
pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
FIRST, SECOND = (f"{cpu}" for cpu in (*CPUS, *CPUS)[:2])
BOTH = {*CPUS}
FORBIDDEN = {"x86_64": (203, 238), "aarch64": (122, 237)}
"""sched_setaffinity and set_mempolicy."""
NUMA_MAPS = Path("/proc/self/numa_maps")
ON_TWO = ("taskset", "-c", ",".join(map(str, CPUS)))
SAYS = """
import os, sys
print(*sorted(os.sched_getaffinity(0)), os.environ.get("OMP_NUM_THREADS"), flush=True)
if "wait" in sys.argv:
    import time
    time.sleep(600)
"""


def bound(supervised, how: str, *words: str, ranks: int = 2, **more) -> Running:
    options = ("--standalone", f"{ranks}", "--bind-cpus", how, "--release-delay", "0")
    job: Running = supervised(*options, *words, *python(SAYS), before=ON_TWO, **more)
    return job


def remarks(job: Running) -> list[str]:
    return [event["message"] for event in job.all("diagnostic", source="--bind-cpus")]


def where(pid: int) -> list[set[int]]:
    """Where the threads of a process may run."""
    return [os.sched_getaffinity(int(one.name)) for one in Path(f"/proc/{pid}/task").iterdir()]


def test_each_rank_runs_on_cpus_of_its_own_and_events_say_so(supervised):
    job = bound(supervised, "auto")
    assert job.end() == 0
    assert job.said(0) == [f"{FIRST} 1"]
    assert job.said(1) == [f"{SECOND} 1"]
    started = job.all("process.started")
    assert [event["cpus"] for event in started] == [FIRST, SECOND]
    assert f"(CPUs {SECOND})" in started[1]["msg"]
    assert not remarks(job)


@pytest.mark.parametrize("options", [(), ("--bind-cpus", "none")])
def test_without_the_option_ranks_run_where_the_supervisor_does(supervised, options):
    words = ("--standalone", "1", *options, "--release-delay", "0", *python(SAYS))
    job = supervised(*words, before=ON_TWO)
    assert job.end() == 0
    assert job.said(0) == [f"{FIRST} {SECOND} None"]
    assert job.wait_for("process.started")["cpus"] is None


def test_the_supervisor_keeps_to_what_is_left(supervised):
    options = ("--standalone", "1", "--bind-cpus", SECOND, "--release-delay", "0")
    job = supervised(*options, *python(SAYS), "wait", before=ON_TWO)
    job.wait_for("output", rank=0, msg=f"{SECOND} 1")
    wait_until(lambda: where(job.pid) == [{int(FIRST)}] * len(where(job.pid)))
    assert where(job.wait_for("process.started")["child_pid"]) == [{int(SECOND)}]
    job.send(signal.SIGTERM)
    job.end()


def test_where_nothing_is_left_the_supervisor_runs_on_all(supervised):
    options = ("--standalone", "2", "--bind-cpus", "auto", "--release-delay", "0")
    job = supervised(*options, *python(SAYS), "wait", before=ON_TWO)
    job.wait_for("output", rank=1, msg=f"{SECOND} 1")
    assert all(one == BOTH for one in where(job.pid))
    job.send(signal.SIGTERM)
    job.end()


def test_a_number_of_threads_that_the_user_set_stays(supervised):
    job = bound(supervised, "auto", "--rank-env", "OMP_NUM_THREADS=7")
    assert job.end() == 0
    assert [*job.said(0), *job.said(1)] == [f"{FIRST} 7", f"{SECOND} 7"]


@pytest.mark.parametrize("how", ["environ", "--rank-env"])
def test_torch_npu_binds_where_its_variable_is_set(supervised, how):
    variable = {"CPU_AFFINITY_CONF": "1"}
    job = (
        bound(supervised, "auto", environ=variable)
        if how == "environ"
        else bound(supervised, "auto", how, "CPU_AFFINITY_CONF=1")
    )
    assert job.end() == 0
    assert job.said(0) == [f"{FIRST} {SECOND} None"]
    (remark,) = remarks(job)
    assert "it does nothing here, because CPU_AFFINITY_CONF is set" in remark
    assert {event["cpus"] for event in job.all("process.started")} == {None}


def test_more_ranks_than_cpus_are_not_bound(supervised):
    job = bound(supervised, "auto", ranks=3)
    assert job.end() == 0
    assert job.said(2) == [f"{FIRST} {SECOND} None"]
    assert remarks(job) == ["it does nothing here: 3 ranks cannot share 2 CPUs"]


def test_what_a_launcher_starts_shares_the_cpus_which_is_told(supervised):
    job = bound(supervised, "auto", "--method", "once")
    assert job.end() == 0
    (remark,) = remarks(job)
    assert (
        "the command serves all NPUs here, so it and what it starts run on their CPUs together"
        in remark
    )


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (FIRST, "expected CPUs for each of the 2 ranks here, found those of 1"),
        (f"{FIRST}/8191", "found 8191 besides"),
        (f"{FIRST}/{FIRST}", "expected none, auto, or the CPUs of each local rank"),
        ("near", "expected none, auto, or the CPUs of each local rank"),
        ("", "expected none, auto, or the CPUs of each local rank"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(supervised, how, expected):
    job = bound(supervised, how)
    assert job.end() == 64
    assert expected in job.wait_for("supervisor.exited")["msg"]


def test_ranks_start_where_the_kernel_refuses_and_events_tell_what_they_got(supervised):
    calls = (str(number) for number in FORBIDDEN[platform.machine()])
    before = (*ON_TWO, sys.executable, "-c", FORBIDS, str(errno.EPERM), *calls, "--")
    options = ("--standalone", "2", "--bind-cpus", "auto", "--bind-memory", "--release-delay", "0")
    job = supervised(*options, *python(SAYS), before=before)
    assert job.end() == 0
    assert job.said(0) == [f"{FIRST} {SECOND} 1"]
    assert {event["cpus"] for event in job.all("process.started")} == {run_list(CPUS)}


@pytest.mark.skipif(not NUMA_MAPS.exists(), reason="a kernel without NUMA")
def test_ranks_prefer_the_memory_of_their_node_and_only_they(supervised):
    source = f"print({str(NUMA_MAPS)!r}, open({str(NUMA_MAPS)!r}).read(), flush=True)"
    options = ("--standalone", "1", "--bind-cpus", FIRST, "--release-delay", "0")
    preferring = [
        any(" prefer:" in line for line in job.said(0))
        for more in ((), ("--bind-memory",))
        for job in [supervised(*options, *more, *python(source), before=ON_TWO)]
        if job.end() == 0
    ]
    assert preferring == [False, True]


def test_a_warm_rank_is_bound_like_a_cold_one(supervised, place):
    delays = ("--restart-delay", "0", "--release-delay", "0", "--min-uptime", "0")
    options = ("--standalone", "2", "--restarts", "1", "--warm", "--bind-cpus", "auto", *delays)
    job = supervised(*options, *train(place), environ=of_place(place), before=ON_TWO)
    job.wait_for("standbys.ready")
    fail(place)
    assert job.end() == 0
    started = [(e["warm"], e["cpus"]) for e in job.all("process.started", generation=1)]
    assert started == [(True, FIRST), (True, SECOND)]
