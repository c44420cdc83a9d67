"""``ascend-supervisorctl``: the status of a supervisor, and the content of a rank table.

It connects to no supervisor: it reads the state file, the logs named there, and /proc. Each command
imports slow modules itself, because ``health`` runs every few seconds.
"""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ascend_supervisor import __version__
from ascend_supervisor.errors import CANNOT_WRITE, DEFECT, Refusal, SettingsRefused
from ascend_supervisor.files.standard_streams import STDOUT, StdoutLost, put, tell
from ascend_supervisor.untrusted_text import plain, printable

if TYPE_CHECKING:
    from ascend_supervisor.ctl.state import State

PROGRAM = "ascend-supervisorctl"
UNHEALTHY = 1
_RANK_DIGITS = 9


class Out(NamedTuple):
    """Where a command's answer goes, and the messages beside it."""

    put: Callable[[bytes], None]
    tell: Callable[[str], None]

    def text(self, text: str) -> None:
        self.put(text.encode(errors="backslashreplace"))

    def say(self, sentence: str) -> None:
        self.tell(f"{PROGRAM}: {printable(sentence)}")


_OURS = Out(put, tell)


class _Parser(ArgumentParser):
    """Refuses with our exit code and our wording."""

    def error(self, message: str) -> NoReturn:
        raise SettingsRefused(f"{message}; {self.prog} --help tells what can be written")

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002  (argparse gives none)
        put(self.format_help().encode())


def main() -> NoReturn:
    """Run the command, and end the process."""
    try:
        sys.exit(run(sys.argv[1:], dict(os.environ)))
    except KeyboardInterrupt:
        _die_of(signal.SIGINT)
    except BrokenPipeError:
        _die_of(signal.SIGPIPE)


def run(argv: Sequence[str], environ: Mapping[str, str], out: Out = _OURS) -> int:
    """The exit code; every refusal has been printed.

    Raises BrokenPipeError, and SystemExit after ``--help``.
    """
    parser = _parser()
    command = ""
    try:
        arguments = parser.parse_args(argv)
        command = arguments.command
        return _COMMANDS[command](arguments, environ, out)
    except Refusal as refusal:
        for fault in refusal.faults:
            out.say(fault)
        code = refusal.exit_code
    except StdoutLost as lost:
        out.say(str(lost))
        code = CANNOT_WRITE
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  (report any error to the operator in a sentence)
        out.say(f"a defect of this program: {error!r}; please report it with the command line")
        code = DEFECT
    return UNHEALTHY if command == "health" else code


def _parser() -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        description="Looks at a running supervisor and its ranks; checks and converts rank tables.",
        allow_abbrev=False,
    )
    parser.set_defaults(command="")
    parser.add_argument("--version", dest="command", action="store_const", const="version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    add = partial(_add_command, commands)
    status = add("status", "where the job stands: phase, generation, ranks, root cause")
    status.add_argument("--json", action="store_true", help="the state file as it is")
    health = add("health", "exit 0 while all is well, else 1 (a probe for Kubernetes)")
    logs = add("logs", "what the ranks have printed")
    logs.add_argument("-f", "--follow", action="store_true", help="and what they print from now on")
    logs.add_argument(
        "rank",
        metavar="RANK",
        nargs="?",
        type=_rank,
        help="of one rank only; not on a terminal: raw",
    )
    for command in (status, health, logs):
        command.add_argument(
            "--state-file",
            metavar="PATH",
            help="the supervisor's (default: where its environment puts it)",
        )
    for command in (
        add("check-table", "what a rank table says, or what is wrong with it"),
        convert := add("convert", "a rank table as template 1, which HCCL reads"),
    ):
        command.add_argument(
            "file", metavar="FILE", help="the rank table, or its directory; - for stdin"
        )
    convert.add_argument("-o", "--output", metavar="FILE", help="replaced at once; else stdout")
    return parser


def _add_command(commands: Any, name: str, meaning: str) -> ArgumentParser:
    about = f"{name}: {meaning}."
    command: ArgumentParser = commands.add_parser(
        name, help=meaning, description=about, allow_abbrev=False
    )
    command.set_defaults(command=name)
    return command


def _rank(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _RANK_DIGITS):
        raise ArgumentTypeError(f"expected a rank, such as 0, found {plain(text)}")
    return int(text)


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


_COMMANDS: Mapping[str, Callable[[Namespace, Mapping[str, str], Out], int]] = {
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


def _die_of(number: signal.Signals) -> NoReturn:
    """End as if the signal had never been caught: silently, and the shell sees the signal."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    sys.exit(128 + number)
