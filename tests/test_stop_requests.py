"""Signals to stop: which of them is impatient, and which deaths of ranks belong to them."""

from __future__ import annotations

import signal

import anyio
import pytest
from msgspec.structs import replace

from ascend_supervisor.events import Event
from ascend_supervisor.events.supervisor import SignalReceived
from ascend_supervisor.outcome import ExitStatus, Failure, Requester, StopSignal
from ascend_supervisor.stop_requests import (
    STOPPING,
    Interrupts,
    is_impatient,
)
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.clocks import LeapingClock

TERM, INT, QUIT = signal.SIGTERM, signal.SIGINT, signal.SIGQUIT
BY = Requester(812, 0)
BY_SIGTERM = Failure(
    name="rank 0",
    rank=0,
    generation=0,
    status=ExitStatus(None, TERM),
    runtime_seconds=5.0,
    ended_at=100.0,
)


@pytest.mark.parametrize("first", STOPPING)
@pytest.mark.parametrize(
    ("number", "after", "impatient"),
    [
        (TERM, 0.0, False),
        (TERM, 3600.0, False),
        (INT, 0.0, False),
        (INT, 0.49, False),
        (INT, 0.5, True),
        (INT, 3600.0, True),
        (QUIT, 0.0, True),
        (QUIT, 3600.0, True),
    ],
)
def test_only_a_person_is_impatient(first, number, after, impatient):
    assert is_impatient(number, 7.0 + after, StopSignal(first, 7.0)) is impatient


@pytest.mark.parametrize(("at", "explained"), [(99.0, True), (102.0, True), (102.01, False)])
@pytest.mark.parametrize("status", [ExitStatus(None, TERM), ExitStatus(143)])
def test_a_death_by_sigterm_belongs_to_a_sigterm_that_comes_within_2_s(status, at, explained):
    assert StopSignal(TERM, at).explains(replace(BY_SIGTERM, status=status)) is explained


@pytest.mark.parametrize("number", [INT, QUIT])
def test_another_signal_explains_no_death(number):
    assert not StopSignal(number, 100.0).explains(BY_SIGTERM)


@pytest.mark.parametrize(
    "failure",
    [
        replace(BY_SIGTERM, status=ExitStatus(1)),
        replace(BY_SIGTERM, status=ExitStatus(15)),
        replace(BY_SIGTERM, status=ExitStatus(None, signal.SIGKILL)),
        replace(BY_SIGTERM, reason="MindSpore ended it, for it had lost its cluster"),
    ],
)
def test_a_failure_of_another_kind_is_never_explained(failure):
    assert failure.explainable_until is None
    assert not StopSignal(TERM, 100.0).explains(failure)


def heard(*signals: tuple[int, float]) -> tuple[Interrupts, list[str]]:
    """What the supervisor says about signals that come at these seconds."""
    events: list[Event] = []
    clock = LeapingClock()
    interrupts = Interrupts(events.append, lambda: None, clock, usual_grace=20.0)
    with interrupts.forwarding(lambda _: True):
        for number, clock.time in signals:
            interrupts.hear(number)
    return interrupts, [event.effect for event in events if isinstance(event, SignalReceived)]


GRACE = "stopping, with 20 s of grace; a later SIGINT, or SIGQUIT, kills what is left"
SAME = "stopping already; this changes nothing"
AT_ONCE = "stopping at once"


async def test_what_a_signal_changes_is_said():
    ten = [(TERM, float(second)) for second in range(10)]
    assert heard(*ten)[1] == [GRACE, *[SAME] * 9]
    assert heard((INT, 0.0), (INT, 0.1), (INT, 0.6))[1] == [GRACE, SAME, AT_ONCE]
    assert heard((TERM, 0.0), (QUIT, 0.1))[1] == [GRACE, AT_ONCE]
    assert heard((QUIT, 0.0), (TERM, 9.0), (QUIT, 9.0))[1] == [GRACE, SAME, AT_ONCE]


async def test_a_request_to_stop_is_a_sigterm_by_somebody():
    interrupts, _ = heard()
    with interrupts.forwarding(lambda _: True):
        assert interrupts.ask_to_stop(BY, None) == "stopping, with 20 s of grace"
    assert await interrupts.stop() == StopSignal(TERM, 0.0, BY)
    assert interrupts.grace is None
    assert interrupts.ask_to_stop(BY, None) == "stopping already; this changes nothing"


async def test_while_no_rank_runs_no_grace_is_promised():
    interrupts, _ = heard()
    assert interrupts.ask_to_stop(BY, None) == "stopping; no rank runs"
    assert interrupts.ask_to_stop(BY, None) == "stopping already; this changes nothing"
    assert interrupts.ask_to_stop(BY, 5.0) == "stopping; no rank runs"
    events: list[Event] = []
    Interrupts(events.append, lambda: None, LeapingClock(), usual_grace=20.0).hear(TERM)
    assert events == [SignalReceived("SIGTERM", "stopping; no rank runs")]


async def test_after_a_signal_a_request_to_stop_changes_the_grace_alone():
    interrupts, _ = heard((INT, 1.0))
    with interrupts.forwarding(lambda _: True):
        said = interrupts.ask_to_stop(BY, 5.0)
    assert said == "stopping; what is left after a grace of 5 s is killed"
    assert await interrupts.stop() == StopSignal(INT, 1.0)
    assert interrupts.grace == 5.0


async def test_after_a_request_to_stop_a_person_may_be_impatient():
    interrupts, _ = heard()
    interrupts.ask_to_stop(BY, 600.0)
    interrupts.hear(QUIT)
    with anyio.fail_after(30):
        await interrupts.hurry()


async def test_every_new_grace_is_heard():
    interrupts, _ = heard()
    graces: list[float] = []

    async def hear() -> None:
        while len(graces) < 2:
            graces.append(await interrupts.next_grace())

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hear)
            await anyio.lowlevel.checkpoint()
            interrupts.ask_to_stop(BY, 5.0)
            interrupts.ask_to_stop(BY, 3.0)  # before anybody has run
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            interrupts.ask_to_stop(BY, None)
            interrupts.ask_to_stop(BY, 9.0)
    assert graces == [3.0, 9.0]


async def test_the_first_signal_to_stop_is_the_one_that_counts():
    interrupts, _ = heard((TERM, 1.0), (QUIT, 2.0), (INT, 3.0))
    assert await interrupts.stop() == StopSignal(TERM, 1.0)
    assert await interrupts.stop_within(0) == StopSignal(TERM, 1.0)


async def hear_soon(interrupts: Interrupts) -> None:
    interrupts.hear(TERM)


async def test_a_signal_to_stop_is_waited_for_no_longer_than_asked():
    events: list[Event] = []
    interrupts = Interrupts(events.append, lambda: None, MonotonicClock())
    assert await interrupts.stop_within(-1) is None
    assert await interrupts.stop_within(0.01) is None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hear_soon, interrupts)
        assert await interrupts.stop_within(600) is await interrupts.stop()
