"""No cause is found in what healthy trainings print."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ascend_supervisor.causes.scan import matches
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.evidence.diagnosed import diagnosis_of
from ascend_supervisor.evidence.speakers import LINE_CHARACTERS, without_warnings
from ascend_supervisor.outcome import ExitStatus, Failure
from tests.causes.healthy import grown, healthy_logs
from tests.evidence.corpus import cases

ROWS = tuple(CAUSES.values())
LOGS = healthy_logs()
MEGABYTE = 1_000_000


def signs(lines: Sequence[str]) -> set[tuple[str, str]]:
    """Each cause that an output with these lines shows, with the line."""
    told = without_warnings([line[:LINE_CHARACTERS] for line in lines])
    return {(match.cause.id, told[match.line]) for match in matches(told, "output", ROWS)}


@pytest.mark.parametrize(
    "size", [MEGABYTE, pytest.param(10 * MEGABYTE, marks=pytest.mark.long)], ids=["1MB", "10MB"]
)
@pytest.mark.parametrize("name", LOGS)
def test_a_healthy_log_shows_no_cause(name: str, size: int):
    assert signs(grown(LOGS[name], size)) == set()


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("status", [1, 3, -6])
def test_who_ends_after_healthy_lines_has_no_cause(name: str, status: int):
    """What is only a sign in an exception is one in the exceptions that were handled, too."""
    failure = Failure("rank 0", 0, 0, ExitStatus.of(status), 1.0, last_lines=tuple(LOGS[name]))
    assert diagnosis_of(failure, LOGS["ascend"]) is None


def test_the_logs_are_hundreds_of_real_lines():
    """A few lines again and again would show little."""
    lines = {line for log in LOGS.values() for line in log}
    assert len(lines) > 1000
    assert len(LOGS["mindspore"]) > 500


def test_the_same_scan_finds_what_failures_print():
    seen = [case.lines for case in cases() if case.group != "unseen"]
    assert len(list(filter(signs, seen))) > len(seen) / 4
