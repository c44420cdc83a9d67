"""The state file of a supervisor, as another process reads it; nothing in it is trusted.

It may be replaced meanwhile, its supervisor may have ended long ago, or it may be forged.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import ClassVar, TypeVar, get_args

import msgspec
from msgspec import Struct

from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.errors import Refusal
from ascend_supervisor.files.regular_file import content_of
from ascend_supervisor.files.untrusted_json import Cursor, Misfit, NotJson, parse_json
from ascend_supervisor.processes import proc
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.progress.reading import StepNumber
from ascend_supervisor.reporters.status_document import (
    PastGeneration,
    RankStatus,
    Status,
    StatusPhase,
)
from ascend_supervisor.settings.user_variables import OWNER
from ascend_supervisor.untrusted_text import plain

T = TypeVar("T")

VARIABLE = "ASCEND_SUPERVISOR_STATE_FILE"
PATTERN = "*-supervisor-*.json"
"""The names that supervisors give to their state files."""
MAX_BYTES = 16 * 1024 * 1024
_PHASES: tuple[StatusPhase, ...] = get_args(StatusPhase)
NAME_IT = f"name the supervisor's own with --log-dir, --state-file or {VARIABLE}"
"""What to do where the wrong file, or none, was found."""


class StateUnknown(Refusal):
    """The status is unknown: there is no state file, or it cannot be understood."""

    exit_code: ClassVar[int] = 1


class State(Struct, frozen=True):
    """The content of the state file at ``path`` when it was read, and its exact bytes.

    It was ``written`` at this Unix time, by the clock of its file system.
    """

    path: Path
    content: bytes
    status: Status
    written: float

    @property
    def supervisor_lives(self) -> bool:
        """Whether the process that wrote it is alive; another one with its pid does not count."""
        started = _started(self.status.pid)
        return started is not None and started == self.status.start_time

    def rank_lives(self, rank: RankStatus) -> bool:
        """Whether the rank's process is alive; without its supervisor, its pid may be reused.

        Then it counts only if its environment can be read and holds our mark.
        """
        if rank.status is not None or rank.signal is not None or _started(rank.pid) is None:
            return False
        return self.supervisor_lives or OWNER.encode() in proc.environ(rank.pid)

    @property
    def is_stopped(self) -> bool:
        """Whether its supervisor was stopped by a signal (SIGSTOP) or a debugger."""
        with suppress(ValueError):  # a process may have any bytes for a name
            found = proc.stat(self.status.pid)
            if found is not None and found.start == self.status.start_time:
                return found.state in {"T", "t"}
        return False

    @property
    def left_behind(self) -> bool:
        """Whether its supervisor is gone without having reported its end."""
        return self.status.phase != "ended" and not self.supervisor_lives

    @property
    def description(self) -> str:
        return f"the supervisor (process {self.status.pid})"

    @property
    def loss(self) -> str:
        """The sentence about a supervisor that is ``left_behind``."""
        status = self.status
        return (
            f"process {status.pid} of {plain(status.pod)} does not run here, though the phase is "
            f"{status.phase!r}: the supervisor of {plain(str(self.path))} is no more"
        )

    @property
    def is_final(self) -> bool:
        """Whether nothing that it describes will change any more."""
        return self.status.phase == "ended" or not self.supervisor_lives


def read_state_file(path: Path) -> State:
    """The state in the file at ``path``; raises StateUnknown."""
    try:
        found = content_of(path, MAX_BYTES)
        return State(path, found.data, _status(parse_json(found.data)), found.written)
    except FileNotFoundError as error:
        raise StateUnknown(
            f"there is no state file {plain(str(path))}: either no supervisor has started here, "
            f"or it keeps another; {NAME_IT}"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise StateUnknown(
            f"the state file {plain(str(path))} cannot be read: {reason}; look at it as the "
            f"supervisor's user, or {NAME_IT}"
        ) from error
    except (NotJson, Misfit) as error:
        raise StateUnknown(
            f"{plain(str(path))} is no state file of ascend_supervisor: {plain(str(error))}; "
            f"{NAME_IT}"
        ) from error


def _started(pid: int) -> int | None:
    """When the process was started; None if it has ended, even if it is still a zombie."""
    with suppress(ValueError):  # a process may have any bytes for a name
        return None if proc.is_zombie(pid) else proc.start_time(pid)
    return None


def _status(top: Cursor) -> Status:
    """The status that the document holds; raises Misfit."""
    return Status(
        job_id=top.text("job_id"),
        pod=top.text("pod"),
        pid=top.integer("pid", 1),
        start_time=_integer(top, "start_time"),
        version=top.text("version"),
        phase=_phase(top),
        why=top.text("why"),
        generation=_integer(top, "generation"),
        restarts_left=_integer(top, "restarts_left"),
        cluster_restarts_used=_integer(top, "cluster_restarts_used"),
        cluster_restarts_limit=_integer(top, "cluster_restarts_limit"),
        world_size=_integer(top, "world_size"),
        ranks=tuple([_rank(rank) for rank in top.elements("ranks")]),
        exit_code=_integer(top, "exit_code"),
        root_cause=top.optional_text("root_cause"),
        schedule_count=_integer(top, "schedule_count"),
        start_count=_integer(top, "start_count"),
        generations=_generations(top),
        progress=_known(top, "progress", ProgressStatus),
        diagnosis=_known(top, "diagnosis", Diagnosis),
        no_progress=_steps(top, "no_progress"),
    )


def _generations(top: Cursor) -> tuple[PastGeneration, ...]:
    """Files of earlier versions have none."""
    if top.get("generations") is None:
        return ()
    return tuple(
        PastGeneration(
            generation=one.integer("generation"),
            started_at=one.text("started_at"),
            ended_at=one.optional_text("ended_at"),
            outcome=one.optional_text("outcome"),
            cause=one.optional_text("cause"),
            free=None if type(one.get("free")) is not bool else one.get("free"),
        )
        for one in top.elements("generations")
    )


def _known(top: Cursor, key: str, kind: type[T]) -> T | None:
    """What the key holds; files of earlier versions have none."""
    try:
        return msgspec.convert(top.get(key), kind | None)
    except msgspec.ValidationError as error:
        raise top.child(key).misfit(f"a {kind.__name__} ({error})") from error


def _steps(top: Cursor, key: str) -> tuple[StepNumber, ...]:
    """Files of earlier versions have none."""
    try:
        return msgspec.convert(top.get(key) or (), tuple[StepNumber, ...])
    except msgspec.ValidationError as error:
        raise top.child(key).misfit(f"a list of steps ({error})") from error


def _phase(top: Cursor) -> StatusPhase:
    found = top.text("phase")
    phase = next((phase for phase in _PHASES if phase == found), None)
    if phase is None:
        raise top.child("phase").misfit(f"one of {', '.join(_PHASES)}")
    return phase


def _rank(rank: Cursor) -> RankStatus:
    return RankStatus(
        rank=_integer(rank, "rank"),
        local_rank=_integer(rank, "local_rank"),
        pid=rank.integer("pid", 1),
        log=rank.text("log"),
        status=_integer(rank, "status"),
        signal=rank.optional_text("signal"),
    )


def _integer(at: Cursor, key: str) -> int | None:
    return None if at.get(key) is None else at.integer(key)
