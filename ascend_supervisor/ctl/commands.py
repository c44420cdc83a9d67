"""What each command does; it imports slow modules itself, because probes run every few seconds."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ascend_supervisor import __version__
from ascend_supervisor.ctl.out import PROGRAM, Out
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.files.standard_streams import STDOUT
from ascend_supervisor.untrusted_text import plain

if TYPE_CHECKING:
    from ascend_supervisor.ctl.state import State

Command = Callable[[Namespace, Mapping[str, str], Out], int]
"""Takes the arguments and the environment; returns the exit code, or raises a Refusal."""


def _status(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    state = _state(arguments, environ)
    if arguments.json:
        out.put(state.content if state.content.endswith(b"\n") else state.content + b"\n")
    else:
        from ascend_supervisor.ctl.text import status_text  # noqa: PLC0415

        out.text(status_text(state.status, state.rank_lives))
    if state.left_behind:
        out.say(f"{_no_more(state)}: all of this was so when it was last seen")
    return 0


def _health(arguments: Namespace, environ: Mapping[str, str], _: Out) -> int:
    from ascend_supervisor.ctl.state import StateUnknown  # noqa: PLC0415

    state = _state(arguments, environ)
    status = state.status
    if status.phase == "ended" and status.exit_code != 0:
        cause = (status.root_cause or status.why).partition("\n")[0]
        raise StateUnknown(f"the supervisor has ended with {status.exit_code}: {plain(cause)}")
    if state.left_behind:
        raise StateUnknown(_no_more(state))
    return 0


def _logs(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.logs import RankTails, follow_logs, print_logs  # noqa: PLC0415
    from ascend_supervisor.ctl.state import read_state_file  # noqa: PLC0415
    from ascend_supervisor.output.terminal_escapes import coloured, harmless  # noqa: PLC0415

    state = _state(arguments, environ)
    elsewhere = harmless if arguments.rank is None else None
    logs = RankTails(arguments.rank, out.put, coloured if os.isatty(STDOUT) else elsewhere)
    if arguments.follow:
        follow_logs(logs, state, partial(read_state_file, state.path), out.say)
    else:
        print_logs(logs, state)
    return 0


def _check_table(arguments: Namespace, _: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.tables import read_table_file  # noqa: PLC0415
    from ascend_supervisor.ctl.text import table_text  # noqa: PLC0415

    read = read_table_file(arguments.file)
    out.text(table_text(read.table))
    for warning in read.table.warnings:
        out.say(f"the rank table {read.where}: {warning}")
    return 0


def _convert(arguments: Namespace, _: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.tables import (  # noqa: PLC0415
        read_table_file,
        replace_table_file,
    )

    read = read_table_file(arguments.file)
    document = read.table.document
    if arguments.output in {None, "-"}:
        out.put(document)
    else:
        replace_table_file(Path(arguments.output), document)
    if read.is_what_ranks_get:
        out.say(
            f"the rank table {read.where} needs no conversion ({read.table.format.value}); "
            "it is written as it is"
        )
    return 0


def _no_command(*_: object) -> int:
    raise SettingsRefused(f"no command was given; {PROGRAM} --help lists them")


def _version(_: Namespace, __: Mapping[str, str], out: Out) -> int:
    out.text(f"{PROGRAM} {__version__}\n")
    return 0


COMMANDS: Mapping[str, Command] = {
    "": _no_command,
    "version": _version,
    "status": _status,
    "health": _health,
    "logs": _logs,
    "check-table": _check_table,
    "convert": _convert,
}


def _state(arguments: Namespace, environ: Mapping[str, str]) -> State:
    from ascend_supervisor.ctl.state import read_state  # noqa: PLC0415

    return read_state(arguments.state_file, environ)


def _no_more(state: State) -> str:
    status = state.status
    return (
        f"the supervisor of {plain(str(state.path))} is no more: process {status.pid} of "
        f"{plain(status.pod)} does not run here, though the phase is {status.phase!r}"
    )
