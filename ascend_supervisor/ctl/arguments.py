"""The command line of ``ascend-supervisorctl``; a mistake in it is a SettingsRefused."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from ascend_supervisor.ctl.out import PROGRAM
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.files.standard_streams import put
from ascend_supervisor.untrusted_text import plain

_RANK_DIGITS = 9


def parse_arguments(argv: Sequence[str]) -> Namespace:
    """The options and arguments; ``command`` is empty if none was given.

    Raises SettingsRefused, and SystemExit after ``--help``.
    """
    return _parser().parse_args(argv)


class _Parser(ArgumentParser):
    """Refuses with our exit code and our wording."""

    def error(self, message: str) -> NoReturn:
        raise SettingsRefused(f"{message}; {self.prog} --help tells what can be written")

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002  (argparse gives none)
        put(self.format_help().encode())


def _parser() -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        description="Looks at a running supervisor and its ranks; checks and converts rank tables.",
        allow_abbrev=False,
    )
    parser.set_defaults(command="")
    parser.add_argument("--version", dest="command", action="store_const", const="version")
    add = partial(_add_command, parser.add_subparsers(title="commands", metavar="COMMAND"))
    _add_looks(add)
    _add_tables(add)
    return parser


def _add_looks(add: Any) -> None:
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


def _add_tables(add: Any) -> None:
    check = add("check-table", "what a rank table says, or what is wrong with it")
    convert = add("convert", "a rank table as template 1, which HCCL reads")
    for command in (check, convert):
        command.add_argument(
            "file", metavar="FILE", help="the rank table, or its directory; - for stdin"
        )
    convert.add_argument("-o", "--output", metavar="FILE", help="replaced at once; else stdout")


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
