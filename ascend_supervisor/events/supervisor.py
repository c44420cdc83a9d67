"""The supervisor itself: its start, its end, signals to it, and what it complains about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from ascend_supervisor.events import Event, Level

ClusterSource = Literal["rank_table", "standalone", "operator", "kubeflow", "modelarts", "none"]

CLUSTER_WORDS: Mapping[ClusterSource, str] = {
    "rank_table": "the rank table",
    "standalone": "--standalone",
    "operator": "the variables of Ascend Operator",
    "kubeflow": "the variables of Kubeflow",
    "modelarts": "MA_NUM_HOSTS and MA_NUM_GPUS",
}


class SupervisorStarted(Event, frozen=True):
    name: ClassVar[str] = "supervisor.started"
    version: str
    command: tuple[str, ...]
    method: str
    restarts: int
    settings: tuple[str, ...]
    cluster: ClusterSource = "rank_table"
    cluster_hint: str | None = None

    @property
    def sentence(self) -> str:
        hint = f" ({self.cluster_hint})" if self.cluster_hint else ""
        return (
            f"ascend_supervisor {self.version} will run: {' '.join(self.command)}; "
            f"{self._cluster_words}{hint}"
        )

    @property
    def _cluster_words(self) -> str:
        if self.cluster == "none":
            return "no cluster is read: the command starts its ranks itself"
        return f"the cluster comes from {CLUSTER_WORDS[self.cluster]}"


class SignalReceived(Event, frozen=True):
    name: ClassVar[str] = "signal.received"
    signal: str
    effect: str

    @property
    def sentence(self) -> str:
        return f"received {self.signal}: {self.effect}"


class Diagnostic(Event, frozen=True):
    """A message of a library or the interpreter: a warning, a complaint."""

    name: ClassVar[str] = "diagnostic"
    level: ClassVar[Level] = "warning"
    source: str
    message: str
    traceback: str | None

    @property
    def sentence(self) -> str:
        return f"{self.source}: {self.message}"


class Defect(Event, frozen=True):
    """An unexpected error of ours."""

    name: ClassVar[str] = "supervisor.defect"
    level: ClassVar[Level] = "error"
    message: str
    traceback: str

    @property
    def sentence(self) -> str:
        return f"a defect of ascend_supervisor: {self.message}"


class SupervisorExited(Event, frozen=True):
    name: ClassVar[str] = "supervisor.exited"
    exit_code: int
    reason: str
    generations: int
    root_cause: str | None

    @property
    def severity(self) -> Level:
        return "error" if self.exit_code else self.level

    @property
    def sentence(self) -> str:
        return f"ending with exit code {self.exit_code}: {self.reason}"
