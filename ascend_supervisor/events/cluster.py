"""What the cluster's own recovery asks for, with --follow-cluster."""

from __future__ import annotations

from typing import ClassVar, Literal

from ascend_supervisor.events import Event, Level

Trigger = Literal[
    "retry_time",
    "table_changed",
    "table_withdrawn",
    "npu_reset",
    "npu_fault",
    "npu_failed",
    "graceful_exit",
]


class ClusterIncident(Event, frozen=True):
    """The first news of an incident; ``reason`` is a sentence without its end."""

    name: ClassVar[str] = "cluster.incident"
    level: ClassVar[Level] = "warning"
    trigger: Trigger
    reason: str

    @property
    def what(self) -> str:
        """What is waited for from now on."""
        return f"the cluster recovers: {self.reason}"

    @property
    def sentence(self) -> str:
        return self.what


class ClusterWaiting(Event, frozen=True):
    """What of the cluster is waited for; ``limit_seconds`` None: no limit."""

    name: ClassVar[str] = "cluster.waiting"
    reason: str
    waited_seconds: float
    limit_seconds: float | None = None

    @property
    def what(self) -> str:
        """What is waited for, without the time."""
        return f"waiting for the cluster: {self.reason}"

    @property
    def sentence(self) -> str:
        return f"{self.what} ({self.waited_seconds:.0f} s so far)"


class RankTableUnchanged(Event, frozen=True):
    """After an incident the table was never written anew, and is used as it is."""

    name: ClassVar[str] = "rank_table.unchanged"
    level: ClassVar[Level] = "warning"
    path: str
    waited_seconds: float

    @property
    def sentence(self) -> str:
        return (
            f"the rank table {self.path} has not been written for {self.waited_seconds:.0f} s "
            "since the cluster began to recover; it is used as it is"
        )
