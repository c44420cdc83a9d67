"""Whether the ranks do their work: every reason why not, and the one why."""

from __future__ import annotations

import pytest

from ascend_supervisor.control.operations import readiness
from ascend_supervisor.life import Life, Living, Notified
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.reporters.status_document import Status, StatusPhase
from tests.control.lives import launcher, life, living, spec

TWO = (living(0), living(1))


def status(phase: StatusPhase = "running", why: str = "") -> Status:
    return Status("job", "pod", 1, 1, "0", phase=phase, why=why, generation=0)


def reason(of: Life | None, *, must_notify: bool = False) -> str:
    found = readiness(status(), of, must_notify=must_notify)
    assert not found.ready
    return found.reason


def is_ready(of: Life, *, must_notify: bool) -> bool:
    return readiness(status(), of, must_notify=must_notify).ready


def test_a_generation_whose_processes_all_run_is_ready():
    found = readiness(status(), life(*TWO), must_notify=False)
    assert (found.ready, found.reason) == (True, "generation 0 runs")


@pytest.mark.parametrize("phase", ["starting", "waiting", "stopping", "backing off", "ended"])
def test_in_any_other_phase_it_is_not(phase):
    for of in (None, life(*TWO)):
        found = readiness(status(phase, "because"), of, must_notify=False)
        assert (found.ready, found.reason) == (False, f"the job is {phase}: because")


def test_while_a_generation_is_ended_it_is_not():
    ending = life(*TWO)
    ending.is_ending = True
    assert reason(ending) == "generation 0 is being ended"


def test_before_all_are_started_it_is_not():
    started = life(living(0), planned=3)
    assert reason(started) == "2 of 3 processes have not been started"


def test_once_one_has_ended_it_is_not():
    assert reason(life(living(0), living(1, has_ended=True))) == "rank 1 has ended"


@pytest.mark.parametrize("sign", [Notified(1.0, ready_at=1.0), Notified(1.0, watchdog_at=1.0)])
def test_ranks_that_are_to_notify_are_ready_when_they_have(sign):
    of = life(*TWO)
    assert reason(of, must_notify=True) == "ranks 0, 1 have sent neither READY=1 nor WATCHDOG=1"
    of.notified[0] = sign
    of.notified[1] = Notified(1.0, status="loading")
    assert reason(of, must_notify=True) == "rank 1 has sent neither READY=1 nor WATCHDOG=1"
    assert is_ready(of, must_notify=False)
    of.notified[1] = sign
    assert is_ready(of, must_notify=True)


def test_ranks_that_mpirun_starts_from_another_server_cannot_notify():
    waits = Living(spec(None, title="the wait for mpirun"), 90, Activity(0.0))
    assert is_ready(life(waits), must_notify=True)
    relays = Living(spec(None, title="mpirun", relays_ranks=True), 90, Activity(0.0))
    assert "ranks 0, 1 have sent" in reason(life(relays), must_notify=True)


def test_the_ranks_of_a_launcher_are_to_notify_too():
    of = life(launcher(0, 1, seen={700: 0, 701: 1}, logs=False))
    assert "ranks 0, 1 have sent" in reason(of, must_notify=True)
    of.notified |= {rank: Notified(1.0, ready_at=1.0) for rank in (0, 1)}
    assert is_ready(of, must_notify=True)
