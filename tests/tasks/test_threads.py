"""An answer that may not come in time."""

from __future__ import annotations

from threading import Event

from ascend_supervisor.tasks.threads import answer_of


def test_an_answer_in_time_is_taken():
    assert answer_of(lambda: "there", 30.0, "unknown") == "there"


def test_where_none_comes_in_time_the_other_counts():
    never = Event()
    try:
        assert answer_of(lambda: str(never.wait()), 0.01, "unknown") == "unknown"
    finally:
        never.set()
