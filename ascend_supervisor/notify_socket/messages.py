"""A message of sd_notify(3), as what is known of its rank afterwards; pure.

Lines that are unknown, or whose value is not as expected, are ignored.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from ascend_supervisor.life import Notified
from ascend_supervisor.untrusted_text import harmless_text

STATUS_CHARACTERS = 200
MOST_STEPS = 10**12
DECIMAL = re.compile(rb"[0-9]{1,9}(?:\.[0-9]{1,9})?")
MOST_MICROSECONDS = 2**64 - 1
"""systemd's infinity."""


def after(message: bytes, before: Notified | None, now: float) -> Notified:
    """What is known of a rank after its ``message``, which came at ``now`` seconds."""
    known = Notified(now) if before is None else replace(before, heard_at=now)
    for line in message.split(b"\n"):
        name, _, value = line.partition(b"=")
        known = _after_line(name, value, known, now)
    return known


def _after_line(name: bytes, value: bytes, known: Notified, now: float) -> Notified:
    match name, value:
        case b"READY", b"1":
            return replace(known, ready_at=_earliest(known.ready_at, now))
        case b"STATUS", text:
            return replace(known, status=_status(text))
        case b"WATCHDOG", b"1":
            return replace(known, watchdog_at=now)
        case b"WATCHDOG", b"trigger":
            return replace(known, gave_up_at=_earliest(known.gave_up_at, now))
        case b"WATCHDOG_USEC", number:
            return replace(known, watchdog_seconds=_seconds(number) or known.watchdog_seconds)
        case b"EXTEND_TIMEOUT_USEC", number:
            return replace(known, extended_until=_extended(known.extended_until, number, now))
        case b"STOPPING", b"1":
            return replace(known, is_stopping=True)
        case ((b"X_STEP" | b"X_STEPS" | b"X_CHECKPOINT" | b"X_SECONDS"), number):
            return _after_step(name, number, known, now)
        case _:
            return known


def _after_step(name: bytes, number: bytes, known: Notified, now: float) -> Notified:
    if name == b"X_SECONDS":
        seconds = _step_seconds(number)
        return known if seconds is None else replace(known, step_seconds=seconds)
    count = _count(number)
    if count is None:
        return known
    match name:
        case b"X_STEP":
            return replace(known, step=count, step_at=now)
        case b"X_STEPS":
            return replace(known, steps=count)
        case _:
            return replace(known, checkpoint=count)


def _count(number: bytes) -> int | None:
    """None for what is not a number of steps."""
    if not number.isdigit() or len(number) > len(str(MOST_STEPS)):
        return None
    count = int(number)
    return count if count <= MOST_STEPS else None


def _step_seconds(number: bytes) -> float | None:
    """None for what is not a decimal number of seconds above 0."""
    found = DECIMAL.fullmatch(number)
    return float(number) or None if found else None


def _earliest(before: float | None, now: float) -> float:
    return now if before is None else before


def _extended(until: float, microseconds: bytes, now: float) -> float:
    """Never earlier than it was."""
    seconds = _seconds(microseconds)
    return until if seconds is None else max(until, now + seconds)


def _seconds(microseconds: bytes) -> float | None:
    """None for what is not a number of microseconds above 0."""
    if not microseconds.isdigit() or len(microseconds) > len(str(MOST_MICROSECONDS)):
        return None
    number = int(microseconds)
    return number / 1e6 if 0 < number <= MOST_MICROSECONDS else None


def _status(text: bytes) -> str:
    """Harmless for terminals, on one line, at most STATUS_CHARACTERS long."""
    begin = text.decode("utf-8", "backslashreplace")[:STATUS_CHARACTERS]
    return harmless_text(begin).replace("\t", " ")[:STATUS_CHARACTERS].strip()
