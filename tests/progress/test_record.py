"""What follows from steps over the generations of a job: events, limits, how far each came."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

import msgspec
import pytest
from msgspec.structs import replace

from ascend_supervisor.events import Event
from ascend_supervisor.events.training import (
    CheckpointSaved,
    TrainingNormal,
    TrainingProgress,
    TrainingSlow,
    TrainingStarted,
)
from ascend_supervisor.outcome import LastSeen, Reached
from ascend_supervisor.progress.account import KeptAccount
from ascend_supervisor.progress.pace import FIRST_STEP_SECONDS
from ascend_supervisor.progress.progress import ProgressStatus, SharedSteps
from ascend_supervisor.progress.reader import Reader
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.record import TrainingRecord

KNOWN = "megatron"
DAY = datetime(2026, 11, 25, tzinfo=timezone.utc)


def record(interval: float = 1e9) -> TrainingRecord:
    """Of a job whose first generation has begun."""
    begun = TrainingRecord(interval, 0.0)
    begun.begin(0, 0.0)
    return begun


def told(job: TrainingRecord, steps: Iterable[int], at: float, pause: float = 1.0) -> list[Event]:
    """What is reported of ``steps``, the first ``at`` seconds, one in each ``pause``."""
    events: list[Event] = []
    for number, step in enumerate(steps):
        events += job.take([Reading(at + number * pause, KNOWN, step, 1000)], 0)
    return events


def test_slow_steps_are_told_once_and_so_is_that_they_are_over():
    job = record()
    assert [type(one) for one in told(job, range(1, 151), 10.0)] == [TrainingStarted]
    assert told(job, range(151, 201), 160.3, 1.3) == [TrainingSlow(0, 155, 1.3, 1.0)]
    assert told(job, range(201, 251), 225.0, 1.0) == [TrainingNormal(0, 213, 1.0, 1.0)]


def test_the_rank_is_named_whose_own_steps_take_longer():
    job = record()
    events: list[Event] = []
    for step in range(1, 31):
        slow = 1.3 if 10 < step <= 20 else 1.0
        for rank, seconds in enumerate([1.0, slow, 1.0, 1.0]):
            reading = Reading(float(step), "notify", step, seconds=seconds)
            events += job.take([reading], rank)
    assert events[1:] == [TrainingSlow(0, 13, 1.3, 1.0, 1), TrainingNormal(0, 23, 1.0, 1.0, 1)]


def test_progress_is_told_once_in_an_interval_and_at_the_end():
    steps = [
        event.step
        for event in told(record(interval=300.0), range(1, 1001), 10.0)
        if isinstance(event, TrainingProgress)
    ]
    assert steps == [301, 601, 901, 1000]


def test_a_checkpoint_is_told_once_in_a_generation():
    job = record()
    told(job, range(1, 11), 10.0)
    saved = Reading(20.0, KNOWN, checkpoint=10)
    assert job.take([saved, saved], 3) == [CheckpointSaved(0, 10)]
    assert job.take([saved], 5) == []


def test_a_start_ends_with_the_first_step_of_a_count_that_is_believed_later():
    job = record()
    (started,) = job.take([Reading(10.0, KNOWN, 1, 1000), Reading(12.0, KNOWN, 3, 1000)], 0)
    assert isinstance(started, TrainingStarted)
    assert (started.step, started.start_seconds) == (1, 10.0)
    account = job.account(13.0).account
    assert (account["start"], account["training"]) == (10.0, 3.0)
    known = job.status(13.0, DAY)
    assert known is not None
    assert (known.step, known.seconds_per_step) == (3, 1.0)


def test_a_checkpoint_before_the_first_step_has_its_time():
    job = record()
    job.take([Reading(20.0, KNOWN, checkpoint=0)], 0)
    told(job, [1], 30.0)
    known = job.status(40.0, DAY)
    assert known is not None
    assert (known.checkpoint_step, known.checkpoint_time) == (0, "2026-11-24T23:59:40.000Z")


def test_messages_come_before_a_pattern_and_a_pattern_before_known_formats():
    job = record()
    for at, (name, step) in enumerate([(KNOWN, 500), ("pattern", 50), ("notify", 5)]):
        job.take([Reading(float(at), name, step)], 0)
        assert job.step == step
    job.take([Reading(9.0, "pattern", 51), Reading(9.0, KNOWN, 501)], 0)
    assert job.step == 5


def test_on_one_server_of_several_a_first_step_is_expected_if_it_came_before():
    job = record()
    assert job.limit(told_here=True) == FIRST_STEP_SECONDS
    assert job.limit(told_here=False) is None
    told(job, range(1, 21), 10.0)
    job.stop(40.0, hung=False)
    job.end(41.0)
    job.begin(1, 50.0)
    assert job.limit(told_here=False) == FIRST_STEP_SECONDS


def test_a_generation_is_stuck_that_does_not_pass_the_best_step_before_it():
    job = record()
    reached = []
    for generation, steps in enumerate([range(1, 21), range(11, 21), (), range(11, 22)]):
        job.begin(generation, 100.0 * generation)
        told(job, steps, 100.0 * generation + 5.0)
        job.take([Reading(100.0 * generation + 50.0, KNOWN, checkpoint=10)], 0)
        job.stop(100.0 * generation + 60.0, hung=False)
        reached.append(replace(job.end(100.0 * generation + 61.0), short=None))
    assert reached == [
        Reached(step=20, best=None, lost=10),
        Reached(step=20, best=20, lost=10, is_stuck=True),
        Reached(step=None, best=20, lost=10, is_stuck=True),
        Reached(step=21, best=20, lost=11),
    ]


def test_a_server_that_joins_later_goes_on_with_the_account_of_the_job_and_its_best_step():
    old = record()
    told(old, range(1, 41), 5.0)
    old.stop(50.0, hung=True)
    old.end(52.0)
    shared = old.told(60.0)
    assert shared is not None
    shared = msgspec.json.decode(msgspec.json.encode(shared), type=SharedSteps)
    assert shared.account == old.account(60.0)
    new = TrainingRecord(1e9, 1000.0)
    new.go_on(shared.account, 1036.0)
    assert new.account(1036.0) == old.account(60.0)
    new.wait(1036.0)
    new.begin(1, 1040.0)
    told(new, range(21, 31), 1045.0)
    assert replace(new.end(1055.0), short=None) == Reached(step=30, best=40, is_stuck=True)
    account = new.account(1055.0)
    assert (account.generations, account.hangs, account.account["waiting"]) == (2, 1, 4.0)
    assert (account.account["trained_again"], account.account["training"]) == (10.0, 39.0)


@pytest.mark.parametrize("steps", [range(0), range(30, 45)], ids=["before a step", "in steps"])
def test_a_generation_that_is_withdrawn_costs_its_time_once(steps):
    job = record()
    told(job, range(1, 41), 5.0)
    job.stop(45.0, hung=False)
    job.end(46.0)
    job.wait(46.0)
    job.begin(1, 50.0)
    told(job, steps, 52.0)
    job.stop(70.0, hung=False)
    job.end(71.0)
    job.wait(71.0)  # one that is withdrawn before it starts only waits
    job.wait(75.0)
    job.begin(3, 80.0)
    told(job, range(20, 51), 82.0)
    account = job.account(112.0)
    assert sum(account.account.values()) == 112.0
    assert account.generations == 3
    assert account.account["waiting"] == 13.0
    assert account.account["stopping"] == 2.0
    assert account.best_step == 50
    # In generation 3 the steps up to the best one before it were trained already.
    again = 20.0 if not steps else 24.0
    assert account.account["trained_again"] >= again
    assert account.account["start"] == (27.0 if not steps else 9.0)


def test_who_knows_as_many_generations_keeps_an_account_of_its_own():
    job = record()
    before = job.account(9.0)
    job.go_on(KeptAccount({"training": 3600.0}, 90.0, 1000, 0, 1), 9.0)
    assert job.account(9.0) == before


def test_steps_that_are_heard_of_after_the_end_count_as_the_best_ones_and_are_no_news():
    job = record()
    job.stop(9.0, hung=False)
    assert job.end(9.5) == Reached()
    before = job.account(20.0).account
    late = SharedSteps(0, 7, 2.0, Reading(0.0, KNOWN, 30, 1000))
    assert job.hear(late, 12.0) == []
    assert job.account(20.0).account == {**before, "start": 9.0, "unknown": 0.0}
    job.begin(1, 20.0)
    job.take([Reading(21.0, KNOWN, 20)], 0)
    assert replace(job.end(22.0), short=None) == Reached(step=20, best=30, is_stuck=True)
    account = job.account(22.0).account
    assert (account["trained_again"], account["training"]) == (1.0, 0.0)


def test_what_another_format_counts_changes_neither_the_total_nor_the_limit():
    job = record()
    job.take([Reading(1.0, "notify", step=500, steps=5000)], 0)
    for at in range(2, 13):
        job.take([Reading(float(at), "notify", step=498 + at)], 0)
    job.take([Reading(13.0, "tqdm", step=3, steps=100, seconds=9.0)], 1)
    job.take([Reading(14.0, "notify", step=511)], 0)
    known = job.status(15.0, DAY)
    assert known is not None
    assert (known.step, known.steps) == (511, 5000)
    assert job.limit(told_here=True) == 60.0


def test_a_total_that_a_banner_tells_counts():
    job = record()
    job.take([Reading(1.0, "banner", steps=420)], 0)
    job.take([Reading(2.0, KNOWN, step=1)], 3)
    known = job.status(3.0, DAY)
    assert known is not None
    assert known.steps == 420


def test_after_a_generation_that_was_complete_a_first_step_is_expected_again():
    job = record()
    job.take([Reading(1.0, KNOWN, step=10, steps=10)], 0)
    assert job.limit(told_here=True) is None
    job.stop(2.0, hung=False)
    job.end(3.0)
    job.begin(1, 4.0)
    assert job.limit(told_here=True) == FIRST_STEP_SECONDS


def test_a_start_without_a_step_keeps_what_earlier_starts_have_left():
    earlier = KeptAccount({"training": 3600.0}, 90.0, 1000, 0, 3, 1)
    job = TrainingRecord(60.0, 0.0, earlier)
    job.begin(0, 6.0)
    job.stop(20.0, hung=False)
    job.end(21.0)
    known = job.status(22.0, DAY)
    assert known is not None
    assert (known.step, known.best_step) == (None, 1000)
    assert known.kept == job.account(22.0)
    assert known.kept.account["training"] == 3600.0


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 2**80},
        {"step": -1},
        {"account": {"training": 1e308}},
        {"account": {"training": -5.0}},
        {"format": "\x1b[2J"},
        {"hangs": -1},
    ],
)
def test_a_forged_status_is_none(changes):
    job = record()
    told(job, range(1, 5), 1.0)
    known = msgspec.to_builtins(job.status(9.0, DAY))
    assert msgspec.convert(known, ProgressStatus) == job.status(9.0, DAY)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**known, **changes}, ProgressStatus)


@pytest.mark.parametrize("changes", [{"step": 2**80}, {"steps": -3}, {"format": "\x1b[2Jx"}])
def test_a_forged_record_of_other_servers_is_none(changes):
    shared = {"generation": 0, "rank": 0, "age": 1.0, "reading": {"at": 0.0, "format": "tqdm"}}
    assert msgspec.convert(shared, SharedSteps).reading.format == "tqdm"
    reading = {"at": 0.0, "format": "tqdm", **changes}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**shared, "reading": reading}, SharedSteps)


def test_a_total_of_no_steps_is_no_total():
    job = record(interval=0.0)
    events = job.take([Reading(1.0, "notify", step=1, steps=0)], 0)
    assert [event.msg for event in events if isinstance(event, TrainingProgress)] == ["step 1"]


def monitored(*told: str) -> TrainingRecord:
    """What MindSpore's monitors write in sink mode: a line an epoch, each in a second."""
    job, reader = record(), Reader()
    for at, line in enumerate(told):
        job.take(reader.read(line.encode() + b"\n", 10.0 * at), 0)
    return job


def test_how_long_a_step_takes_is_unknown_if_one_is_told_in_an_epoch_of_unknown_length():
    job = monitored(*(f"epoch: {epoch} step: 1875, loss is 0.71" for epoch in range(1, 30)))
    known = job.status(300.0, DAY)
    assert known is not None
    assert (known.step, known.epoch, known.seconds_per_step) == (1875, 29, None)


@pytest.mark.parametrize("kind", ["Train epoch", "epoch"])
def test_how_long_a_step_takes_is_known_if_the_time_monitor_tells_it(kind):
    time = f"{kind} time: 93750.000 ms, per step time: 50.000 ms"
    lines = [
        *("epoch: 1 step: 1875, loss is 0.71", time),
        *("Eval epoch time: 9.000 ms, per step time: 9.000 ms", "epoch: 2 step: 1875, loss is 0.7"),
    ]
    for count in (2, 4):
        known = monitored(*lines[:count]).status(300.0, DAY)
        assert known is not None
        assert known.seconds_per_step == 0.05


def test_steps_are_lost_from_where_the_next_generation_really_went_on():
    job = record()
    told(job, range(1, 101), 10.0)
    job.take([Reading(110.0, KNOWN, checkpoint=90)], 0)
    job.stop(111.0, hung=False)
    assert replace(job.end(112.0), short=None) == Reached(step=100, lost=10)
    job.begin(1, 120.0)
    job.take([Reading(125.0, KNOWN, resumed=40)], 0)  # that of step 90 cannot be loaded
    (started,) = told(job, range(41, 61), 130.0)
    assert isinstance(started, TrainingStarted)
    assert (started.resumed_step, started.steps_lost) == (40, 60)
    assert started.msg.endswith("resumed at step 40, 60 steps lost")
    job.stop(150.0, hung=False)
    assert replace(job.end(151.0), short=None) == Reached(step=60, best=100, lost=60, is_stuck=True)
    job.begin(2, 160.0)
    (started,) = told(job, range(41, 61), 170.0)
    assert isinstance(started, TrainingStarted)
    assert started.steps_lost is None


def test_a_later_start_in_the_same_place_judges_stalls_by_the_pauses_of_the_earlier_ones():
    job = record()
    told(job, range(1, 16), 10.0, pause=40.0)
    written = msgspec.json.encode(job.status(600.0, DAY))
    later = TrainingRecord(60.0, 0.0, msgspec.json.decode(written, type=ProgressStatus).kept)
    later.begin(0, 5.0)
    told(later, [10], 9.0)
    assert later.limit(told_here=True) == 200.0
    assert later.longest_pause == 40.0
    known = later.status(10.0, DAY)
    assert known is not None
    assert (known.pauses, known.longest_pause_seconds, known.seconds_per_step) == (14, 40.0, None)


def test_a_server_that_joins_later_judges_stalls_by_the_pauses_of_the_job():
    old = record()
    told(old, range(1, 16), 10.0, pause=40.0)
    new = TrainingRecord(60.0, 0.0)
    new.go_on(old.account(600.0), 1.0)
    new.begin(1, 5.0)
    told(new, [16], 9.0)
    assert new.limit(told_here=True) == 200.0


@pytest.mark.parametrize(
    ("steps", "total", "resumed", "short"),
    [
        (range(1, 16), 40, None, LastSeen(15, 40)),
        (range(40), 40, None, None),  # counted from 0
        (range(1, 40), 40, None, None),  # the last batch is dropped
        (range(1, 982), 1000, None, None),
        (range(1, 901), 1000, None, LastSeen(900, 1000)),
        (range(10, 31, 10), 45, None, None),  # each tenth is told: the next one may have come
        (range(10, 31, 10), 90, None, LastSeen(30, 90)),
        ([100], 150, None, None),
        ([100], 1000, None, LastSeen(100, 1000)),
        ([1100], 1150, 1000, None),
        ([1100], 2000, 1000, LastSeen(1100, 2000)),
        (range(1, 16), None, None, None),
    ],
)
def test_a_generation_fell_short_if_more_than_two_told_steps_are_missing(
    steps, total, resumed, short
):
    job = record()
    job.begin(0, 0.0)
    if resumed is not None:
        job.take([Reading(0.5, "x", resumed=resumed)], 0)
    for at, step in enumerate(steps, 1):
        job.take([Reading(float(at), "x", step=step, steps=total)], 0)
    assert job.reached.short == short


def test_nothing_is_known_of_the_last_step_that_only_another_server_has_told():
    job = record()
    job.begin(0, 0.0)
    job.hear(SharedSteps(0, 8, 5.0, Reading(0.0, "x", step=15, steps=40)), 10.0)
    assert job.step == 15
    assert job.reached.short is None
