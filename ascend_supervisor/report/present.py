"""What is known of a job that has not ended beyond its events; pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from msgspec import Struct

from ascend_supervisor.report.told import ToldEvent


class Present(Struct, frozen=True):
    """The job was so ``at`` this moment, in seconds since 1970, on this ``host``.

    ``runs``: its supervisor is seen to be alive. The last ``step`` was told at ``step_time``
    (RFC 3339).
    """

    host: str
    at: float
    runs: bool
    generation: int | None = None
    step: int | None = None
    steps: int | None = None
    step_time: str | None = None

    def events(self) -> Iterator[ToldEvent]:
        """The same as events, which go on from those of the event log."""
        if self.step is not None and self.step_time is not None:
            yield {
                "event": "training.progress",
                "ts": self.step_time,
                "host": self.host,
                "generation": self.generation,
                "step": self.step,
                "steps": self.steps,
            }
        now = datetime.fromtimestamp(self.at, timezone.utc).isoformat()
        yield {"event": "present", "ts": now, "host": self.host}
