"""Times and colours of events as text."""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import timedelta, timezone
from typing import Any

import pytest

from ascend_supervisor.reporters.event_log import TextEvents

BEIJING = timezone(timedelta(hours=8), "CST")


def told(ts: str, level: str = "info", msg: str = "words") -> MutableMapping[str, Any]:
    return {"ts": ts, "level": level, "msg": msg}


def test_date_and_zone_are_told_once_and_again_when_the_day_changes():
    text = TextEvents(in_colour=False, zone=BEIJING)
    moments = ("15:59:58.999999", "15:59:59.000001", "16:00:00.100000", "16:00:01.200000")
    lines = [text(None, "", told(f"2024-02-29T{moment}Z")).decode() for moment in moments]
    assert lines == [
        "2024-02-29 23:59:58.999 +08:00 words\n",
        "23:59:59.000 words\n",
        "2024-03-01 00:00:00.100 +08:00 words\n",
        "00:00:01.200 words\n",
    ]


def test_utc_has_its_name():
    text = TextEvents(in_colour=False, zone=timezone.utc)
    assert text(None, "", told("2024-02-29T12:00:00.000000Z")) == (
        b"2024-02-29 12:00:00.000 UTC words\n"
    )


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("info", "words"),
        ("warning", "\x1b[33mwarning: words\x1b[0m"),
        ("error", "\x1b[1;31merror: words\x1b[0m"),
    ],
)
def test_a_failure_is_red_and_a_warning_yellow(level, shown):
    text = TextEvents(in_colour=True, zone=timezone.utc)
    line = text(None, "", told("2024-02-29T12:00:00.000000Z", level)).decode()
    assert line == f"2024-02-29 12:00:00.000 UTC {shown}\n"
