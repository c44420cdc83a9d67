"""Which state file is meant, and which other supervisors of this machine may be meant instead."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path, PurePath

from msgspec import Struct

from ascend_supervisor.ctl.state import (
    NAME_IT,
    PATTERN,
    VARIABLE,
    State,
    StateUnknown,
    read_state_file,
)
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.phrases import more
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.settings.user_variables import OWNER
from ascend_supervisor.untrusted_text import plain

PLACING = (VARIABLE, "ASCEND_SUPERVISOR_LOG_DIR", "ASCEND_SUPERVISOR_CONFIG")
"""The variables of ours that decide where a supervisor keeps its state file."""
_MOST_LISTED = 20


class Named(Struct, frozen=True):
    """What the command line says: ``state_file`` counts, else the one in ``log_dir``."""

    state_file: str | None = None
    log_dir: str | None = None

    def is_default(self, environ: Mapping[str, str]) -> bool:
        """Whether neither it nor ``environ`` says where the state file is."""
        return not (self.state_file or self.log_dir or any(map(environ.get, PLACING)))


class Usual(Struct, frozen=True):
    """Where a supervisor keeps its state file; if that ``is_certain``, no other file will do."""

    state_file: Path
    log_dir: Path
    is_certain: bool


def find_state(named: Named, environ: Mapping[str, str]) -> State:
    """The state in the file that is ``named``, else in that of a supervisor with this ``environ``.

    Raises StateUnknown, and SettingsRefused if a supervisor would refuse ``environ``.
    """
    path = state_path(named, environ)
    try:
        return read_state_file(path)
    except StateUnknown as unknown:
        if not isinstance(unknown.__cause__, FileNotFoundError):
            raise
        from ascend_supervisor.ctl.finding import hints  # noqa: PLC0415  (only mistakes pay for it)

        raise StateUnknown(str(unknown), *hints(path, environ)) from unknown


def state_path(named: Named, environ: Mapping[str, str]) -> Path:
    """The state file that is meant, whether it exists or not; raises as ``find_state``."""
    file = named.state_file or (None if named.log_dir else environ.get(VARIABLE))
    if file:
        return Path(file)
    usual = _usual(environ, named.log_dir)
    if usual.is_certain or os.path.lexists(usual.state_file):
        return usual.state_file
    return _only_one(usual)


def _usual(environ: Mapping[str, str], log_dir: str | None) -> Usual:
    """What a supervisor does with this environment, and with ``log_dir`` on its command line."""
    # Slow, and a probe that names the file does not need it.
    from ascend_supervisor.job_files import mounted_log_dir, place_of  # noqa: PLC0415
    from ascend_supervisor.settings.precedence import Settings, read_settings  # noqa: PLC0415
    from ascend_supervisor.settings.sources import CONFIG_BYTES  # noqa: PLC0415

    placing = {name: environ[name] for name in PLACING if name in environ}
    settings = read_settings(("--", "any"), placing, partial(read_regular_file, most=CONFIG_BYTES))
    assert isinstance(settings, Settings)  # noqa: S101  (neither help nor version was asked for)
    mounted = mounted_log_dir(environ)
    state_file = None if log_dir else settings.state_file
    place = place_of(
        environ,
        os.uname().nodename,  # what socket.gethostname() gives, without the import
        mounted_log_exists=mounted is not None and os.path.isdir(mounted),  # noqa: PTH112
        here=_here(),
        log_dir=Path(log_dir) if log_dir else settings.log_dir,
        state_file=state_file,
    )
    return Usual(Path(place.state_file), Path(place.log_dir), state_file is not None)


def _here() -> PurePath:
    try:
        return Path.cwd()
    except OSError:  # it was removed; absolute paths can still be found
        return PurePath()


def _only_one(usual: Usual) -> Path:
    """The one state file in the log directory; if there is none, the missing usual one."""
    found: list[Path] = []
    with suppress(OSError):
        found = sorted(usual.log_dir.glob(PATTERN))
    if len(found) > 1:
        listed = [f"found: {plain(str(path))}" for path in found[:_MOST_LISTED]]
        raise StateUnknown(
            f"there is no state file {plain(str(usual.state_file))}, but {len(found)} others are "
            f"there; {NAME_IT}",
            *listed,
            *more(len(found) - _MOST_LISTED),
        )
    return found[0] if found else usual.state_file


MOST = 5
"""How many are named."""
MOST_NEAR = 200
"""How many entries of a directory are looked at for further directories."""
NEAR_SECONDS = 0.5
_MARK = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})@(.+)", re.DOTALL)


def hints(
    missing: Path, environ: Mapping[str, str], most: int = MOST, seconds: float = NEAR_SECONDS
) -> list[str]:
    """What is near the ``missing`` state file, a line for each; empty if nothing is.

    At most so many are named; those whose ranks run come first. The directories beside the usual
    ones are looked at for so many ``seconds``.
    """
    usual = _in_directories(_directories(missing, environ))
    found = dict.fromkeys([*_of_processes(), *usual, *_in_directories(_near(missing, seconds))])
    found.pop(missing, None)
    listed = [f"found instead: {_described(path)}" for path in list(found)[:most]]
    return [*listed, *more(len(found) - most)]


def _directories(missing: Path, environ: Mapping[str, str]) -> list[Path]:
    # Only mistakes pay for it.
    from ascend_supervisor.job_files import USUAL_LOG_DIR, mounted_log_dir  # noqa: PLC0415

    named = [missing.parent, mounted_log_dir(environ), USUAL_LOG_DIR]
    return list(dict.fromkeys(Path(_here() / one) for one in named if one))


def _near(missing: Path, seconds: float) -> Iterator[Path]:
    """The directories in the current one, and those beside that of the ``missing`` file.

    Only our own are looked into, and none in a place where others may put theirs, such as /tmp.
    """
    until = time.monotonic() + seconds
    here = Path(_here())
    for parent in dict.fromkeys((here, (here / missing).parent.parent)):
        with suppress(OSError):
            device = _own_device(parent.stat())
            with os.scandir(parent) as entries:
                for entry in islice(entries, MOST_NEAR):
                    if device is None or time.monotonic() >= until:
                        break
                    if entry.is_dir(follow_symlinks=False) and device == _own_device(entry.stat()):
                        yield parent / entry.name


def _own_device(found: os.stat_result) -> int | None:
    """The file system of a directory; None if it is not ours, or others may write to it."""
    is_own = found.st_uid == os.geteuid() and not found.st_mode & stat.S_IWOTH
    return found.st_dev if is_own else None


def _in_directories(directories: Iterable[Path]) -> Iterator[Path]:
    for directory in directories:
        with suppress(OSError):
            yield from sorted(directory.glob(PATTERN))


def _of_processes() -> Iterator[Path]:
    """The state files of supervisors that live, by the marks of their ranks."""
    with suppress(OSError):
        for pid in proc.pids():
            place = _place_of_supervisor(_mark(pid))
            if place is not None:
                yield place


def _mark(pid: int) -> str:
    with suppress(OSError, ValueError):
        process = proc.stat(pid)
        # The environment of a process that is stuck in a driver may not be readable in time.
        if process is not None and process.state not in {"D", "Z", "X"}:
            return os.fsdecode(proc.environ(pid).get(OWNER.encode(), b""))
    return ""


def _place_of_supervisor(mark: str) -> Path | None:
    """The state file in ``PID.START@STATE_FILE`` if that process lives."""
    found = _MARK.fullmatch(mark)
    if found and Pid(int(found[1]), int(found[2])).lives:
        return Path(found[3])
    return None


def _described(path: Path) -> str:
    name = plain(str(path))
    try:
        state = read_state_file(path)
    except StateUnknown:
        return f"{name} (it cannot be read)"
    if state.supervisor_lives:
        return f"{name} (of process {state.status.pid}, which runs)"
    return f"{name} (of a supervisor that has ended)"
