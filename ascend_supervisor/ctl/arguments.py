"""The command line of ``ascend-supervisorctl``; a mistake in it is a SettingsRefused."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn

from ascend_supervisor.ctl.out import PROGRAM
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.files.standard_streams import put
from ascend_supervisor.untrusted_text import nearest, plain, unknown

PROBES: Mapping[str, str] = {
    "health": "exit 0 while the supervisor answers, else 1 (a probe for Kubernetes)",
    "ready": "exit 0 while the ranks do their work, else 1 (a probe for Kubernetes)",
}
"""With their help. They run every few seconds, so no other command is prepared for them."""
_MOST_DIGITS = 9
_LEAST_SIZE = 1024 * 1024
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_arguments(argv: Sequence[str]) -> Namespace:
    """The options and arguments; ``command`` is empty if none was given.

    Raises SettingsRefused, and SystemExit after ``--help``.
    """
    parser = command_line(argv[0] if argv else "")
    arguments, strange = parser.parse_known_args(argv)
    if strange:
        parser.of(arguments.command).refuse_option(strange[0])
    return arguments


class _Parser(ArgumentParser):
    """Refuses with our exit code and our wording: what is wrong, and then the usage."""

    commands: Mapping[str, Any] = MappingProxyType({})

    def of(self, command: str) -> _Parser:
        """The parser of a command, which knows its options."""
        found: _Parser = self.commands.get(command, self)
        return found

    def refuse_option(self, word: str) -> NoReturn:
        """Refuse a word that is none of ours."""
        flag = word.partition("=")[0]
        near = nearest(flag, self._option_string_actions, "--") if flag[:1] == "-" else ""
        self.error(unknown(flag, near, f"see {self.prog} --help"))

    def error(self, message: str) -> NoReturn:
        raise SettingsRefused(message, " ".join(self.format_usage().split()))

    def _check_value(self, action: Action, value: Any) -> None:
        """As argparse does, with the nearest name in place of all of them."""
        if action.choices is not None and value not in action.choices:
            known = tuple(map(str, action.choices))
            near = nearest(str(value), known)
            self.error(unknown(str(value), near, f"expected one of {', '.join(known)}"))

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002  (argparse gives none)
        put(self.format_help().encode())


def command_line(first_word: str = "") -> _Parser:
    """The commands and their options; if the ``first_word`` is that of a probe, this one only."""
    parser = _Parser(
        prog=PROGRAM,
        description="Looks at a running supervisor and its ranks, and asks it to act; checks and "
        "converts rank tables.",
        allow_abbrev=False,
    )
    parser.set_defaults(command="")
    parser.add_argument(
        "--version", dest="command", action="store_const", const="version", help="print the version"
    )
    _add_places(parser, default=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    add = partial(_add_command, commands)
    if first_word in PROBES:
        of_a_job = [add(first_word, PROBES[first_word])]
    else:
        of_a_job = [*_add_looks(add), *_add_acts(add)]
        _add_explain(add)
        _add_tables(add)
        _add_trial(add)
    for command in of_a_job:
        _add_places(command, default=SUPPRESS)  # else what stands before the command is lost
    parser.commands = commands.choices
    return parser


def _add_places(parser: ArgumentParser, default: Any) -> None:
    parser.add_argument(
        "--state-file",
        metavar="PATH",
        default=default,
        help="the supervisor's (default: where its environment puts it)",
    )
    parser.add_argument(
        "--log-dir",
        metavar="DIR",
        default=default,
        help="the supervisor's: its state file is there, unless --state-file names it",
    )


def _add_looks(add: Any) -> list[ArgumentParser]:
    status = add("status", "where the job stands: phase, restarts, ranks, root cause")
    status.add_argument(
        "--watch", action="store_true", help="again and again, until the supervisor ends"
    )
    status.add_argument(
        "--json", action="store_true", help="the state file, and live figures as live"
    )
    _add_language(status)
    probes = [add(name, text) for name, text in PROBES.items()]
    doctor = add("doctor", "whether this server is fit for its job, and what to do if it is not")
    doctor.add_argument("--json", action="store_true", help="the same as an object")
    return [status, *probes, _add_logs(add), *_add_events(add), _add_collect(add), doctor]


def _add_events(add: Any) -> list[ArgumentParser]:
    trace: ArgumentParser = add(
        "trace", "the events as a trace, for Perfetto or MindStudio Insight"
    )
    report: ArgumentParser = add("report", "the story of the job as a page for a browser")
    for command in (trace, report):
        command.add_argument(
            "files",
            metavar="EVENTS.jsonl",
            nargs="*",
            help="event logs of one or several servers (default: that of the supervisor here)",
        )
        command.add_argument("-o", "--output", metavar="FILE", help="replaced at once; else stdout")
        command.add_argument(
            "--all-starts", action="store_true", help="also those before the last job in the files"
        )
    report.add_argument("--text", action="store_true", help="the same for a terminal")
    _add_language(report)
    return [trace, report]


def _add_explain(add: Any) -> None:
    explain = add("explain", "the cause that logs show, and what to do, without a job")
    explain.add_argument("--json", action="store_true", help="the same as a list of objects")
    explain.add_argument("--all-starts", action="store_true", help="also logs of earlier starts")
    _add_language(explain)
    explain.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="logs of ranks or of CANN, their directories, archives of collect; - for stdin",
    )
    explain.add_argument(
        "--log-dir",
        metavar="DIR",
        default=SUPPRESS,
        help="the supervisor's, where no FILE is named",
    )


def _add_language(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--language",
        metavar="LANG",
        choices=("auto", "en", "zh"),
        default="auto",
        help="auto, en, zh; auto is that of LC_ALL, LC_MESSAGES or LANG",
    )


def _add_collect(add: Any) -> ArgumentParser:
    collect: ArgumentParser = add("collect", "one archive for a support ticket, of this server")
    collect.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="replaced at once; - for stdout (default: a new name in the current directory)",
    )
    collect.add_argument(
        "--size",
        metavar="SIZE",
        type=_size,
        default="2GiB",
        help="of what is taken, before compression (default: 2GiB)",
    )
    return collect


def _add_trial(add: Any) -> None:
    trial = add(
        "trial", "some minutes of real jobs on this server, and their report as one archive"
    )
    trial.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="replaced at once; - for stdout (default: a new name in the current directory)",
    )
    trial.add_argument(
        "--ranks",
        metavar="N",
        type=_trial_ranks,
        help="1 to 16 (default: one for each NPU; without NPUs 2 to 8, as there are CPUs)",
    )
    trial.add_argument(
        "--python",
        metavar="PROGRAM",
        help="the interpreter of the ranks (default: python3, else our own: one with a framework)",
    )
    trial.add_argument(
        "--limit",
        metavar="S",
        type=_seconds,
        default="20m",
        help="no step begins, and none waits, after so long (default: 20m)",
    )


def _trial_ranks(text: str) -> int:
    if text in map(str, range(1, 17)):
        return int(text)
    raise ArgumentTypeError(f"expected a number of ranks from 1 to 16, found {plain(text)}")


def _add_logs(add: Any) -> ArgumentParser:
    logs: ArgumentParser = add("logs", "what the ranks have printed")
    logs.add_argument("-f", "--follow", action="store_true", help="and what they print from now on")
    logs.add_argument(
        "--tail", metavar="N", type=_lines, help="only the last N lines of each log, then"
    )
    logs.add_argument("--merge", action="store_true", help="all ranks in the order of time")
    logs.add_argument(
        "--since",
        metavar="WHEN",
        type=_since,
        help="not what is older: 30s, 10m, 2h, 1d, or a time such as 2026-11-26T10:00",
    )
    logs.add_argument(
        "--grep", metavar="RE", type=_pattern, help="only lines that match a regular expression"
    )
    logs.add_argument(
        "-C", "--context", metavar="N", type=_lines, help="with --grep: N lines before and after"
    )
    logs.add_argument(
        "--level",
        metavar="LEVEL",
        choices=("debug", "info", "warning", "error", "critical"),
        help="only lines of this level and above: debug, info, warning, error, critical",
    )
    logs.add_argument("--all-starts", action="store_true", help="also what earlier starts printed")
    logs.add_argument(
        "--color",
        metavar="WHEN",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto, always, never; auto is on a terminal, unless NO_COLOR is set",
    )
    logs.add_argument(
        "ranks",
        metavar="RANK",
        nargs="*",
        type=_ranks,
        help="of these only, such as 0 or 3-5; one rank, not on a terminal: raw",
    )
    return logs


def _add_acts(add: Any) -> list[ArgumentParser]:
    stop = add("stop", "end the job, as SIGTERM does")
    stop.add_argument(
        "--grace", metavar="S", type=_seconds, help="SIGTERM to SIGKILL (default: the job's)"
    )
    stop.add_argument("--wait", action="store_true", help="until the supervisor has ended")
    restart = add("restart", "end the generation and start the next, not charged to --restarts")
    dump = add("dump", "what the ranks do now: their stacks; nothing is ended")
    return [stop, restart, dump]


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


def _ranks(text: str) -> Any:
    from ascend_supervisor.settings.readers import read_ranks  # noqa: PLC0415  (probes need none)

    if text[:1].isdecimal():
        with suppress(ValueError):
            return read_ranks(text)
    raise ArgumentTypeError(f"expected ranks, such as 0 or 3-5, found {plain(text)}")


def _lines(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise ArgumentTypeError(f"expected a number of lines, found {plain(text)}")
    return int(text)


def _since(text: str) -> datetime | timedelta:
    """A time, or how long ago it is; without a zone it is local time."""
    unit = _UNITS.get(text[-1:], "")
    if unit and text[:-1].isascii() and text[:-1].replace(".", "", 1).isdecimal():
        with suppress(OverflowError):
            return timedelta(**{unit: float(text[:-1])})
    with suppress(ValueError):
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone()
    raise ArgumentTypeError(
        f"expected how long ago, such as 30s, 10m, 2h, 1d, or a time such as 2026-11-26T10:00, "
        f"found {plain(text)}"
    )


def _pattern(text: str) -> Any:
    from ascend_supervisor.ctl.line_patterns import read_pattern  # noqa: PLC0415

    try:
        return read_pattern(text)
    except ValueError as error:
        raise ArgumentTypeError(
            f"expected a regular expression, found {plain(text)}: {error}"
        ) from error


def _size(text: str) -> int:
    from ascend_supervisor.settings.readers import read_size  # noqa: PLC0415

    try:
        return read_size(text, least=_LEAST_SIZE)
    except ValueError as error:
        raise ArgumentTypeError(f"expected {error}, found {plain(text)}") from error


def _seconds(text: str) -> float:
    from ascend_supervisor.settings.readers import read_duration  # noqa: PLC0415

    try:
        return read_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(f"expected {error}, found {plain(text)}") from error
