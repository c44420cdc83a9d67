"""The supervisor itself: its start, its end, signals to it, and what it complains about."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from traceback import format_exception
from typing import ClassVar, Literal

from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.events import Event, Level

ClusterSource = Literal[
    "rank_table", "standalone", "operator", "kubeflow", "modelarts", "servers", "none"
]

CLUSTER_WORDS: Mapping[ClusterSource, str] = {
    "rank_table": "the rank table",
    "standalone": "--standalone",
    "operator": "the variables of Ascend Operator",
    "kubeflow": "the variables of Kubeflow",
    "modelarts": "MA_NUM_HOSTS and MA_NUM_GPUS",
    "servers": "its servers (--servers)",
}


class SupervisorStarted(Event, frozen=True):
    """``schedule_count`` and ``start_count`` are what ModelArts counts.

    ``previous_end`` says how the start before this one ended here, ``previous_root_cause`` why.
    """

    name: ClassVar[str] = "supervisor.started"
    version: str
    command: tuple[str, ...]
    method: str
    restarts: int
    settings: tuple[str, ...]
    cluster: ClusterSource = "rank_table"
    cluster_hint: str | None = None
    schedule_count: int | None = None
    start_count: int | None = None
    previous_end: str | None = None
    previous_root_cause: str | None = None

    @property
    def sentence(self) -> str:
        hint = f" ({self.cluster_hint})" if self.cluster_hint else ""
        earlier = f"; {self.previous_end}" if self.previous_end else ""
        return (
            f"ascend_supervisor {self.version} will run: {shlex.join(self.command)}; "
            f"{self._cluster_words}{hint}{earlier}"
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


def defect(error: BaseException) -> Defect:
    """The event for an unexpected exception."""
    return Defect(f"{type(error).__name__}: {error}", "".join(format_exception(error)))


class ExitLingering(Event, frozen=True):
    """All is over but the end itself, which waits for the other servers of the job."""

    name: ClassVar[str] = "exit.lingering"
    level: ClassVar[Level] = "error"
    delay_seconds: float
    exit_code: int
    reason: str
    root_cause: str | None
    own_exit_code: int | None = None

    @property
    def sentence(self) -> str:
        return (
            f"{self.reason}; ending in {self.delay_seconds:g} s "
            f"{_with_code(self.exit_code, self.own_exit_code)}, later than the other servers of "
            "the job (--exit-linger)"
        )


class SupervisorExited(Event, frozen=True):
    """``reason`` begins with the cause of a failure, and says why no generation follows.

    ``own_exit_code`` is the code of the failure, if --retryable-exit-code has replaced it.
    ``peers_server`` is the index of the server that the root cause is on, with --peers.
    ``account`` has the seconds of this run by category; it is null, as ``percent_training`` and
    ``trained``, its sentence, are, where no step was told. ``diagnosis`` is the cause, where the
    table of causes knows it, and ``explained`` the same in the language of --language. ``doubt`` is
    what was seen that speaks against a success.
    """

    name: ClassVar[str] = "supervisor.exited"
    exit_code: int
    reason: str
    generations: int
    root_cause: str | None
    own_exit_code: int | None = None
    peers_server: int | None = None
    account: dict[str, float] | None = None
    percent_training: float | None = None
    trained: str | None = None
    diagnosis: Diagnosis | None = None
    explained: str | None = None
    doubt: str | None = None

    @property
    def explanation_leads(self) -> bool:
        """Whether ``explained`` comes before the words of the failure."""
        return self.diagnosis is None or self.diagnosis.leads

    @property
    def severity(self) -> Level:
        if self.exit_code:
            return "error"
        return "warning" if self.doubt else self.level

    @property
    def sentence(self) -> str:
        code = _with_code(self.exit_code, self.own_exit_code)
        trained = f"; {self.trained}" if self.trained else ""
        if self.exit_code and self.explained:
            if self.explanation_leads:
                return f"{self.explained}: {self.reason}; ending {code}{trained}"
            return f"{self.reason}; ending {code}{trained}; {self.explained}"
        if self.exit_code:
            return f"{self.reason}; ending {code}{trained}"
        return f"ending {code}: {self.reason}{trained}"


def _with_code(code: int, own: int | None) -> str:
    """``own`` is that of the failure, if --retryable-exit-code has replaced it."""
    asked = "" if own is None else f" in place of {own} (--retryable-exit-code)"
    return f"with exit code {code}{asked}"


ControlRequest = Literal["stop", "restart", "dump"]


class ControlRequested(Event, frozen=True):
    """``uid`` and ``peer_pid`` are those of the process that asked; ``user`` may be empty."""

    name: ClassVar[str] = "control.requested"
    request: ControlRequest
    uid: int
    peer_pid: int
    effect: str
    user: str = ""

    @property
    def sentence(self) -> str:
        who = f"process {self.peer_pid} of user {self.user or self.uid}"
        return f"{who} asked for {self.request}: {self.effect}"
