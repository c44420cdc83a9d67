"""What /proc says of real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.processes import proc
from ascend_supervisor.stacks.kernel_side import look_at
from ascend_supervisor.stacks.seen import Looked, Subject
from ascend_supervisor.stacks.survey import with_ranks_below
from tests.stacks.hanging import (
    LOCKED,
    LOOPS,
    READS,
    SLEEPS,
    STOPPED,
    STUCK,
    call,
    state,
    until,
    wchan,
)

CHILD = "import os, subprocess, sys, time\n"
CHILDREN = (
    CHILD + "for word in sys.argv[1:]:\n"
    "    subprocess.Popen(['sleep', '600'], env={**os.environ, 'RANK': word, 'LOCAL_RANK': word})\n"
    "os.write(1, b'up\\n'); time.sleep(600)"
)


def subject(pid: int | None, **more) -> Subject:
    return Subject("rank 0", 0, pid, Activity(0.0), "log", **more)


def seen(pid: int | None, **more) -> Looked:
    looked = Looked(subject(pid, **more))
    look_at(looked)
    return looked


@pytest.mark.parametrize(
    ("source", "expected", "calls"),
    [
        (SLEEPS, "S", {"clock_nanosleep", "select", "pselect6"}),
        (LOCKED, "S", {"futex"}),
        (READS, "S", {"read"}),
        (LOOPS, "R", {""}),
        (STOPPED, "T", None),
        (STUCK, "D", None),
    ],
)
async def test_a_process_is_seen_where_it_is(start, source, expected, calls):
    pid = (await start(source)).pid
    await until(lambda: state(pid) == expected and (calls is None or call(pid) in calls))
    await until(lambda: (wchan(pid) == "0") == (expected == "R"))
    looked = seen(pid)
    main = looked.processes[0].main
    assert main is not None
    assert main.state == expected
    assert calls is None or main.system_call in calls
    assert main.wchan == ("" if expected == "R" else wchan(pid))
    assert looked.processes[0].description.startswith(f"{pid} (state {expected}")


async def test_every_thread_is_seen_the_main_thread_first(start):
    source = (
        "import os, threading, time\n"
        "for _ in range(3): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "os.write(1, b'up\\n'); time.sleep(600)"
    )
    child = await start(source)
    (process,) = seen(child.pid).processes
    assert process.threads[0].tid == child.pid
    assert len(process.threads) == 4


async def test_processes_below_are_seen_too_and_counted_where_there_are_too_many(start):
    child = await start(CHILDREN, *map(str, range(40)))
    looked = seen(child.pid)
    assert len(looked.processes) == 33
    assert {process.parent for process in looked.processes[1:]} == {child.pid}
    assert looked.notes == ["at least 8 more processes below it were not looked at"]


async def test_processes_that_are_subjects_of_their_own_are_left_out(start):
    child = await start(CHILDREN, "0", "1")
    below = seen(child.pid).processes[1:]
    looked = seen(child.pid, others=frozenset({below[0].pid}))
    assert [one.pid for one in looked.processes] == [child.pid, below[1].pid]


async def test_who_has_the_number_of_a_dead_worker_is_not_looked_at(start):
    child = await start(SLEEPS)
    assert seen(child.pid, parent=os.getpid()).processes
    assert seen(child.pid, parent=1 << 22).has_ended


async def test_what_has_ended_is_told_as_such(start):
    child = await start(SLEEPS)
    os.kill(child.pid, signal.SIGKILL)
    await child.ended()
    assert seen(child.pid).has_ended
    assert seen(None).has_ended


async def test_secrets_of_a_command_line_are_masked(start):
    child = await start(SLEEPS, "--token=abc")
    (process,) = seen(child.pid).processes
    assert "--token=***" in process.description
    assert "abc" not in process.description


async def test_ranks_below_a_command_are_found_by_their_environment(start):
    child = await start(CHILDREN, "5", "4", RANK="4")
    below = proc.descendants(child.pid)
    await until(lambda: all(map(proc.environ, below)))  # in the midst of an exec there is none
    command = subject(child.pid, leads_ranks=True)
    *ranks, itself = with_ranks_below(command)
    assert [(one.name, one.rank) for one in ranks] == [("rank 4", 4), ("rank 5", 5)]
    assert itself.others == {one.pid for one in ranks}
    assert Path(f"/proc/{ranks[0].pid}/comm").read_text() == "sleep\n"
    (process,) = seen(ranks[0].pid, others=ranks[0].others).processes
    assert process.parent == child.pid


async def test_what_a_command_hands_on_unchanged_names_no_rank(start):
    source = (
        CHILD + "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "os.write(1, b'up\\n'); time.sleep(600)"
    )
    child = await start(source, RANK="4", LOCAL_RANK="0")
    (itself,) = with_ranks_below(subject(child.pid, leads_ranks=True))
    assert itself.others == frozenset()
