"""Which events are told to somebody outside."""

from __future__ import annotations

import pytest

from ascend_supervisor.alerts.messages import kind_of
from ascend_supervisor.events.generations import GenerationEnded, RestartScheduled
from ascend_supervisor.events.hangs import HangNoticed
from ascend_supervisor.events.supervisor import Diagnostic, SupervisorExited
from ascend_supervisor.events.training import TrainingStalled

HANG = HangNoticed(0, "silence", 60.0, (1,), 61.0, ("step 3",), "rank 1 is silent")


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (SupervisorExited(0, "all ranks ended with 0", 1, None), "ended"),
        (SupervisorExited(1, "rank 1 failed", 1, "rank 1 failed"), "failed"),
        (SupervisorExited(143, "received SIGTERM", 1, None), "failed"),
        (RestartScheduled(0.5, 2, "rank 1 failed"), "restarted"),
        (HANG, "hang"),
        (TrainingStalled(0, 3, 50.0, 40.0), "hang"),
        (GenerationEnded(0, "crashed", 1, 2.5, "restart"), None),
        (Diagnostic("--on-event", "sh cannot be started", None), None),
    ],
)
def test_the_words_of_notify_on_and_their_events(event, kind):
    assert kind_of(event) == kind
