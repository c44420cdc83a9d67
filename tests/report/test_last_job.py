"""Which starts in an event log belong to its last job."""

from __future__ import annotations

import pytest

from ascend_supervisor.report.last_job import of_last_job, of_last_jobs
from tests.report.logs import event


def start(job: str, at: float, **keys: object) -> dict[str, object]:
    return event("supervisor.started", at, **{"job_id": job, **keys})


def end(code: int, at: float) -> dict[str, object]:
    return event("supervisor.exited", at, exit_code=code)


@pytest.mark.parametrize(
    ("before", "last", "kept"),
    [
        ([start("a", 0), end(1, 1)], start("b", 2), 1),
        ([start("a", 0), end(1, 1)], start("a", 2), 3),
        ([start("a", 0), event("x", 1)], start("a", 2), 3),
        ([start("a", 0), end(0, 1)], start("a", 2), 1),
        ([start("a", 0), end(1, 1)], start("a", 2, host="pod-1"), 1),
        ([start("job", 0), end(1, 1)], start("job", 2), 1),
        ([start("b", 0), end(1, 1), start("a", 2), end(1, 3)], start("a", 4), 3),
        ([event("x", 0)], start("a", 2), 1),
    ],
    ids=[
        *("another job", "again after a failure", "again after a kill", "again after success"),
        *("another pod", "no name", "again, after another job", "an older file was cut"),
    ],
)
def test_starts_of_the_same_job_belong_together_until_it_succeeds(before, last, kept):
    events = [*before, last, event("generation.started", 9)]
    assert of_last_job(events) == events[-kept - 1 :]


def test_a_log_without_a_start_is_of_one_job():
    events = [event("generation.started", 0), event("generation.ended", 1)]
    assert of_last_job(events) == events


def test_of_several_hosts_each_has_its_last_job_however_their_logs_are_mixed():
    one = [start("a", 0), end(0, 1), start("b", 2), end(1, 3), start("b", 4)]
    other = [start("b", at, host="pod-1") for at in (1, 3)]
    nobody: dict[str, object] = {"event": "of nobody"}
    mixed = [one[0], other[0], *one[1:4], other[1], one[4], nobody]
    for events in ([*one, *other], mixed):
        assert of_last_jobs(events) == {"pod-0": one[2:], "pod-1": other}
