"""Where the files of this job go on this machine."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from ascend_supervisor.errors import (
    CannotWrite,
)
from ascend_supervisor.files.directories import can_be_made
from ascend_supervisor.files.regular_file import reason_of, refuse_to_replace
from ascend_supervisor.job_files import CACHE, Place, mounted_log_dir, place_of
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.tasks.threads import ANSWER_SECONDS, Call
from ascend_supervisor.untrusted_text import plain


def place_here(settings: Settings, environ: Mapping[str, str]) -> Place:
    """Where they go; raises CannotWrite for a directory that is none, or that cannot be made.

    And for a state file that is no file: replaced, a device would be lost to the whole machine.
    """
    _check("--log-dir", settings.log_dir, _file_in, _read_only)
    _check_state_file(settings.state_file)
    _check("--work-dir", settings.work_dir, _file_in)  # what is below it may be writable
    mounted = mounted_log_dir(environ)
    usual = mounted is None and settings.work_dir is None
    place = place_of(
        environ,
        socket.gethostname(),
        mounted_log_exists=mounted is not None and _presumably(Path(mounted).is_dir),
        here=_here(),
        cache=CACHE if usual and _presumably(partial(can_be_made, Path(CACHE))) else None,
        log_dir=settings.log_dir,
        work_dir=settings.work_dir,
        state_file=settings.state_file,
    )
    return replace(place, event_log=settings.event_log)


def _here() -> Path:
    """The directory that we were started in; raises CannotWrite where it has been deleted."""
    try:
        return Path.cwd()
    except OSError as error:
        raise CannotWrite(
            f"the working directory of the supervisor is gone: {error.strerror}; start it in a "
            "directory that exists"
        ) from error


FindFault = Callable[[Path], str | None]
"""What is wrong with a directory, as the end of a sentence; None: nothing."""


def _check(option: str, directory: Path | None, *faults: FindFault) -> None:
    """Raise CannotWrite for the first of ``faults`` that it has.

    Everything that is written below it would fail later, each with an error of its own.
    """
    if directory is None:
        return

    def found() -> str | None:
        return next(filter(None, (fault(directory) for fault in faults)), None)

    if fault := Call(found).within(ANSWER_SECONDS, otherwise=None):
        raise CannotWrite(
            f"{option} {plain(str(directory))}: expected a directory, found that {fault}; name "
            f"another one with {option}"
        )


def _check_state_file(path: Path | None) -> None:
    if path is None:
        return

    def found() -> str | None:
        if above := _file_in(path.parent):
            return above
        try:
            refuse_to_replace(path)
        except OSError as error:
            return reason_of(error)
        return None

    if fault := Call(found).within(ANSWER_SECONDS, otherwise=None):
        raise CannotWrite(
            f"--state-file {plain(str(path))}: expected a regular file, or none yet, found that "
            f"{fault}; name another one with --state-file"
        )


def _file_in(directory: Path) -> str | None:
    for path in (directory, *directory.parents):
        if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112  (never raise)
            return f"{plain(str(path))} is not one"
    return None


def _read_only(directory: Path) -> str | None:
    if can_be_made(directory):
        return None
    nearest = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    is_read_only = os.statvfs(nearest).f_flag & os.ST_RDONLY
    reason = os.strerror(errno.EROFS if is_read_only else errno.EACCES)
    return f"user {os.geteuid()} can neither write to it nor make it: {reason}"


def _presumably(holds: Callable[[], bool]) -> bool:
    """The answer of ``holds``; True if the file system does not answer in time."""
    return Call(holds).within(ANSWER_SECONDS, otherwise=True)
