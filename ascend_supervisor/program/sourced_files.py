"""Shell files that the user names for the environment of ranks, such as CANN's set_env.sh."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from typing import NoReturn

import anyio

from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.files.standard_streams import tell
from ascend_supervisor.outcome import StopSignal
from ascend_supervisor.process_spec import changed
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.kernel import become_subreaper, parent_death_prefix
from ascend_supervisor.processes.ownership import Mark, Ownership
from ascend_supervisor.processes.shell_file import (
    SECONDS,
    Changes,
    ProcessesLeft,
    ShellFileFailed,
    sourced,
)
from ascend_supervisor.scarcity import NoThread, scarcity
from ascend_supervisor.settings.user_variables import OWNER
from ascend_supervisor.stop_requests import HEARD, Interrupts, Listen
from ascend_supervisor.tasks.clock import Clock, MonotonicClock
from ascend_supervisor.tasks.race import first
from ascend_supervisor.tasks.threads import ANSWER_SECONDS, Call

SLOW_SECONDS = 5.0
"""A file that runs longer than this is reported."""

CANN = Path("/usr/local/Ascend/ascend-toolkit/set_env.sh")
"""Where CANN's installer puts its file by default."""


def without_cann(
    files: Sequence[Path], environ: Mapping[str, str], set_env: Path = CANN
) -> str | None:
    """A hint where CANN is installed, and neither the environment nor the user names it."""
    names_it = "ascend" in environ.get("LD_LIBRARY_PATH", "").lower()
    if files or names_it or not _exists(set_env):
        return None
    return (
        "CANN is installed, but LD_LIBRARY_PATH names no directory of Ascend; if the ranks need "
        f"CANN, give --env-from {set_env}"
    )


def _exists(path: Path) -> bool:
    """Whether it exists; False if a file system does not answer."""
    with suppress(NoThread):
        return Call(partial(os.path.exists, path)).within(ANSWER_SECONDS, otherwise=False)
    return False


async def sourced_files(
    files: Sequence[Path],
    environ: Mapping[str, str],
    children: Children,
    ownership: Ownership,
    interrupts: Interrupts,
    clock: Clock,
    report: Report,
) -> Changes:
    """What the files change in ``environ``, each after the one before it.

    A slow file is reported, and so is what a file that succeeds has written or left. Nothing if we
    are told to stop meanwhile. Raises SettingsRefused if a file fails, or Unavailable.
    """
    if not files:
        return {}

    async def stopped() -> Changes:
        await interrupts.stop()
        return {}

    async def in_order() -> Changes:
        found: Changes = {}
        for file in files:
            now = changed(environ, found)
            source = partial(_sourced, file, now, children, ownership, report)
            found = {**found, **await first(source, partial(_tell_slow, file, clock, report))}
        return found

    found = await first(stopped, in_order)
    return {name: value for name, value in found.items() if name != OWNER}


async def _tell_slow(file: Path, clock: Clock, report: Report) -> NoReturn:
    await clock.sleep(SLOW_SECONDS)
    words = f"{file} has not ended after {SLOW_SECONDS:g} s; it is killed after {SECONDS:g} s"
    report(Diagnostic("--env-from", words, None))
    while True:
        await anyio.sleep_forever()


async def _sourced(
    file: Path,
    environ: Mapping[str, str],
    children: Children,
    ownership: Ownership,
    report: Report,
) -> Changes:
    def note(sentence: str) -> None:
        report(Diagnostic("--env-from", f"{file}: {sentence}", None))

    if fault := _unreadable(file):
        raise SettingsRefused(f"--env-from {file}: {fault}")
    try:
        return await sourced(file, environ, children, ownership, note)
    except ShellFileFailed as failed:
        raise SettingsRefused(f"--env-from {file}: {failed}") from failed
    except ProcessesLeft as left:
        raise Unavailable(f"--env-from {file}: what it started cannot be ended: {left}") from left
    except OSError as error:
        if lacking := scarcity(error):
            raise Unavailable(f"--env-from {file}: bash cannot be started: {lacking}") from error
        reason = reason_of(error)
        raise SettingsRefused(f"--env-from {file}: bash cannot be started: {reason}") from error


def _unreadable(file: Path) -> str | None:
    """Why bash could not read it; None if it can, or if a file system does not answer."""
    with suppress(NoThread):
        return Call(partial(_reading_fault, file)).within(ANSWER_SECONDS, otherwise=None)
    return None


def _reading_fault(file: Path) -> str | None:
    try:
        if file.is_dir():
            return "it is a directory; name the shell file in it"
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "there is no such file"
    except OSError as error:
        return f"it cannot be read: {reason_of(error)}"
    if os.access(file, os.R_OK):
        return None
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return f"it cannot be read: {reason_of(denied)}"


def _tell_on_stderr(event: Event) -> None:
    tell(f"ascend_supervisor: {event.msg}")


async def sourced_alone(
    files: Sequence[Path], environ: Mapping[str, str], state_file: PurePath, listen: Listen
) -> Changes | StopSignal:
    """The same in a process without a job; the first stopping signal, if there is one."""
    if not files:
        return {}
    mark = Mark.ours(OWNER, str(state_file))
    children = Children(parent_death_prefix(), environ=environ, mark=mark)
    become_subreaper()
    ownership = Ownership.from_now_on(mark)
    clock = MonotonicClock()
    interrupts = Interrupts(lambda _: None, lambda: None, clock)
    handlers: dict[int, Callable[[], None]] = {signal.SIGCHLD: children.reap}
    handlers |= {number: partial(interrupts.hear, number) for number in HEARD}
    listen(handlers)
    marked = {**environ, OWNER: mark.value}
    changes = await sourced_files(
        files, marked, children, ownership, interrupts, clock, _tell_on_stderr
    )
    return await interrupts.stop_within(0) or changes
