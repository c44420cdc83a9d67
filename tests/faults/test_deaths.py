"""Ranks that die together: every status is right, the first is the cause, and none is left dead."""

from __future__ import annotations

import os
import re
import resource
import signal
import time
from pathlib import Path

import pytest

from tests.faults.facilities import CGROUPS, cgroup, inside
from tests.running import DEADLINE_SECONDS, python, wait_until

GENERATIONS = 60
TOGETHER = """
trap '' TERM
echo here
: < "gate.$TORCHELASTIC_RESTART_COUNT"
case $RANK in
6) kill -ABRT $$ ;;
7) kill -KILL $$ ;;
*) exit $((RANK + 20)) ;;
esac
"""
ENDINGS = {
    **{rank: (rank + 20, None) for rank in range(6)},
    6: (None, "SIGABRT"),
    7: (None, "SIGKILL"),
}
ALWAYS = ("--restart-delay", "0", "--min-uptime", "0")
"""The guard against failures at start would end the job after three that are alike."""


def test_eight_ranks_that_die_in_the_same_moment(bad_day, place, way):
    gates = [place / f"gate.{generation}" for generation in range(GENERATIONS)]
    for gate in gates:
        os.mkfifo(gate)
        os.chown(gate, way.uid, -1)
    script = place / "rank.sh"
    script.write_text(f"cd {place}\n{TOGETHER}")
    restarts = ("--restarts", str(GENERATIONS - 1), *ALWAYS)
    job = bad_day("--standalone", "8", *restarts, "--", "sh", str(script))
    here = job.each("output", msg="here")
    for generation, gate in enumerate(gates):
        assert {next(here)["generation"] for _ in range(8)} == {generation}
        assert zombies_of(job.pid) == []  # of the generation before: this one waits at its gate
        with gate.open("w"):  # all pass at once; told to stop, they die in their own way still
            job.wait_for("generation.ended", generation=generation)
    code = job.end()
    for generation in range(GENERATIONS):
        exited = job.all("process.exited", generation=generation)
        endings = {event["rank"]: (event["status"], event["signal"]) for event in exited}
        assert endings == ENDINGS, generation
        first = [event["rank"] for event in exited if event["first_failure"]]
        assert first == [exited[0]["rank"]]
        (ended,) = job.all("generation.ended", generation=generation)
        assert ended["first_failed_rank"] == exited[0]["rank"]
    status, name = ENDINGS[exited[0]["rank"]]
    assert code == (status or 128 + signal.Signals[str(name)])
    assert f"rank {exited[0]['rank']} failed first" in job.events[-1]["root_cause"]


TRACED = """
import ctypes, os, signal, time
def save(*_):
    print("saved", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, save)
assert ctypes.CDLL(None).ptrace(0, 0, None, None) == 0  # PTRACE_TRACEME
os.kill(os.getpid(), signal.SIGSTOP)
print("up", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV])
def test_a_rank_that_made_the_supervisor_its_tracer_goes_on_and_its_end_is_heard(
    bad_day, way, number
):
    """As anti-debug libraries do; it stops at once, and at every signal as long as it is traced."""
    job = bad_day("--standalone", "2", "--drain", "0", *python(TRACED))
    for rank in range(2):
        job.wait_for("output", rank=rank, msg="up")
    if number == signal.SIGTERM:
        job.send(number)
    else:
        failing = job.wait_for("process.started", rank=1)["child_pid"]
        os.kill(job.seen_from_here(failing), number)
    assert job.end() == 128 + number
    saved = [rank for rank in range(2) if job.said(rank) == ["up", "saved"]]
    assert saved == ([0, 1] if number == signal.SIGTERM else [0])
    assert job.all("supervisor.defect") == []


CROWD = """
import os, signal, sys
heard, told = os.pipe()
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.setsid()
        os.write(told, b"!")
        signal.pause()
    os.read(heard, 1)
os._exit(0)
"""


def test_hundreds_that_die_in_one_moment_are_no_defect(bad_day):
    """More than fit into the pipe through which signals wake the event loop."""
    job = bad_day("--standalone", "1", *python(CROWD), "800")
    assert job.end() == 0
    assert job.wait_for("orphans.killed")["count"] == 800
    assert job.all("supervisor.defect") == []
    assert job.stderr == ""


def zombies_of(parent: int) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] == "Z" and int(fields[1]) == parent:
            found.append(int(process.name))
    return found


def test_who_died_first_is_the_cause_also_when_we_look_late(bad_day, way):
    """The supervisor stands still while they die, in an order that is not that of their start."""
    if not hasattr(os, "pidfd_open"):
        pytest.skip("without pidfds (Linux 5.3) nothing tells who died first")
    job = bad_day("--standalone", "8", "--", "sh", "-c", "echo up; exec sleep 600")
    ranks = {}
    for event in (job.wait_for("process.started", rank=rank) for rank in range(8)):
        job.wait_for("output", rank=event["rank"])
        ranks[event["rank"]] = job.seen_from_here(event["child_pid"])
    os.kill(job.pid, signal.SIGSTOP)
    order = (5, 2, 7, 0, 1)
    for rank in order:
        os.kill(ranks[rank], signal.SIGSEGV)
        until_dead(ranks[rank])
    os.kill(job.pid, signal.SIGCONT)
    assert job.end() == 128 + signal.SIGSEGV
    assert [event["rank"] for event in job.all("process.exited")][: len(order)] == list(order)
    assert "rank 5 failed first" in job.events[-1]["root_cause"]


def until_dead(pid: int) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end
        time.sleep(0.0005)


LIMIT = str(256 << 20)
REACHED = "the container's memory limit (256 MiB) was reached"
LOADER = python(
    "import subprocess, sys; "
    "child = subprocess.run([sys.executable, '-c', "
    "'x = [bytearray(1 << 20) for _ in range(1 << 20)]']); "
    "raise RuntimeError(f'DataLoader worker ended with {child.returncode}')"
)


def test_a_child_of_a_rank_that_the_kernel_kills_for_its_memory_is_told(bad_day, way):
    """The rank itself only raises an exception."""
    limit = {"limit_in_bytes": LIMIT} if (CGROUPS / "memory").is_dir() else {"max": LIMIT}
    with cgroup("memory", **limit) as group:
        job = bad_day("--standalone", "1", *LOADER, before=inside(group))
        assert job.end() == 1
        assert job.wait_for("process.exited")["oom_killed"] is False
        cause = job.events[-1]["root_cause"]
        assert "a process of our memory cgroup" in cause
        assert "(oom_kill rose from 0 to 1)" in cause
        assert "RuntimeError: DataLoader worker ended with -9" in cause
        assert f"(oom_kill rose from 0 to 1): {REACHED}" in cause
        assert job.events[-1]["diagnosis"]["id"] == "oom-killed"


THEN_TALKS = python(
    "import subprocess, sys, time; "
    "subprocess.run([sys.executable, '-c', 'x = [bytearray(1 << 20) for _ in range(1 << 20)]'])\n"
    "while True: print('on', flush=True); time.sleep(0.1)"
)


def test_a_sigkill_of_another_origin_after_a_child_was_killed_for_its_memory_is_no_oom_kill(
    bad_day, way
):
    limit = {"limit_in_bytes": LIMIT} if (CGROUPS / "memory").is_dir() else {"max": LIMIT}
    with cgroup("memory", **limit) as group:
        job = bad_day("--standalone", "1", *THEN_TALKS, before=inside(group))
        rank = job.seen_from_here(job.wait_for("process.started")["child_pid"])
        job.wait_for("output", msg="on")
        time.sleep(3.0)
        os.kill(rank, signal.SIGKILL)
        assert job.end() == 128 + signal.SIGKILL
        assert job.wait_for("process.exited")["oom_killed"] is False
        cause = job.events[-1]["root_cause"]
        assert "it was killed by SIGKILL after" in cause
        assert "killed a process of our memory cgroup, such as a child of a rank" in cause


def test_where_the_limit_is_not_the_containers_own_it_is_told_so(bad_day, way):
    """As where the machine has no memory left: the limit is that of a cgroup above it."""
    limit = {"limit_in_bytes": LIMIT} if (CGROUPS / "memory").is_dir() else {"max": LIMIT}
    with cgroup("memory", **limit) as group:
        below = group / "container"
        below.mkdir()
        try:
            job = bad_day("--standalone", "1", *GREEDY, before=inside(below))
            assert job.end() == 128 + signal.SIGKILL
            cause = job.events[-1]["root_cause"]
            assert (
                "not the container's memory limit (it has none) was reached: the machine" in cause
            )
            assert re.search(r"; it had 2\d\d MiB at most; the largest others: ", cause)
        finally:
            wait_until(lambda: (below / "cgroup.procs").read_text() == "")
            below.rmdir()


GREEDY = python("x = [bytearray(b'x' * (1 << 20)) for _ in range(1 << 20)]")


def test_a_rank_that_the_kernel_kills_for_its_memory_is_told_as_such(bad_day, way):
    limit = {"limit_in_bytes": LIMIT} if (CGROUPS / "memory").is_dir() else {"max": LIMIT}
    with cgroup("memory", **limit) as group:
        job = bad_day("--standalone", "1", *GREEDY, before=inside(group))
        assert job.end() == 128 + signal.SIGKILL
        assert job.wait_for("process.exited")["oom_killed"] is True
        cause = job.events[-1]["root_cause"]
        assert "because memory ran out (the kernel's OOM killer) after" in cause
        assert f" s: {REACHED}; it had 2" in cause
        assert " MiB at most; the largest others: " in cause
        assert job.events[-1]["diagnosis"]["id"] == "oom-killed"
        other = bad_day("--standalone", "1", "--", "sleep", "600", before=inside(group))
        rank = other.wait_for("process.started")["child_pid"]
        os.kill(other.seen_from_here(rank), signal.SIGKILL)
        assert other.end() == 128 + signal.SIGKILL
        assert other.wait_for("process.exited")["oom_killed"] is False
        assert "memory" not in other.events[-1]["root_cause"]


LOWERS = """
import os, resource, sys, time
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "0":
    number, limit = int(sys.argv[1]), int(sys.argv[2])
    resource.prlimit(os.getppid(), number, (limit, limit))
    sys.exit(3)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    time.sleep(600)
"""
LOWERED = {
    "processes": (resource.RLIMIT_NPROC, 1),
    "size of files": (resource.RLIMIT_FSIZE, 0),
    "file locks": (10, 5),
}


@pytest.mark.parametrize("what", LOWERED)
@pytest.mark.parametrize("way", ["ordinary", "unprivileged"], indirect=True)
def test_a_rank_that_lowers_the_limits_of_the_supervisor_makes_no_defect_and_leaves_nothing(
    bad_day, what
):
    """Root is not bound by the limit of processes, and nobody by one of locks."""
    words = [str(number) for number in LOWERED[what]]
    options = ("--standalone", "2", "--restarts", "1", "--restart-delay", "0", "--grace", "1")
    job = bad_day(*options, *python(LOWERS), *words)
    assert job.end() in {0, 69}
    assert job.events[-1]["event"] == "supervisor.exited"
    assert not job.all("supervisor.defect")


@pytest.mark.long
@pytest.mark.parametrize("way", ["ordinary", "unprivileged"], indirect=True)
def test_a_supervisor_that_may_open_no_file_any_more_ends_with_its_ranks(bad_day):
    """Nobody can be looked for then, which is given up after 30 s; the guardian ends the rest."""
    options = ("--standalone", "2", "--grace", "1")
    words = (*python(LOWERS), str(resource.RLIMIT_NOFILE), "3")
    job = bad_day(*options, *words, deadline=120.0)
    assert job.end() in {3, 69}
    assert not job.all("supervisor.defect")
