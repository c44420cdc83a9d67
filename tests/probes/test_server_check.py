"""When the server is checked, and what comes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from ascend_supervisor.doctor.check import Checked, fit, unfit, unknown, warning
from ascend_supervisor.errors import UNAVAILABLE, Unavailable
from ascend_supervisor.events.server import Result, ServerChecked
from ascend_supervisor.life import Plan
from ascend_supervisor.probes.server_check import FRESH_SECONDS, ServerCheck
from ascend_supervisor.tasks.clock import Clock, MonotonicClock
from ascend_supervisor.tasks.race import beside
from tests.clocks import LeapingClock
from tests.probes.lives import life

FULL = warning("log directory", "1 MiB free", "64 MiB", "make room")
MISSING = unfit("devices", "3 NPUs", "4", "start it elsewhere")


class Examined:
    """Gives these rows; ``early`` waits until it may."""

    def __init__(
        self,
        early: Sequence[Result] = (),
        late: Sequence[Result] = (),
        *,
        waits: bool = False,
        error: Exception | None = None,
    ) -> None:
        self._early, self._late, self._error = early, late, error
        self.may = anyio.Event()
        if not waits:
            self.may.set()
        self.asked = 0

    async def early(self) -> Checked:
        self.asked += 1
        await self.may.wait()
        if self._error is not None:
            raise self._error
        return Checked(tuple(self._early))

    async def late(self, plan: Plan, early: Checked) -> Checked:
        assert plan is not None
        return Checked((*early.rows, *self._late), "/log/check.txt")


@asynccontextmanager
async def checking(
    examiner: Examined, clock: Clock | None = None
) -> AsyncIterator[tuple[ServerCheck, list[Any]]]:
    events: list[Any] = []
    probe = ServerCheck(examiner, clock or MonotonicClock(), events.append)
    with anyio.fail_after(20):
        async with beside(probe.keep):
            yield probe, events


PLAN = life().plan


async def test_the_rank_table_is_not_held_up_and_the_plan_waits_for_the_end():
    examiner = Examined(waits=True)
    async with checking(examiner) as (probe, events), anyio.create_task_group() as tasks:
        await probe.released()
        await anyio.wait_all_tasks_blocked()
        assert examiner.asked == 1
        ready = anyio.Event()

        async def get_ready():
            await probe.ready(PLAN)
            ready.set()

        tasks.start_soon(get_ready)
        await anyio.wait_all_tasks_blocked()
        assert not ready.is_set()
        examiner.may.set()
        await ready.wait()
    assert events == []


async def test_what_is_not_fit_is_told_in_one_event_and_a_warning_stops_nothing():
    async with checking(Examined([fit("a", "b"), FULL], [unknown("c", "d")])) as (probe, events):
        await probe.released()
        await probe.ready(PLAN)
    (event,) = events
    assert isinstance(event, ServerChecked)
    assert (event.verdict, event.severity) == ("warning", "warning")
    assert event.warnings == ("log directory: found 1 MiB free, expected 64 MiB; make room",)
    assert (event.unfit, event.unknown) == ((), ("c: d",))
    assert event.output == "/log/check.txt"


async def test_a_server_that_is_not_fit_is_refused_with_the_reason_and_what_to_do():
    async with checking(Examined([FULL], [MISSING])) as (probe, events):
        await probe.released()
        with pytest.raises(Unavailable) as refused:
            await probe.ready(PLAN)
    assert refused.value.exit_code == UNAVAILABLE
    assert refused.value.is_retryable
    assert str(refused.value) == (
        "this server is not fit for the job: devices: found 3 NPUs, expected 4; start it elsewhere"
    )
    assert [event.verdict for event in events] == ["unfit"]


async def test_it_is_checked_again_after_a_generation_and_not_after_a_start_that_was_withdrawn():
    examiner = Examined([FULL])
    async with checking(examiner) as (probe, events):
        for _ in range(3):
            await probe.released()
            await probe.ready(PLAN)
        assert (examiner.asked, len(events)) == (1, 1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(probe.must_end, life())
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await probe.released()
        await probe.ready(PLAN)
    assert (examiner.asked, len(events)) == (2, 2)


@pytest.mark.parametrize(("seconds", "asked"), [(FRESH_SECONDS, 1), (FRESH_SECONDS + 1, 2)])
async def test_what_was_found_long_before_the_plan_is_looked_at_again(seconds, asked):
    examiner, clock = Examined([FULL]), LeapingClock()
    async with checking(examiner, clock) as (probe, events):
        await probe.released()
        await anyio.wait_all_tasks_blocked()
        clock.time += seconds
        await probe.ready(PLAN)
    assert (examiner.asked, len(events)) == (asked, 1)


async def test_so_it_is_where_a_start_was_withdrawn_long_ago():
    examiner, clock = Examined(), LeapingClock()
    async with checking(examiner, clock) as (probe, _):
        await probe.released()
        await probe.ready(PLAN)
        clock.time += FRESH_SECONDS + 1
        await probe.ready(PLAN)
    assert examiner.asked == 2


async def test_a_check_that_breaks_ends_no_job():
    async with checking(Examined(error=ValueError("odd"))) as (probe, events):
        await probe.released()
        await probe.ready(PLAN)
    (event,) = events
    assert (event.verdict, event.severity) == ("unknown", "info")
    assert event.sentence == (
        "not all of this server could be checked: the check: it has failed: ValueError('odd')"
    )
