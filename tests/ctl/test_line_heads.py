"""When a line was written, and at which level, as loggers write it."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from ascend_supervisor.ctl.line_heads import Span, is_ours, next_stamp, severity_of, time_of
from ascend_supervisor.evidence.log_records import LEVELS

NOON = datetime(2026, 11, 26, 12, 0, 0).timestamp()  # noqa: DTZ001  (local, as loggers write it)
IN_UTC = datetime(2026, 11, 26, 12, 0, 0, tzinfo=timezone.utc).timestamp()
SPAN = Span(NOON - 3600, NOON + 3600)

LINES = [
    ("2026-11-26 12:00:00,500 - root - WARNING - slow", 0.5, "warning"),
    ("[2026-11-26 12:00:00,500] [ERROR] [engine.py:12:run] it broke", 0.5, "error"),
    ("2026-11-26 12:00:00.500 | INFO     | train:main:3 - step", 0.5, "info"),
    ("\x1b[32m2026-11-26 12:00:00.500\x1b[0m step", 0.5, None),
    ("[WARNING|trainer.py:816] 2026-11-26 12:00:00,500 >> slow", 0.5, "warning"),
    ("11/26/2026 12:00:00 - INFO - __main__ - step", 0, "info"),
    (" [2026-11-26 12:00:00] iteration  10/  100 | loss: 1.0", 0, None),
    ("[ERROR] HCCL(12,python):2026-11-26-12:00:00.250.500 [a.cc:12] [13] broke", 0.2505, "error"),
    ("[WARNING] ME(1:2,MainProcess):2026-11-26-12:00:00.250.500 [a.py:12] slow", 0.2505, "warning"),
    ("[EVENT] HCCL(1,python):2026-11-26-12:00:00.250.500 [a.cc:1] [2] up", 0.2505, "info"),
    ("W1126 12:00:00.500000 1234 a.cc:12] slow", 0.5, "warning"),
    ("F20261126 12:00:00.500000 1234 a.cc:12] over", 0.5, "critical"),
    ("[rank0]:[E1126 12:00:00.500000000 ProcessGroupHCCL.cpp:1] broke", 0.5, "error"),
    ("[rank3]:W1126 12:00:00.500000 12 torch/a.py:3] slow", 0.5, "warning"),
    ("2026-11-26 12:00:00.500000: W tensorflow/a.cc:1] slow", 0.5, "warning"),
    ('{"level": "warning", "ts": "2026-11-26T12:00:00.500", "msg": "slow"}', 0.5, "warning"),
    ("WARNING:root:slow", None, "warning"),
    ("/opt/train.py:12: FutureWarning: old", None, "warning"),
    ("Traceback (most recent call last):", None, "error"),
    ("[rank1]: Traceback (most recent call last):", None, "error"),
    ("loss 1.0, errors: none at 12:00:00", None, None),
    ("saved at 2026-11-26 12:00:00", None, None),
    ("", None, None),
]


@pytest.mark.parametrize(("line", "after", "level"), LINES)
def test_time_and_level_are_where_loggers_put_them(line, after, level):
    expected = None if after is None else pytest.approx(NOON + after, abs=1e-3)
    assert time_of(line.encode(), SPAN) == expected
    assert next_stamp(f"1:00:00\n{line}\n".encode()) == (-1 if after is None else 8)
    severity = severity_of(line.encode())
    assert (None if severity is None else LEVELS[severity]) == level


@pytest.mark.parametrize(
    ("stamp", "offset"),
    [
        ("2026-11-26T12:00:00Z", 0),
        ("2026-11-26T12:00:00+08:00", -8 * 3600),
        ("2026-11-26 12:00:00.5 -0130", 5400.5),
    ],
)
def test_a_zone_counts(stamp, offset):
    assert time_of(f"{stamp} up".encode(), Span(IN_UTC, IN_UTC)) == IN_UTC + offset


def test_our_own_lines_have_a_time_and_a_level():
    line = b"[ascend_supervisor] 2026-11-26T12:00:00.500000+00:00 generation 0 of rank 0 begins\n"
    assert is_ours(line)
    assert time_of(line, Span(IN_UTC, IN_UTC)) == IN_UTC + 0.5
    assert severity_of(line) == LEVELS.index("info")
    lost = line.replace(b"generation 0 of rank 0 begins", b"12 bytes are missing here: full")
    assert severity_of(lost) == LEVELS.index("warning")


@pytest.mark.parametrize("day", ["2020-01-01", "2027-01-01", "2026-02-30", "2026-13-01"])
def test_a_date_that_is_not_near_the_times_of_the_file_is_no_time_of_the_line(day):
    assert time_of(f"{day} 12:00:00 quoted".encode(), SPAN) is None


def test_in_january_a_stamp_without_a_year_may_be_of_december():
    new_year = datetime(2027, 1, 1, 0, 1, 0).timestamp()  # noqa: DTZ001
    late = time_of(b"I1231 23:59:00.250000 1 a.cc:1] up", Span(new_year - 600, new_year))
    assert late == new_year - 120 + 0.25
