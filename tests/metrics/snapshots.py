"""What is known of a job, as a test wants it."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.control.history import History
from ascend_supervisor.control.live_status import Moment, live_status
from ascend_supervisor.life import JobSeen, ServerSeen
from ascend_supervisor.metrics.figures import Snapshot
from ascend_supervisor.metrics.tally import Tally
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.reporters.status_document import PastGeneration, Status
from tests.control.lives import launcher, life, living

STATUS = Status("job-7", "pod-0", 4711, 123456, "0.1.0")
PROGRESS = ProgressStatus(
    step=1200,
    steps=5000,
    seconds_per_step=2.125,
    last_step_time="2026-11-22T03:00:00.250Z",
    checkpoint_step=1000,
    checkpoint_time="2026-11-22T02:50:00.000Z",
    account={"training": 60.5, "stalled": 3.0},
    percent_training=95.3,
    best_step=1250,
    best_epoch=0,
    generations=2,
    hangs=1,
)
SERVERS = (
    ServerSeen(0, "a", "running", "", 1.0),
    ServerSeen(1, "b", "lost", "", 1.0),
)


def snapshot() -> Snapshot:
    """Before anything has happened."""
    return _snapshot(History(STATUS, "2026-11-22T03:00:00.500Z", 0.0), Tally())


def full_snapshot() -> Snapshot:
    """Of a job of which everything is known."""
    known = replace(
        STATUS,
        phase="running",
        generation=2,
        generations=(
            PastGeneration(1, "2026-11-22T02:40:00.000Z"),
            PastGeneration(2, "2026-11-22T02:55:00.000Z"),
        ),
        restarts_left=1,
        progress=PROGRESS,
        exit_code=3,
    )
    history = History(known, "2026-11-22T03:00:00.500Z", 0.0)
    of = life(
        living(0, tail=b"loss 1.9\n"), living(1, has_ended=True), launcher(2, seen={}, logs=False)
    )
    job = JobSeen("job-7", 0, 1.0, SERVERS)
    live = live_status(history, of, Moment(60.0, 60.0), job)
    return replace(_snapshot(history, Tally(lost={"1": 7})), live=live, longest_pause=9.5)


def _snapshot(history: History, tally: Tally) -> Snapshot:
    live = live_status(history, None, Moment(60.0, 60.0))
    return Snapshot(live, tally, 60.0, 1795316460.25, None, cpu_seconds=1.25, memory_bytes=4096)
