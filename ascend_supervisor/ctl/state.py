"""The state file of a supervisor, as another process finds and reads it; nothing in it is trusted.

It may be replaced meanwhile, its supervisor may have ended long ago, or it may be forged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from typing import ClassVar, get_args

from msgspec import Struct

from ascend_supervisor.errors import Refusal
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.files.untrusted_json import Cursor, Misfit, NotJson, parse_json
from ascend_supervisor.processes import proc
from ascend_supervisor.reporters.state_file import Phase, RankStatus, Status
from ascend_supervisor.settings.rank_variables import OWNER
from ascend_supervisor.untrusted_text import plain

VARIABLE = "ASCEND_SUPERVISOR_STATE_FILE"
PLACING = (VARIABLE, "ASCEND_SUPERVISOR_LOG_DIR", "ASCEND_SUPERVISOR_CONFIG")
"""The variables of ours that decide where a supervisor keeps its state file."""
PATTERN = "*-supervisor-*.json"
MAX_BYTES = 16 * 1024 * 1024
_PHASES: tuple[Phase, ...] = get_args(Phase)
_MOST_LISTED = 20
_NAME_IT = f"name the supervisor's own with --state-file or {VARIABLE}"


class StateUnknown(Refusal):
    """The status is unknown: there is no state file, or it cannot be understood."""

    exit_code: ClassVar[int] = 1


class State(Struct, frozen=True):
    """The content of the state file at ``path`` when it was read, and its exact bytes."""

    path: Path
    content: bytes
    status: Status

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
    def left_behind(self) -> bool:
        """Whether its supervisor is gone without having reported its end."""
        return self.status.phase != "ended" and not self.supervisor_lives

    @property
    def is_final(self) -> bool:
        """Whether nothing that it describes will change any more."""
        return self.status.phase == "ended" or not self.supervisor_lives


def read_state(named: str | None, environ: Mapping[str, str]) -> State:
    """The state in the file ``named``, else in that of the supervisor with this ``environ``.

    Raises StateUnknown, and SettingsRefused if a supervisor would refuse ``environ``.
    """
    named = named or environ.get(VARIABLE)
    if named:
        return read_state_file(Path(named))
    usual, certain, log_dir = _usual(environ)
    if certain or os.path.lexists(usual):
        return read_state_file(usual)
    return read_state_file(_only_one(log_dir, usual))


def read_state_file(path: Path) -> State:
    """The state in the file at ``path``; raises StateUnknown."""
    try:
        content = read_regular_file(path, MAX_BYTES)
        return State(path, content, _status(parse_json(content)))
    except FileNotFoundError as error:
        raise StateUnknown(
            f"there is no state file {plain(str(path))}: either no supervisor has started here, "
            f"or it keeps another; {_NAME_IT}"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise StateUnknown(
            f"the state file {plain(str(path))} cannot be read: {reason}; look at it as the "
            f"supervisor's user, or {_NAME_IT}"
        ) from error
    except (NotJson, Misfit) as error:
        raise StateUnknown(
            f"{plain(str(path))} is no state file of ascend_supervisor: {plain(str(error))}; "
            f"{_NAME_IT}"
        ) from error


def _started(pid: int) -> int | None:
    """When the process was started; None if it has ended, even if it is still a zombie."""
    with suppress(ValueError):  # a process may have any bytes for a name
        return None if proc.is_zombie(pid) else proc.start_time(pid)
    return None


def _usual(environ: Mapping[str, str]) -> tuple[Path, bool, Path]:
    """The state file of a supervisor with this environment, whether it was set, and the log dir.

    What its command line says is not known here.
    """
    # Slow, and a probe that names the file does not need it.
    from ascend_supervisor.job_files import mounted_log_dir, place_of  # noqa: PLC0415
    from ascend_supervisor.settings.precedence import Settings, read_settings  # noqa: PLC0415
    from ascend_supervisor.settings.sources import CONFIG_BYTES  # noqa: PLC0415

    placing = {name: environ[name] for name in PLACING if name in environ}
    settings = read_settings(("--", "any"), placing, partial(read_regular_file, most=CONFIG_BYTES))
    assert isinstance(settings, Settings)  # noqa: S101  (neither help nor version was asked for)
    mounted = mounted_log_dir(environ)
    place = place_of(
        environ,
        os.uname().nodename,  # what socket.gethostname() gives, without the import
        mounted_log_exists=mounted is not None and os.path.isdir(mounted),  # noqa: PTH112
        here=_here(),
        log_dir=settings.log_dir,
        state_file=settings.state_file,
    )
    return Path(place.state_file), settings.state_file is not None, Path(place.log_dir)


def _here() -> PurePath:
    try:
        return Path.cwd()
    except OSError:  # it was removed; absolute paths can still be found
        return PurePath()


def _only_one(log_dir: Path, usual: Path) -> Path:
    """The one state file in ``log_dir``; if there is none, the missing ``usual`` one."""
    found: list[Path] = []
    with suppress(OSError):
        found = sorted(log_dir.glob(PATTERN))
    if len(found) > 1:
        listed = [plain(str(path)) for path in found[:_MOST_LISTED]]
        if len(found) > _MOST_LISTED:
            listed.append(f"and {len(found) - _MOST_LISTED} more")
        raise StateUnknown(
            f"there is no state file {plain(str(usual))}, but {len(found)} others lie there: "
            f"{', '.join(listed)}; {_NAME_IT}"
        )
    return found[0] if found else usual


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
        world_size=_integer(top, "world_size"),
        ranks=tuple([_rank(rank) for rank in top.elements("ranks")]),
        exit_code=_integer(top, "exit_code"),
        root_cause=top.optional_text("root_cause"),
    )


def _phase(top: Cursor) -> Phase:
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
