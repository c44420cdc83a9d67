"""What is swept away, and what is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import anyio
import pytest

from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.kernel import become_subreaper, inherited
from ascend_supervisor.processes.ownership import Known, Mark, Ownership
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import descendants, environ, start_time
from ascend_supervisor.processes.sweep import sweep_descendants, sweep_leftovers

OWNER = "OWNER"
SLEEP = ("sleep", "600")


def marked(mark: str) -> subprocess.Popen[bytes]:
    """A process with this mark; Popen returns a moment before the kernel shows its environment."""
    process = subprocess.Popen(SLEEP, env={"PATH": os.environ["PATH"], OWNER: mark})
    while OWNER.encode() not in environ(process.pid):
        assert process.poll() is None
    return process


@pytest.mark.parametrize(
    ("mark", "left"),
    [
        ("1000000000.1@{here}", False),
        ("1000000000.1@{here}/elsewhere", True),
        ("nonsense", True),
        ("1.x@{here}", True),
        ("{own}@{here}", True),
    ],
    ids=["dead", "elsewhere", "nonsense", "no owner", "living"],
)
async def test_only_what_a_dead_supervisor_of_this_place_started_is_a_leftover(
    mark, left, tmp_path
):
    ours = Mark.ours(OWNER, str(tmp_path))
    own = ours.value.partition("@")[0]
    process = marked(mark.format(here=tmp_path, own=own))
    try:
        with anyio.fail_after(20):
            swept = await sweep_leftovers(ours, 5, lambda _: None)
        assert (process.pid in swept.killed) is not left
        assert (process.poll() is None) is left
    finally:
        process.kill()
        process.wait()


def numbered(mark: Mark | None) -> subprocess.Popen[bytes]:
    """A process with the number of this mark, and an environment that says nothing."""
    with inherited(mark):
        return subprocess.Popen(SLEEP, env={"PATH": os.environ["PATH"]})


@pytest.mark.parametrize(
    ("mark", "left"),
    [
        ("4194303.1@{here}", False),
        ("4194303.1@{here}/elsewhere", True),
        ("{own}@{here}", True),
        (None, True),
    ],
    ids=["dead", "elsewhere", "living", "no mark"],
)
async def test_a_leftover_is_known_by_its_number_although_its_environment_says_nothing(
    mark, left, tmp_path
):
    ours = Mark.ours(OWNER, str(tmp_path))
    own = ours.value.partition("@")[0]
    value = None if mark is None else Mark(OWNER, mark.format(here=tmp_path, own=own))
    process = numbered(value)
    try:
        with anyio.fail_after(20):
            swept = await sweep_leftovers(ours, 5, lambda _: None)
        assert (process.pid in swept.killed) is not left
        assert (process.poll() is None) is left
    finally:
        process.kill()
        process.wait()


def test_what_is_started_without_a_mark_bears_none_even_below_another_supervisor():
    words = ("sh", "-c", "grep 'file locks' /proc/self/limits")
    with inherited(Mark(OWNER, "4194303.1@/a")):
        above = subprocess.check_output(words, text=True)
        with inherited(None):
            below = subprocess.check_output(words, text=True)
    after = subprocess.check_output(words, text=True)
    assert above.split()[3].isdigit()
    assert below.split()[3] == after.split()[3] == "unlimited"


@pytest.fixture
def zombie() -> Iterator[int]:
    process = subprocess.Popen(("true",))
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


async def test_a_supervisor_that_is_only_waited_for_is_no_more(zombie):
    process = marked(f"{zombie}.{start_time(zombie)}@/here")
    try:
        with anyio.fail_after(20):
            swept = await sweep_leftovers(Mark.ours(OWNER, "/here"), 5, lambda _: None)
        assert swept.killed == (process.pid,)
        assert process.wait(20) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


def test_an_owner_is_a_process_and_a_place():
    mark = Mark.ours(OWNER, "/a/b")
    assert mark.entry == f"OWNER={os.getpid()}.{start_time(os.getpid())}@/a/b"


FORKS = """
import os, subprocess, sys, time
for n in range(10):
    subprocess.Popen(["sleep", "600"])
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        os.fork() and os._exit(0)
        os.execvp("sleep", ["sleep", "600"])
    subprocess.Popen(["setsid", "env", "-i", "sleep", "600"])
print("forked", flush=True)
time.sleep(600)
"""


async def test_forty_descendants_of_all_kinds_leave_no_survivor():
    become_subreaper()
    children = Children()
    read_end, write_end = os.pipe()
    child = children.spawn(
        (sys.executable, "-c", FORKS),
        environ={"PATH": os.environ["PATH"]},
        cwd="/",
        output=write_end,
    )
    os.close(write_end)
    assert os.read(read_end, 100) == b"forked\n"
    os.close(read_end)
    os.kill(child.pid, signal.SIGSTOP)
    rank = Pid.of(child.pid)
    assert rank is not None
    with anyio.fail_after(30):
        swept = await sweep_descendants(
            children,
            Ownership(Mark(OWNER, ""), frozenset()),
            Known(frozenset({rank})),
            20,
            lambda _: None,
        )
    assert swept.left == ()
    assert len(swept.killed) >= 40
    assert descendants(os.getpid()) == []
    assert child.returncode is not None


CLEANS_UP = "import time; print(flush=True); time.sleep(0.1); print('done')"


def cleaning_up() -> subprocess.Popen[bytes]:
    return subprocess.Popen((sys.executable, "-c", CLEANS_UP), stdout=subprocess.PIPE)


async def test_what_was_seen_to_wait_for_the_others_is_swept_last():
    become_subreaper()
    children = Children()
    ownership = Ownership.from_now_on(Mark.ours(OWNER, "/nowhere"))
    with cleaning_up() as cleans_up:
        assert cleans_up.stdout is not None
        assert cleans_up.stdout.readline() == b"\n"
        pid = Pid.of(cleans_up.pid)
        assert pid is not None
        with anyio.fail_after(30):
            known = Known(frozenset({pid}), waiting=frozenset({pid}))
            swept = await sweep_descendants(children, ownership, known, 20, lambda _: None)
        assert swept.killed == ()
        assert cleans_up.stdout.read() == b"done\n"


async def test_what_serves_the_whole_job_is_not_swept():
    become_subreaper()
    children = Children()
    ownership = Ownership.from_now_on(Mark.ours(OWNER, "/nowhere"))
    environment = {"PATH": os.environ["PATH"]}
    output = os.open(os.devnull, os.O_WRONLY)
    serving, other = (
        children.spawn(SLEEP, environ=environment, cwd="/", output=output) for _ in range(2)
    )
    os.close(output)
    children.keep(serving)
    with anyio.fail_after(30):
        known = Known(frozenset({Pid(serving.pid, 0), Pid(other.pid, 0)}))
        await sweep_descendants(children, ownership, known, 20, lambda _: None)
    assert other.returncode == -signal.SIGKILL
    assert serving.returncode is None
    os.kill(serving.pid, signal.SIGKILL)
    with anyio.fail_after(30):
        while serving.returncode is None:
            await anyio.sleep(0.01)
            children.reap()
    assert children.kept == frozenset()  # its number may belong to another one now
