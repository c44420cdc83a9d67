"""What all reporters have in common."""

from __future__ import annotations

from ascend_supervisor.events import Event, SignalReceived, SupervisorExited
from ascend_supervisor.reporters import fan_out


def test_all_hear_everything_in_order_until_the_last_event():
    first: list[Event] = []
    second: list[Event] = []
    report = fan_out((first.append, second.append))
    heard = [SignalReceived("SIGTERM", "stopping"), SupervisorExited(143, "told to stop", 0, None)]
    for event in (*heard, SignalReceived("SIGTERM", "stopping at once")):
        report(event)
    assert first == second == heard
