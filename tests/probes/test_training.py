"""Steps that are read from ranks: what is reported, and when a step is overdue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from time import thread_time
from typing import TypeVar

import anyio
import pytest

from ascend_supervisor.errors import HANG
from ascend_supervisor.events import Event
from ascend_supervisor.events.hangs import HangNoticed
from ascend_supervisor.events.supervisor import Defect, Diagnostic
from ascend_supervisor.events.training import (
    TrainingProgress,
    TrainingResumed,
    TrainingSlow,
    TrainingStalled,
    TrainingStarted,
)
from ascend_supervisor.life import Life, Notified
from ascend_supervisor.outcome import Fault, Reached
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.probes.read_output import LOOK_BYTES, rest_after
from ascend_supervisor.probes.training import (
    MOST_SECONDS,
    Attention,
    Training,
)
from ascend_supervisor.progress.pace import FIRST_STEP_SECONDS
from ascend_supervisor.progress.pattern_format import format_of_pattern
from ascend_supervisor.progress.record import TrainingRecord
from tests.clocks import LeapingClock
from tests.probes.lives import life, rank, scheduler

USUAL = Attention()
Told = TypeVar("Told", bound=Event)


class Script(LeapingClock):
    """In the sleeps one thing after the other happens, each at its time; then ``run`` is over."""

    def __init__(self) -> None:
        super().__init__()
        self.run = anyio.CancelScope()
        self.things: list[tuple[float, Callable[[], object]]] = []
        self.is_acting = False

    async def sleep(self, seconds: float) -> None:
        end = self.time + seconds
        while self.things and self.things[0][0] <= end:
            self.time, act = self.things.pop(0)
            self.is_acting = True
            act()
            try:
                await anyio.wait_all_tasks_blocked()
            finally:
                self.is_acting = False
        if not self.things and seconds >= MOST_SECONDS:
            self.run.cancel()
            await anyio.sleep_forever()
        await super().sleep(max(end - self.time, 0.0))


class Stage:
    """One job with ranks that write what a test says."""

    def __init__(
        self, attention: Attention = USUAL, ranks: int = 1, servers: int = 1, *, sees: bool = True
    ) -> None:
        self.clock = Script()
        self.events: list[Event] = []
        self.record = TrainingRecord(60.0, 0.0)
        self.looks = 0
        self.sees = sees
        self.probe = Training(self.record, attention, self._look, self.clock, self.events.append)
        self.outputs = [Activity(0.0) for _ in range(ranks)]
        lives = (rank(number, output) for number, output in enumerate(self.outputs))
        self.life = life(*lives, ranks=ranks, servers=servers)

    async def _look(self, lived: Life) -> str:
        assert lived is self.life
        self.looks += 1
        if not self.sees:
            raise RuntimeError("no eyes")
        return "rank 0 waits in all_reduce"

    def write(self, at: float, text: str, number: int = 0) -> None:
        def act() -> None:
            self.outputs[number].take(text.encode(), self.clock.time)

        self.clock.things.append((at, act))

    def steps(self, numbers: range, at: float, seconds: float = 1.0, of: int = 1000) -> float:
        for step in numbers:
            self.write(at, f" iteration {step:8d}/{of:8d} | consumed samples: 1 |\n")
            at += seconds
        return at - seconds

    async def run(self) -> Fault | None:
        self.probe.begin(self.life)
        with anyio.fail_after(30), self.clock.run:
            return await self.probe.must_end(self.life)
        return None

    def told(self, kind: type[Told]) -> list[Told]:
        return [event for event in self.events if isinstance(event, kind)]


async def test_a_training_that_stands_still_is_told_once_with_a_look_and_goes_on():
    stage = Stage()
    last = stage.steps(range(1, 21), at=10.0)
    stage.steps(range(21, 23), at=last + 500.0)
    await stage.run()
    stall, _ = stage.told(TrainingStalled)  # the other one comes at the end
    assert stall == TrainingStalled(0, 20, 60.0, 60.0, "rank 0 waits in all_reduce")
    assert stage.looks == 2
    (resumed,) = stage.told(TrainingResumed)
    assert resumed == TrainingResumed(0, 21, 500.0, 2500.0)


async def test_the_limit_is_five_times_the_longest_pause():
    stage = Stage()
    last = stage.steps(range(1, 12), at=10.0)
    last = stage.steps(range(12, 21), at=last + 40.0)
    await stage.run()
    (stall,) = stage.told(TrainingStalled)
    assert (stall.silent_seconds, stall.limit_seconds) == (200.0, 200.0)


async def test_whatever_a_rank_prints_shows_that_it_works():
    stage = Stage(ranks=2)
    last = stage.steps(range(1, 21), at=10.0)
    for more in range(1, 20):
        stage.write(last + 30.0 * more, "evaluating\n", number=1)
    stage.steps(range(21, 24), at=last + 600.0)
    await stage.run()
    (at_the_end,) = stage.told(TrainingStalled)
    assert at_the_end.step == 23


@pytest.mark.parametrize("steps", [1, 2, 10])
async def test_before_ten_pauses_the_limit_is_that_of_the_first_step(steps):
    stage = Stage()
    stage.steps(range(1, steps + 1), at=10.0)
    await stage.run()
    (stall,) = stage.told(TrainingStalled)
    assert (stall.step, stall.limit_seconds) == (steps, FIRST_STEP_SECONDS)


async def test_after_the_last_step_none_is_expected():
    stage = Stage()
    stage.steps(range(1, 31), at=10.0, of=30)
    await stage.run()
    assert stage.told(TrainingStalled) == []
    assert stage.told(TrainingProgress)[-1].percent == 100.0


async def test_a_first_step_that_does_not_come_is_told_where_all_ranks_are_here():
    stage = Stage()
    stage.write(5.0, "compiling\n")
    await stage.run()
    (stall,) = stage.told(TrainingStalled)
    assert (stall.step, stall.limit_seconds) == (None, FIRST_STEP_SECONDS)
    elsewhere = Stage(servers=2)
    elsewhere.write(5.0, "compiling\n")
    await elsewhere.run()
    assert elsewhere.told(TrainingStalled) == []


async def test_a_scheduler_that_starts_before_the_ranks_tells_nothing():
    stage = Stage()
    first = stage.life.processes.pop()
    stage.life.processes.append(scheduler(Activity(0.0)))
    stage.clock.things.append((1.0, lambda: stage.life.processes.append(first)))
    stage.steps(range(1, 4), at=2.0)
    await stage.run()
    (started,) = stage.told(TrainingStarted)
    assert (started.step, started.rank) == (1, 0)


async def test_notices_can_be_switched_off():
    stage = Stage(Attention(tells_stalls=False))
    stage.steps(range(1, 31), at=10.0)
    await stage.run()
    assert stage.told(TrainingStalled) == []


async def test_auto_ends_the_generation_with_the_limit_that_was_learnt():
    stage = Stage(Attention(ends_hangs=True), ranks=2)
    stage.steps(range(1, 31), at=10.0)
    fault = await stage.run()
    assert fault is not None
    assert (fault.exit_code, fault.last_look) == (HANG, True)
    assert fault.reason.startswith("no step has come after step 30 for 60 s (--hang-timeout auto)")
    (hang,) = stage.told(HangNoticed)
    assert (hang.source, set(hang.ranks), hang.limit_seconds) == ("steps", {0, 1}, 60.0)


def extend(stage: Stage, at: float, seconds: float) -> None:
    """EXTEND_TIMEOUT_USEC of rank 0."""

    def act() -> None:
        now = stage.clock.time
        stage.life.notified[0] = Notified(now, extended_until=now + seconds)
        stage.life.tell_notified()

    stage.clock.things.append((at, act))


async def test_auto_gives_a_rank_the_time_that_it_asks_for():
    stage = Stage(Attention(ends_hangs=True), ranks=2)
    last = stage.steps(range(1, 31), at=10.0)
    extend(stage, last + 30.0, 500.0)
    fault = await stage.run()
    assert fault is not None
    assert stage.clock.time == pytest.approx(last + 530.0)
    assert "(--hang-timeout auto 60 s, extended by EXTEND_TIMEOUT_USEC)" in fault.reason


async def test_no_stall_is_told_while_a_rank_has_asked_for_more_time():
    stage = Stage()
    last = stage.steps(range(1, 31), at=10.0)
    extend(stage, last + 30.0, 500.0)
    await stage.run()
    assert [round(one.silent_seconds) for one in stage.told(TrainingStalled)] == [530]


@pytest.mark.parametrize(("startup", "end"), [(3000.0, 3000.0), (60.0, FIRST_STEP_SECONDS)])
async def test_with_auto_the_first_step_may_take_as_long_as_a_start(startup, end):
    stage = Stage(Attention(ends_hangs=True, startup=startup))
    fault = await stage.run()
    assert fault is not None
    assert stage.clock.time == pytest.approx(end)


async def test_while_the_ranks_are_being_ended_no_step_is_expected():
    stage = Stage(Attention(ends_hangs=True))
    last = stage.steps(range(1, 31), at=10.0)

    def end() -> None:
        stage.life.is_ending = True

    stage.clock.things.append((last + 1.0, end))
    assert await stage.run() is None


async def test_the_steps_of_a_quiet_rank_wake_nobody():
    stage = Stage(Attention(tells_stalls=False))
    stage.steps(range(1, 4), at=10.0)
    await stage.run()
    assert [type(event) for event in stage.events] == [TrainingStarted]


@pytest.mark.parametrize("size", [10, 100_000])
async def test_a_flood_between_two_steps_hides_neither(size):
    stage = Stage()
    stage.steps(range(1, 4), at=10.0)
    stage.write(20.0, "x" * 79 + "\n")
    stage.write(20.0, ("y" * 79 + "\n") * size)
    stage.write(20.0, " iteration        9/    1000 | consumed samples: 1 |\n")
    await stage.run()
    assert stage.record.step == 9


async def test_a_rank_that_tells_its_steps_later_begins_no_new_count():
    stage = Stage(ranks=2)
    last = stage.steps(range(1, 31), at=10.0)
    late = [f" iteration {step:8d}/    1000 | consumed samples: 1 |\n" for step in range(11, 31)]
    stage.write(last + 1.0, "".join(late), number=1)
    await stage.run()
    assert (stage.record.step, stage.record.teller, stage.record.steps_told) == (30, 0, 30)


async def test_a_generation_that_completes_long_after_its_last_step_did_not_hang():
    for completed, is_stalled in ((True, False), (False, True)):
        stage = Stage()
        stage.steps(range(1, 31), at=10.0)
        await stage.run()
        stage.probe.stop(hung=False, completed=completed)
        kept = stage.record.account(stage.clock.elapsed())
        assert (kept.account["stalled"] > 0, kept.hangs) == (is_stalled, 0)


async def test_steps_that_were_not_looked_at_before_a_failure_are_no_silence():
    stage = Stage()
    last = stage.steps(range(1, 31), at=10.0)
    await stage.run()
    stage.clock.time = last + 2.5
    stage.outputs[0].take(b" iteration       31/    1000 | consumed samples: 1 |\n", last + 1.0)
    stage.probe.stop(hung=False, completed=False)
    assert stage.record.step == 31
    assert stage.record.account(stage.clock.elapsed()).hangs == 0


async def test_ranks_that_share_a_pipe_and_tell_the_same_steps_one_after_the_other():
    stage = Stage()
    said = "".join(f"step {step}/90 | loss 1.0\n" for step in range(1, 11))
    late = "".join(f"step {step}/90 | loss 1.0\n" for step in range(1, 9))
    stage.write(1.0, said + late)
    await stage.run()
    assert stage.record.step == 10


@pytest.mark.parametrize(
    ("spent", "read", "rest"),
    [
        (0.0, 10, 0.05),
        (0.002, LOOK_BYTES, 0.2),
        (0.03, 8 * LOOK_BYTES, 3.0),  # eight ranks that write as fast as they can
        (1.0, 10, 0.5),  # the machine was busy
    ],
)
def test_looks_take_a_small_part_of_the_time(spent, read, rest):
    assert rest_after(spent, read) == pytest.approx(rest)


async def test_a_message_without_a_new_step_is_no_new_sample_of_its_time():
    stage = Stage(ranks=2)
    stage.probe.begin(stage.life)
    for beat in range(10):
        stage.life.notified[0] = Notified(float(beat), step=3, step_at=1.0, step_seconds=9.0)
        stage.life.notified[1] = Notified(
            float(beat), step=3 + beat, step_at=float(beat), step_seconds=1.0
        )
        stage.probe.end(stage.life)
    assert stage.told(TrainingSlow) == []


async def test_a_checkpoint_alone_has_the_time_of_its_message():
    stage = Stage()
    stage.probe.begin(stage.life)
    stage.clock.time = 50.0
    stage.life.notified[0] = Notified(10.0, step=3, step_at=10.0)
    stage.probe.end(stage.life)
    stage.life.notified[0] = Notified(40.0, step=3, step_at=10.0, checkpoint=3)
    stage.probe.begin(stage.life)
    stage.life.notified[0] = Notified(10.0, step=3, step_at=10.0)
    stage.probe.end(stage.life)
    stage.life.notified[0] = Notified(40.0, step=3, step_at=10.0, checkpoint=3)
    stage.probe.end(stage.life)
    known = stage.record.status(50.0, datetime(2026, 11, 25, tzinfo=timezone.utc))
    assert known is not None
    assert known.checkpoint_time == "2026-11-24T23:59:50.000Z"


def of_broken_pattern() -> Attention:
    """Reads every line with a defect."""

    def cpu_seconds() -> float:
        raise RuntimeError("no clock")

    return Attention(patterns=(format_of_pattern("(?P<step>x)", cpu_seconds),))


async def is_ended(stage: Stage) -> bool:
    """Whether it is ended because of its steps, when all has been read."""
    faults: list[Fault | None] = []

    async def run() -> None:
        faults.append(await stage.run())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        while stage.clock.is_acting:  # two who wait for all take each other for blocked
            await anyio.sleep(0.01)
            await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    return any(faults)


async def test_a_defect_in_reading_steps_ends_nothing_and_is_told_once_in_a_generation():
    stage = Stage(of_broken_pattern())
    stage.steps(range(1, 31), at=10.0)
    assert not await is_ended(stage)
    (told,) = stage.told(Defect)
    assert "no clock" in told.msg
    assert stage.probe.end(stage.life) == Reached()
    assert len(stage.told(Defect)) == 1


async def test_a_defect_in_the_look_at_the_end_changes_nothing():
    stage = Stage(of_broken_pattern())
    stage.probe.begin(stage.life)
    stage.outputs[0].take(b"step 5\n", 1.0)
    assert stage.probe.end(stage.life) == Reached()
    assert len(stage.told(Defect)) == 1
    assert stage.record.account(9.0).account["stopping"] == 0.0


async def test_a_defect_in_the_look_before_the_end_is_told_once_and_stops_nothing():
    stage = Stage(of_broken_pattern())
    stage.probe.begin(stage.life)
    stage.probe._find_sources(stage.life)
    stage.outputs[0].take(b"step 5\n", 1.0)
    for _ in range(2):
        stage.probe.stop(hung=False, completed=True)
    assert len(stage.told(Defect)) == 1


async def test_a_defect_in_the_look_at_ranks_that_stand_still_ends_nothing():
    stage = Stage(sees=False)
    stage.steps(range(1, 31), at=10.0)
    assert not await is_ended(stage)
    assert stage.looks == 1
    assert len(stage.told(Defect)) == 1


async def test_lines_that_are_quick_but_slow_together_are_told_once():
    pattern = format_of_pattern(r"^(?:(?P<step>\d+)|(([a-z])+.)+[A-Z])$", thread_time)
    stage = Stage(Attention(patterns=(pattern,)))
    for at in (1.0, 5.0, 9.0):
        stage.write(at, ("a" * 18 + "\n") * 1700)
    await stage.run()
    (told,) = stage.told(Diagnostic)
    assert told.source == "--progress-pattern"
    assert "some were not searched" in told.message
