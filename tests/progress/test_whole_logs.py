"""What whole logs of frameworks tell, record by record, against the truth about them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from ascend_supervisor.events.training import TrainingStarted
from ascend_supervisor.progress.reader import Reader
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.record import TrainingRecord
from tests.progress.logs import CRASH, FRAMEWORKS, Log

UNSURE = 3
"""With so many steps a bar is believed that may count anything; its first is told with it then."""


def log_of(framework: Callable[[Log], None]) -> Log:
    log = Log()
    framework(log)
    return log


def told(readings: list[Reading], what: str) -> list[int]:
    values = (getattr(one, what) for one in readings)
    return [value for value in values if value is not None]


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.__name__)
def test_each_record_tells_what_it_says_and_nothing_else(framework: Callable[[Log], None]):
    reader, log = Reader(), log_of(framework)
    first = next(truth.step for _, truth in log.records if truth.step)
    for number, (record, truth) in enumerate(log.records):
        readings = reader.read(record, number)
        place = f"record {number}: {record!r}"
        for what in ("checkpoint", "resumed"):
            value = getattr(truth, what)
            assert told(readings, what) == ([] if value is None else [value]), (what, place)
        known = [[truth.step] if truth.step else []]
        if truth.step and truth.step <= UNSURE:
            known += [[], [first, truth.step]]
        assert told(readings, "step") in known, place
        assert set(told(readings, "steps")) <= {truth.steps}, place
        if truth.steps is not None and told(readings, "step"):
            assert set(told(readings, "steps")) == {truth.steps}, place


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.__name__)
def test_before_each_event_all_is_known_that_was_told(framework: Callable[[Log], None]):
    """A checkpoint, a crash, an evaluation, a word of anything else: whatever is no step."""
    reader, known, true = Reader(), dict[str, int](), dict[str, int]()
    for number, (record, truth) in enumerate(log_of(framework).records):
        readings = reader.read(record, number)
        for what in ("step", "steps", "checkpoint", "resumed"):
            for value in told(readings, what):
                known[what] = value
            if getattr(truth, what) is not None:
                true[what] = getattr(truth, what)
        if truth.step is None:
            assert known == true, f"record {number}: {record!r}"


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.__name__)
def test_it_is_the_same_however_the_bytes_are_cut(framework: Callable[[Log], None]):
    data = b"".join(record for record, _ in log_of(framework).records)
    whole = Reader()
    expected = [*whole.read(data, 0), *whole.end(0)]
    assert expected
    random = Random(framework.__name__)  # noqa: S311  (to be the same each time)
    reader, readings, at = Reader(), [], 0
    while at < len(data):
        size = random.choice((1, 2, 7, 100, 5000))
        readings += reader.read(data[at : at + size], 0)
        at += size
    assert [*readings, *reader.end(0)] == expected


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.__name__)
def test_each_generation_starts_once_and_only_what_a_crash_cost_is_trained_again(framework):
    """Bars of evaluations and data beside the lines of a framework are no other count."""
    job = TrainingRecord(60.0, 0.0)
    job.begin(0, 0.0)
    reader, starts = Reader(), []
    records = [record for record, _ in log_of(framework).records]
    crash = records.index(CRASH[-1].encode())
    for at, record in enumerate(records):
        if at == crash:
            job.stop(at, hung=False)
            assert job.end(at).step
            job.begin(1, at)
            reader = Reader()
        told = job.take(reader.read(record, at), 0)
        starts += [one.generation for one in told if isinstance(one, TrainingStarted)]
    assert starts == [0, 1]
    assert not job.end(len(records)).is_stuck
    account = job.account(len(records)).account
    assert 0 < account["trained_again"] < account["training"]


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.__name__)
def test_a_training_that_is_whole_has_not_ended_short_and_one_in_its_middle_has(framework):
    """As far as its total is known."""
    job = TrainingRecord(60.0, 0.0)
    job.begin(0, 0.0)
    reader = Reader()
    records = log_of(framework).records
    crash = [record for record, _ in records].index(CRASH[-1].encode())
    total = next((truth.steps for _, truth in records if truth.steps), None)
    for at, (record, _) in enumerate(records):
        if at == crash:
            assert total is None or job.reached.short is not None
            job.begin(1, at)
            reader = Reader()
        job.take(reader.read(record, at), 0)
    job.take(reader.end(len(records)), 0)
    assert job.reached.short is None
