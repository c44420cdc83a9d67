"""What each history of events counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pytest

from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import (
    GenerationEnded,
    GenerationStarted,
    RestartsBarred,
    RestartScheduled,
)
from ascend_supervisor.events.hangs import HangNoticed
from ascend_supervisor.events.leftovers import (
    OrphansKilled,
    ReleaseWaiting,
    StopWaiting,
    WaitEnded,
)
from ascend_supervisor.events.output import LogLost, OutputDropped
from ascend_supervisor.events.peers import PeersWaiting
from ascend_supervisor.events.rank_table import RankTableReady, RankTableWaiting
from ascend_supervisor.events.supervisor import SupervisorExited, SupervisorStarted
from ascend_supervisor.events.training import TrainingStalled
from ascend_supervisor.metrics.tally import Tally, counted

STARTED = SupervisorStarted("0.1.0", ("python",), "ranktable", 3, ())
BEGUN = GenerationStarted(0, 3)
HUNG = HangNoticed(0, "steps", 60.0, (1,), 61.0, (), "no step")
READY = RankTableReady("/t", "1.0", 16, 2, "pod-0", (0, 1), "0" * 64, ())
RESTART = RestartScheduled(1.5, 2)
FREE = RestartScheduled(1.5, 2, free=True)


def ended(outcome: str) -> Event:
    return GenerationEnded(0, outcome, 0, 1.0, "restart")


def tally_of(*events: Event | tuple[float, Event]) -> Tally:
    """Each event alone comes at 0 s."""
    tally = Tally()
    for one in events:
        now, event = (0.0, one) if isinstance(one, Event) else one
        tally = counted(tally, event, now)
    return tally


def above_zero(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: number for name, number in numbers.items() if number}


@pytest.mark.parametrize(
    ("events", "restarts"),
    [
        ([], {}),
        ([BEGUN, ended("crashed"), RESTART], {"crash": 1}),
        ([BEGUN, ended("fault"), RESTART], {"other": 1}),
        ([BEGUN, HUNG, ended("fault"), RESTART], {"hang": 1}),
        ([BEGUN, HUNG, ended("crashed"), RESTART], {"hang": 1}),
        ([BEGUN, ended("fault"), FREE], {"requested": 1}),
        (
            [BEGUN, HUNG, ended("fault"), RESTART, BEGUN, ended("fault"), RESTART],
            {"hang": 1, "other": 1},
        ),
    ],
)
def test_a_restart_counts_for_what_ended_the_generation_before_it(events, restarts):
    assert above_zero(tally_of(*events).restarts) == restarts


def test_what_may_be_counted_begins_with_zero():
    """Prometheus shows no increase where a series begins."""
    tally = Tally()
    assert set(tally.restarts) == {"crash", "hang", "requested", "other"}
    assert {"steps", "watchdog", "silence"} < set(tally.hangs)
    assert {"rank_table", "peers", "release", "stop"} < set(tally.waited)
    assert set(tally.ending) == {"drain", "grace", "release"}


def test_each_event_counts_what_it_tells_of():
    tally = tally_of(
        STARTED,
        HUNG,
        HUNG,
        TrainingStalled(0, 7, 60.0, 50.0),
        LogLost(3, 100, "full"),
        LogLost(3, 11, "full"),
        LogLost(None, 5, "full", "torchrun"),
        OutputDropped(3, 40, "slow"),
        OutputDropped(4, 2, "slow"),
        OrphansKilled(2, (7, 8), earlier_start=False),
    )
    assert (tally.restarts_allowed, tally.stalls) == (3, 1)
    assert above_zero(tally.hangs) == {"steps": 2}
    assert tally.lost == {"3": 111, "torchrun": 5}
    assert (tally.dropped_lines, tally.killed) == (42, 2)


def test_a_budget_that_does_not_apply_is_none():
    assert tally_of(STARTED, RestartsBarred("several servers", "--peers")).restarts_allowed == 0


def table(waited: float) -> Event:
    return RankTableWaiting("/t", "none", waited)


@pytest.mark.parametrize(
    ("events", "now", "waits"),
    [
        ([(10.0, table(0.0)), (30.0, READY)], 99.0, {"rank_table": 20.0}),
        ([(10.0, table(2.0))], 15.0, {"rank_table": 7.0}),
        ([(10.0, table(0.0)), (12.0, table(2.0))], 13.0, {"rank_table": 3.0}),
        (
            [
                (10.0, table(0.0)),
                (15.0, PeersWaiting((1,), (), (), "", 2.0)),
                (20.0, WaitEnded(7.0)),
            ],
            99.0,
            {"rank_table": 3.0, "peers": 7.0},
        ),
        (  # both since 10 s: no second counts twice
            [(10.0, table(0.0)), (12.0, PeersWaiting((1,), (), (), "", 5.0)), (20.0, READY)],
            99.0,
            {"peers": 10.0},
        ),
        ([(10.0, StopWaiting(("rank 0",), 5.0)), (12.0, ended("crashed"))], 99.0, {"stop": 7.0}),
        (
            [(10.0, ReleaseWaiting(("davinci0",), 0.0)), (12.0, SupervisorExited(69, "", 0, None))],
            99.0,
            {"release": 2.0},
        ),
        ([(10.0, WaitEnded(3.0))], 99.0, {}),
    ],
)
def test_a_wait_counts_until_its_end_and_while_it_goes_on(events, now, waits):
    assert above_zero(tally_of(*events).waits(now)) == waits


def over(then: Literal["restart", "stop"]) -> Event:
    return GenerationEnded(0, "crashed", 0, 60.0, then, drain_seconds=4.0, grace_seconds=2.5)


@pytest.mark.parametrize(
    ("events", "now", "endings"),
    [
        ([(10.0, BEGUN)], 99.0, {}),
        ([(10.0, over("restart"))], 13.0, {"drain": 4.0, "grace": 2.5, "release": 3.0}),
        (
            [(10.0, over("restart")), (10.0, RESTART), (12.0, BEGUN), (90.0, over("stop"))],
            99.0,
            {"drain": 8.0, "grace": 5.0, "release": 2.0},
        ),
        (
            [(10.0, over("restart")), (15.0, SupervisorExited(143, "", 1, None))],
            99.0,
            {"drain": 4.0, "grace": 2.5, "release": 5.0},
        ),
    ],
)
def test_the_end_of_a_generation_counts_by_its_parts(events, now, endings):
    assert above_zero(tally_of(*events).endings(now)) == endings
