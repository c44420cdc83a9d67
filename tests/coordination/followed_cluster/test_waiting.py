"""A wait for the cluster that is given up says what has not come."""

from __future__ import annotations

import pytest

from ascend_supervisor.coordination.followed_cluster.followed_table import Patient
from ascend_supervisor.coordination.followed_cluster.start_obstacles import StartObstacle
from ascend_supervisor.errors import Refusal, TableTimeout, Unavailable
from ascend_supervisor.events import Event
from tests.clocks import LeapingClock


@pytest.mark.parametrize(
    ("obstacle", "refusal", "sentence"),
    [
        (
            StartObstacle("status is 'initializing'", limit=None),
            TableTimeout,
            "the cluster has not completed a rank table within 1800 s: status is 'initializing'",
        ),
        (
            StartObstacle("faults are being collected", limit=900.0),
            Unavailable,
            "the cluster has not recovered within 900 s: faults are being collected",
        ),
    ],
)
def test_it_is_given_up_after_its_limit_with_a_sentence(
    obstacle: StartObstacle, refusal: type[Refusal], sentence: str
):
    clock, events = LeapingClock(), list[Event]()
    patient = Patient(1800.0, clock, events.append)
    patient.wait_for(obstacle)
    clock.time = 899.0
    patient.wait_for(obstacle)
    clock.time = 1800.0
    with pytest.raises(refusal) as raised:
        patient.wait_for(obstacle)
    assert str(raised.value) == sentence
    assert events
