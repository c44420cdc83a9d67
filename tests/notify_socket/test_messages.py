"""What a message says of its rank."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import asdict

from ascend_supervisor.life import Notified
from ascend_supervisor.notify_socket.messages import MOST_MICROSECONDS, STATUS_CHARACTERS, after

NOW = 100.0


def told(message: bytes, before: Notified | None = None) -> dict[str, object]:
    """What differs from a rank that has said nothing, besides ``heard_at``."""
    found = asdict(after(message, before, NOW))
    assert found.pop("heard_at") == NOW
    nothing = asdict(Notified(NOW))
    return {name: value for name, value in found.items() if value != nothing[name]}


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (b"READY=1", {"ready_at": NOW}),
        (b"STATUS=epoch 3", {"status": "epoch 3"}),
        (b"STATUS=a=b", {"status": "a=b"}),
        (b"STATUS=first\nSTATUS=second", {"status": "second"}),
        (b"STATUS=\xe8\xae\xad\xe7\xbb\x83", {"status": "\u8bad\u7ec3"}),
        (b"WATCHDOG=1", {"watchdog_at": NOW}),
        (b"WATCHDOG=trigger", {"gave_up_at": NOW}),
        (b"WATCHDOG_USEC=1500000", {"watchdog_seconds": 1.5}),
        (b"EXTEND_TIMEOUT_USEC=2500000", {"extended_until": 102.5}),
        (b"STOPPING=1", {"is_stopping": True}),
        (b"READY=1\nSTATUS=up\n", {"ready_at": NOW, "status": "up"}),
        (b"MAINPID=4711\nX_MINE=1\nBARRIER=1\nWATCHDOG=1", {"watchdog_at": NOW}),
    ],
)
def test_what_a_message_says(message, changes):
    assert told(message) == changes


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\n\n",
        b"\0",
        b"READY",
        b"READY=0",
        b"READY=10",
        b"ready=1",
        b" READY=1",
        b"WATCHDOG=2",
        b"STOPPING=0",
        b"WATCHDOG_USEC=",
        b"WATCHDOG_USEC=0",
        b"WATCHDOG_USEC=-1",
        b"WATCHDOG_USEC=1.5",
        b"WATCHDOG_USEC=1e9",
        b"WATCHDOG_USEC= 1",
        b"WATCHDOG_USEC=\xd9\xa1",
        b"WATCHDOG_USEC=" + str(MOST_MICROSECONDS + 1).encode(),
        b"WATCHDOG_USEC=" + b"9" * 5000,
        b"EXTEND_TIMEOUT_USEC=x",
        b"MAINPID=1",
    ],
)
def test_what_is_unknown_or_not_as_expected_changes_nothing(message):
    assert told(message) == {}


def test_a_bad_number_leaves_the_good_one_before():
    before = after(b"WATCHDOG_USEC=2000000\nEXTEND_TIMEOUT_USEC=9000000", None, NOW)
    assert told(b"WATCHDOG_USEC=x\nEXTEND_TIMEOUT_USEC=", before) == {
        "watchdog_seconds": 2.0,
        "extended_until": 109.0,
    }


def test_a_shorter_extension_shortens_nothing():
    before = after(b"EXTEND_TIMEOUT_USEC=9000000", None, NOW)
    assert told(b"EXTEND_TIMEOUT_USEC=1000000", before) == {"extended_until": 109.0}


def test_a_rank_is_ready_from_the_first_time_on_and_its_watchdog_from_the_last():
    before = after(b"READY=1\nWATCHDOG=trigger\nWATCHDOG=1", None, 7.0)
    expected = {"ready_at": 7.0, "gave_up_at": 7.0, "watchdog_at": NOW}
    assert told(b"READY=1\nWATCHDOG=trigger\nWATCHDOG=1", before) == expected


def test_what_was_said_before_stays():
    before = after(b"STATUS=up\nREADY=1", None, 7.0)
    assert told(b"STOPPING=1", before) == {"status": "up", "ready_at": 7.0, "is_stopping": True}
    assert before == Notified(7.0, "up", 7.0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"\x1b]0;title\x07", r"\x1b]0;title\x07"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"50 %\r100 %", r"50 %\r100 %"),
        (b"\xff\xfe", r"\xff\xfe"),
        ("\u202eleft".encode(), r"\u202eleft"),
        ("a\u2028b".encode(), r"a\u2028b"),
        (b"\ta\tb ", "a b"),
        (b"a\0b", "ab"),
        (b"x" * 5000, "x" * STATUS_CHARACTERS),
        (b"\x1b" * 5000, (r"\x1b" * STATUS_CHARACTERS)[:STATUS_CHARACTERS]),
    ],
)
def test_a_status_is_harmless_and_short(text, shown):
    assert told(b"STATUS=" + text)["status"] == shown


LINES = st.sampled_from(
    [b"READY=", b"STATUS=", b"WATCHDOG=", b"WATCHDOG_USEC=", b"EXTEND_TIMEOUT_USEC=", b"", b"\n"]
)


@given(st.lists(st.tuples(LINES, st.binary(max_size=40)), max_size=8))
@example([(b"WATCHDOG_USEC=", b"9" * 30)])
def test_any_bytes_are_a_message(parts):
    message = b"\n".join(name + value for name, value in parts)
    found = after(message, after(message, None, 1.0), NOW)
    assert found.heard_at == NOW
    assert len(found.status) <= STATUS_CHARACTERS
    assert "\n" not in found.status
    assert found.status.isprintable() or found.status.encode().isascii() is False
    assert found.watchdog_seconds is None or 0 < found.watchdog_seconds < 2e13
    assert found.extended_until == 0.0 or found.extended_until > 1.0
