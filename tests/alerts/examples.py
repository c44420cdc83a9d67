"""Events of a job, and what its servers have seen of each other."""

from __future__ import annotations

from ascend_supervisor.alerts.messages import Alert, Sender
from ascend_supervisor.events.generations import (
    GenerationStarted,
    ProcessExited,
    ProcessStarted,
    RestartScheduled,
)
from ascend_supervisor.events.hangs import HangNoticed
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.events.training import TrainingStalled
from ascend_supervisor.life import JobSeen, ServerPhase, ServerSeen

TS = "2026-11-26T10:00:00.000000Z"
SENDER = Sender("train-7", "pod-1", "/logs")
CAUSE = "rank 1 failed first, in generation 0: it exited with status 3 after 12.0 s"
TEXT = f"ascend_supervisor: job train-7: {CAUSE} <&>; look at /logs/1.txt on pod-1"
ALERT = Alert("failed", "supervisor.exited", "error", TS, "train-7", "pod-1", "/logs/1.txt", TEXT)

STARTS = (
    GenerationStarted(0, 2),
    ProcessStarted(0, 0, 0, 100, "/logs/0.txt"),
    ProcessStarted(1, 1, 0, 101, "/logs/1.txt"),
)
FAILS = ProcessExited(1, 1, 0, 101, 3, None, 12.0, first_failure=True, oom_killed=None)
HANG = HangNoticed(0, "silence", 60.0, (1, 0), 61.0, ("step 3", "step 3"), "rank 1 is silent")
STALL = TrainingStalled(0, 3, 50.0, 40.0)
LINES = f"{CAUSE}\nthe last lines of /logs/1.txt:\n  loss is nan"
RESTART = RestartScheduled(0.5, 2, CAUSE, root_cause=LINES)
FAILED = SupervisorExited(
    3, f"{CAUSE}; no restarts are left", 1, LINES, trained="trained 40 % of 2 min"
)
ENDED = SupervisorExited(0, "all ranks ended with 0", 1, None, trained="trained 98 % of 2 h")


def job(own: int | None, *phases: ServerPhase) -> JobSeen:
    servers = (
        ServerSeen(index, f"10.0.0.{index}", one, "", 0.0) for index, one in enumerate(phases)
    )
    return JobSeen("train-7", own, 0.0, tuple(servers))
