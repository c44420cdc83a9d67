"""A thousand restarts leave nothing behind: no file, no thread, no memory, no process.

As PID 1, which has to reap what others leave, a quarter of them: what it kept of each would show.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.running import DEADLINE_SECONDS, Running

WARM = 50
"""The generation from which on nothing may grow: by then every cache and arena has its size."""
RESTARTS = {"ordinary": 1000, "pid_1": 250}
GROWTH_BYTES = 5 * 1024 * 1024
RANKS = 2

RANK = f"""
echo a line
case $TORCHELASTIC_RESTART_COUNT in
    {WARM}|$2) echo look; read never <"$1" ;;
esac
setsid sleep 600 &
exit 3
"""
"""Speaks, leaves somebody behind and dies; in two generations it waits until it was looked at.

It waits for a FIFO itself: a process has no environment to be found by while it becomes another.
"""


@dataclass(frozen=True, slots=True)
class Traces:
    """What a supervisor keeps hold of; pipes and sockets by their kind, for their numbers vary."""

    open_files: tuple[str, ...]
    threads: int
    processes: int
    zombies: int
    paths: frozenset[Path]


# No third way: it differs from the ordinary one in who may do what, and in nothing that is kept.
@pytest.mark.parametrize("way", ["ordinary", "pid_1"], indirect=True)
@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_a_thousand_restarts_leave_nothing_behind(bad_day, place, way):
    restarts = RESTARTS[way.name]
    temporary = place / "tmp"
    temporary.mkdir()
    os.chown(temporary, way.uid, -1)
    os.mkfifo(place / "never")
    job = bad_day(
        *("--standalone", str(RANKS), "--restarts", str(restarts)),
        # The drain lets every rank speak before it dies; all of them do so at once.
        *("--restart-delay", "0", "--min-uptime", "0", "--drain", "30"),
        *("--", "sh", "-c", RANK, "sh", str(place / "never"), str(restarts)),
        environ={"TMPDIR": str(temporary)},
        deadline=600,
    )
    wait_for_generation(job, WARM)
    warm = traces(job)
    memory = job.memory
    job.send(signal.SIGUSR1)  # goes on to the ranks, and ends them

    wait_for_generation(job, restarts)
    wait_until_the_same(job, warm)
    grown = job.memory - memory
    assert grown <= GROWTH_BYTES, f"{grown} bytes more after {restarts - WARM} restarts"
    job.send(signal.SIGUSR1)

    assert job.end() == 128 + signal.SIGUSR1
    assert job.events[-1]["reason"].endswith(f"; the restart budget of {restarts} is used up")
    every = list(range(restarts + 1))
    assert [event["generation"] for event in job.all("generation.started")] == every
    assert [event["generation"] for event in job.all("generation.ended")] == every
    assert len(job.all("process.exited")) == RANKS * len(every)
    assert [event["seq"] for event in job.events] == list(range(len(job.events)))
    for rank in range(RANKS):
        assert job.log(rank).read_text().splitlines().count("a line") == len(every)
    assert not list(temporary.iterdir())
    assert paths_below(place) <= warm.paths


def wait_for_generation(job: Running, generation: int) -> None:
    for rank in range(RANKS):
        job.wait_for("output", rank=rank, generation=generation, msg="look")


def wait_until_the_same(job: Running, before: Traces) -> None:
    """The state file may be about to be written; what has leaked stays.

    An idle thread that made files at the start ends after a while.
    """
    end = time.monotonic() + DEADLINE_SECONDS
    while (now := traces(job)) != _with_threads_of(before, now) and time.monotonic() < end:
        time.sleep(0.02)
    assert now == _with_threads_of(before, now)


def _with_threads_of(before: Traces, now: Traces) -> Traces:
    """``before``, with as many threads as now if these are fewer."""
    return replace(before, threads=min(before.threads, now.threads))


def traces(job: Running) -> Traces:
    """As they are when two looks in a row see the same."""
    end = time.monotonic() + DEADLINE_SECONDS
    now, before = look(job), None
    while now != before and time.monotonic() < end:
        now, before = look(job), now
    assert now == before
    return now


def look(job: Running) -> Traces:
    return Traces(
        open_files=tuple(sorted(name.partition(":[")[0] for name in job.open_files)),
        threads=job.threads,
        processes=len(job.pids()),
        zombies=len(zombies(job.pid)),
        paths=paths_below(job.root),
    )


def paths_below(place: Path) -> frozenset[Path]:
    return frozenset(place.rglob("*"))


def zombies(parent: int) -> list[str]:
    """The children of ``parent`` that are dead and not waited for."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, its_parent = (process / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state == b"Z" and int(its_parent) == parent:
                found.append(process.name)
    return found
