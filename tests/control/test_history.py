"""What events have told: phases, restarts, and how long processes have run."""

from __future__ import annotations

from functools import reduce

from msgspec.structs import replace

from ascend_supervisor.control.chronicle import Chronicle
from ascend_supervisor.control.history import MOST_RESTARTS, History, noted
from ascend_supervisor.control.status_answer import PastRestart
from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import (
    GenerationStarted,
    ProcessExited,
    ProcessStarted,
    RestartScheduled,
)
from ascend_supervisor.events.output import OutputDropped
from ascend_supervisor.events.supervisor import ControlRequested, SupervisorExited
from ascend_supervisor.progress.account import KeptAccount
from ascend_supervisor.progress.record import TrainingRecord
from ascend_supervisor.reporters.job_status import after
from ascend_supervisor.reporters.status_document import Status
from ascend_supervisor.tasks.clock import MonotonicClock

INITIAL = Status("job-7", "pod-0", 4711, 123456, "0.1.0")
NOTHING = History(INITIAL, "2026-11-22T03:00:00.000Z", 10.0)


def told(*events: Event) -> History:
    """The history of these events, one a second."""
    history = NOTHING
    for second, event in enumerate(events, 11):
        history = noted(history, event, float(second), f"at {second}")
    return history


def started(rank: int, generation: int, pid: int) -> Event:
    return ProcessStarted(rank, rank, generation, pid, f"/log/{rank}")


def died(pid: int) -> Event:
    return ProcessExited(0, 0, 0, pid, 7, None, 3.5, first_failure=True, oom_killed=None)


LIFE = [GenerationStarted(0, 1), started(0, 0, 100), started(1, 0, 101), died(100)]
AGAIN = RestartScheduled(0.5, 0, "rank 0 failed first", free=False)


def test_the_status_is_that_of_the_state_file():
    events = [*LIFE, AGAIN, GenerationStarted(1, 0), SupervisorExited(7, "", 2, "cause")]
    for length in range(len(events) + 1):
        status = replace(told(*events[:length]).status, generations=())  # which have times
        assert status == reduce(after, events[:length], INITIAL)


def test_a_phase_lasts_until_the_next_one():
    assert told().phase_since == 10.0
    assert told(*LIFE).phase_since == 11.0
    assert told(*LIFE, AGAIN).phase_since == 15.0
    assert told(*LIFE, OutputDropped(0, 5, "slow")).phase_since == 11.0


def test_a_request_to_stop_is_a_phase_as_a_signal_is():
    stopping = told(*LIFE, ControlRequested("stop", 0, 812, "stopping, with grace"))
    assert (stopping.status.phase, stopping.phase_since) == ("stopping", 15.0)
    restarting = told(*LIFE, ControlRequested("restart", 0, 812, "generation 0 is ended"))
    assert restarting.status.phase == "running"


def test_processes_are_those_of_the_latest_generation():
    history = told(*LIFE)
    assert (history.began, history.lasted) == ({100: 12.0, 101: 13.0}, {100: 3.5})
    following = told(*LIFE, AGAIN, GenerationStarted(1, 0), started(0, 1, 102))
    assert (following.began, following.lasted) == ({102: 17.0}, {})


def test_the_latest_restarts_are_remembered_with_their_causes():
    asked = RestartScheduled(0.0, 0, "restart asked for by process 812 of user 0", free=True)
    history = told(*LIFE, AGAIN, GenerationStarted(1, 0), asked)
    assert history.restarts == (
        PastRestart(0, "at 15", "rank 0 failed first", free=False),
        PastRestart(1, "at 17", "restart asked for by process 812 of user 0", free=True),
    )
    many = told(*[AGAIN] * (MOST_RESTARTS + 5))
    assert [restart.at for restart in many.restarts] == [f"at {n}" for n in range(16, 36)]


def test_the_first_state_has_the_account_of_earlier_starts():
    """Also a supervisor that is killed at once leaves it to the next one."""
    clock = MonotonicClock()
    kept = KeptAccount({"training": 60.0}, 90.0, 1000, 0, 3)
    first = Chronicle(INITIAL, TrainingRecord(60.0, clock.elapsed(), kept), clock).so_far.status
    assert first.progress is not None
    assert (first.progress.best_step, first.progress.generations) == (1000, 3)
