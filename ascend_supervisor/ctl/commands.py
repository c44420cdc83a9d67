"""What each command does; it imports slow modules itself, because probes run every few seconds."""

from __future__ import annotations

import os
import shlex
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ascend_supervisor import __version__
from ascend_supervisor.ctl.out import PROGRAM, Out
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.files.standard_streams import STDOUT

if TYPE_CHECKING:
    from ascend_supervisor.ctl.collect import Collected
    from ascend_supervisor.ctl.event_files import Which
    from ascend_supervisor.ctl.explained_log import ExplainedLog
    from ascend_supervisor.ctl.finding import Named
    from ascend_supervisor.ctl.logs import ShownLog
    from ascend_supervisor.ctl.state import State

NO_CAUSE = 1
"""The exit code of ``explain`` if no log shows a cause that is known."""
FAILED = 1
"""The exit code of a probe or a trial that fails, whatever the reason."""
Command = Callable[[Namespace, Mapping[str, str], Out], int]
"""Takes the arguments and the environment; returns the exit code, or raises a Refusal."""


def _status(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.causes.diagnosis import language_of  # noqa: PLC0415
    from ascend_supervisor.ctl import status  # noqa: PLC0415
    from ascend_supervisor.ctl.seen import as_json  # noqa: PLC0415
    from ascend_supervisor.ctl.status_text import coloured  # noqa: PLC0415
    from ascend_supervisor.output.terminal import terminal_of  # noqa: PLC0415

    find = partial(_state, arguments, environ)
    state = status.awaited(find, out) if arguments.watch else find()
    is_terminal = os.isatty(STDOUT) and environ.get("TERM") != "dumb"
    in_colour = terminal_of(environ, "auto").has_colours(is_terminal=is_terminal)
    paint = coloured if in_colour else status.plain_lines
    language = language_of(arguments.language, environ)
    audience = status.Audience(language, _named(arguments).is_default(environ))
    if not arguments.watch:
        on_terminal = partial(status.as_text_on_terminal, paint=paint)
        as_text = on_terminal if is_terminal else status.as_text
        text = partial(as_text, audience=audience)
        status.once(state, out, as_json if arguments.json else text)
    elif arguments.json or not is_terminal:
        paragraph = partial(status.as_paragraph, audience=audience)
        each = status.as_line if arguments.json else paragraph
        status.print_changes(status.watched(state, each), out)
    else:
        status.redraw(status.watched(state, status.as_text, audience), out, paint)
    return 0


def _health(arguments: Namespace, environ: Mapping[str, str], _: Out) -> int:
    from ascend_supervisor.ctl.probes import check_health  # noqa: PLC0415

    check_health(_state(arguments, environ))
    return 0


def _ready(arguments: Namespace, environ: Mapping[str, str], _: Out) -> int:
    from ascend_supervisor.ctl.probes import check_ready  # noqa: PLC0415

    check_ready(_state(arguments, environ))
    return 0


def _logs(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.logs import (  # noqa: PLC0415
        APART,
        RankLogsShown,
        Wanted,
        follow_logs,
        print_logs,
    )
    from ascend_supervisor.ctl.state import read_state_file  # noqa: PLC0415
    from ascend_supervisor.output.terminal import terminal_of  # noqa: PLC0415
    from ascend_supervisor.untrusted_text import coloured, harmless  # noqa: PLC0415

    source = _source(arguments)
    state = _state(arguments, environ)
    wanted = Wanted(tuple(arguments.ranks))
    elsewhere = None if wanted.is_one_rank else harmless
    is_terminal = os.isatty(STDOUT)
    in_colour = terminal_of(environ, arguments.color).has_colours(is_terminal=is_terminal)
    on_terminal = coloured if in_colour else harmless
    shown = on_terminal if is_terminal or in_colour else elsewhere
    between = APART if arguments.context else b""
    logs = RankLogsShown(wanted, out.put, shown, source, in_colour, arguments.merge, between)
    if arguments.follow:
        follow_logs(logs, state, partial(read_state_file, state.path), out.say)
    else:
        print_logs(logs, state, out.say)
    return 0


def _source(arguments: Namespace) -> Callable[[Path], ShownLog]:
    """What opens a log; raises SettingsRefused for options that do not go together."""
    import shutil  # noqa: PLC0415

    from ascend_supervisor.ctl.chosen_log import ChosenLog  # noqa: PLC0415
    from ascend_supervisor.ctl.line_selection import Criteria  # noqa: PLC0415
    from ascend_supervisor.ctl.logs import WholeLog  # noqa: PLC0415
    from ascend_supervisor.evidence.log_records import LEVELS  # noqa: PLC0415

    if arguments.context and arguments.grep is None:
        raise SettingsRefused("-C is for --grep: it shows lines around those that match")
    if arguments.context and arguments.follow:
        raise SettingsRefused("-C cannot follow a log: leave out -C or -f")
    criteria = Criteria(
        arguments.grep,
        arguments.context or 0,
        None if arguments.level is None else LEVELS.index(arguments.level),
        None if arguments.since is None else _moment(arguments.since),
        arguments.merge,
    )
    tail, all_starts = arguments.tail, arguments.all_starts
    if criteria == Criteria() and not all_starts:
        return partial(WholeLog, last_lines=tail)
    grep = shutil.which("grep")
    return partial(ChosenLog, criteria=criteria, last_lines=tail, grep=grep, all_starts=all_starts)


def _moment(since: datetime | timedelta) -> float:
    """In seconds since the epoch."""
    if isinstance(since, timedelta):
        return time.time() - since.total_seconds()
    return since.timestamp()


def _stop(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.acts import HasEnded, stop, until_ended  # noqa: PLC0415

    state = _state(arguments, environ)
    try:
        out.line(stop(state, arguments.grace))
    except HasEnded:
        if not arguments.wait:
            raise
    if arguments.wait:
        out.line(until_ended(state))
    return 0


def _restart(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.acts import restart  # noqa: PLC0415

    out.line(restart(_state(arguments, environ)))
    return 0


def _dump(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.acts import dump, lines_of  # noqa: PLC0415

    for line in lines_of(dump(_state(arguments, environ))):
        out.line(line)
    return 0


def _check_table(arguments: Namespace, _: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.table_files import read_table_file, table_text  # noqa: PLC0415

    read = read_table_file(arguments.file)
    out.text(table_text(read.table))
    for warning in read.table.warnings:
        out.say(f"the rank table {read.where}: {warning}")
    return 0


def _convert(arguments: Namespace, _: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.table_files import read_table_file  # noqa: PLC0415

    read = read_table_file(arguments.file)
    _put(read.table.document, arguments.output, out)
    if read.is_what_ranks_get:
        out.say(
            f"the rank table {read.where} needs no conversion ({read.table.format.value}); "
            "it is written as it is"
        )
    return 0


def _trace(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.event_files import trace_document  # noqa: PLC0415

    files, which, _ = _event_logs(arguments, environ)
    _put(trace_document(files, which), arguments.output, out)
    return 0


def _report(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.causes.diagnosis import language_of  # noqa: PLC0415
    from ascend_supervisor.ctl.reports import html, present_of, text  # noqa: PLC0415
    from ascend_supervisor.ctl.seen import look_at  # noqa: PLC0415

    files, which, state = _event_logs(arguments, environ)
    present = None if state is None else present_of(look_at(state), time.time())
    made = text if arguments.text else html
    document = made(files, language_of(arguments.language, environ), which, present)
    _put(document, arguments.output, out)
    return 0


def _event_logs(
    arguments: Namespace, environ: Mapping[str, str]
) -> tuple[list[Path], Which, State | None]:
    """Those that are named; else those of the supervisor here; which events; its state."""
    from ascend_supervisor.ctl.event_files import beside, start_of  # noqa: PLC0415

    if arguments.files:
        files = [Path(file) for file in arguments.files]
        return files, "all starts" if arguments.all_starts else "last job", None
    state = _state(arguments, environ)
    which: Which = "all starts" if arguments.all_starts else start_of(state.status)
    return beside(state), which, state


def _explain(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.causes.diagnosis import language_of  # noqa: PLC0415
    from ascend_supervisor.ctl.explain import as_json, as_text, sorted_causes  # noqa: PLC0415
    from ascend_supervisor.ctl.explained_log import explained_log  # noqa: PLC0415
    from ascend_supervisor.ctl.log_starts import of_last_starts  # noqa: PLC0415
    from ascend_supervisor.ctl.logs_to_explain import log_ends  # noqa: PLC0415

    read: list[ExplainedLog] = []
    refused = 0
    files = arguments.files or list(filter(None, [arguments.log_dir]))
    if not files:
        raise SettingsRefused(
            "explain needs a log or a directory: a FILE, - for stdin, or --log-dir"
        )
    for file in files:
        try:
            read += map(explained_log, log_ends(file, out.say))
        except SettingsRefused as refusal:  # the others are told
            out.say(str(refusal))
            refused = refusal.exit_code
    kept = read if arguments.all_starts else of_last_starts(read, out.say)
    logs = sorted_causes(kept)
    language = language_of(arguments.language, environ)
    out.put(as_json(logs) if arguments.json else as_text(logs, language).encode())
    return refused or (0 if any(log.diagnosis for log in logs) else NO_CAUSE)


def _collect(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from datetime import timezone  # noqa: PLC0415

    from ascend_supervisor.ctl.collect import (  # noqa: PLC0415
        CollectWanted,
        archive_path,
        collect,
        opened_archive,
        sentences,
    )

    subject = _subject(arguments, environ)
    to_stdout = arguments.output == "-"
    usual = archive_path(subject, datetime.now(timezone.utc))
    path = None if to_stdout else Path(arguments.output or usual)
    words = [PROGRAM, "collect", *(["--log-dir", arguments.log_dir] if arguments.log_dir else [])]
    asked = CollectWanted(arguments.size, shlex.join(words))
    with opened_archive(path, out.put, "collect", is_terminal=os.isatty(STDOUT)) as put:
        manifest = collect(subject, asked, put, environ)
    say = out.say if path is None else out.line
    where = "stdout" if path is None else str(path)
    for sentence in sentences(manifest, where, None if path is None else path.stat().st_size):
        say(sentence)
    return 0


def _doctor(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.server_fitness import as_json, as_text, examined  # noqa: PLC0415

    found = examined(_subject(arguments, environ), environ, arguments.log_dir)
    out.put(as_json(found) if arguments.json else as_text(found).encode())
    return found.exit_code


def _subject(arguments: Namespace, environ: Mapping[str, str]) -> Collected:
    """The job; where nothing names a state file, there need be none."""
    from ascend_supervisor.ctl.collect import subject_at  # noqa: PLC0415
    from ascend_supervisor.ctl.finding import find_state, state_path  # noqa: PLC0415

    named = _named(arguments)
    path = state_path(named, environ)
    is_named = not named.is_default(environ)
    if is_named and not os.path.lexists(path):
        find_state(named, environ)  # which says what is nearby instead
    return subject_at(path, must_exist=is_named)


def _trial(arguments: Namespace, environ: Mapping[str, str], out: Out) -> int:
    from ascend_supervisor.ctl.server_trial import setting_of, tried  # noqa: PLC0415

    setting = setting_of(arguments.ranks, arguments.python, environ)
    return 0 if tried(setting, environ, arguments.limit, arguments.output, out) else FAILED


def _put(document: bytes, output: str | None, out: Out) -> None:
    """Put it on stdout, or where -o says."""
    from ascend_supervisor.ctl.new_file import replace_document  # noqa: PLC0415

    if output in {None, "-"}:
        out.put(document)
    else:
        replace_document(Path(output), document)


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
    "ready": _ready,
    "logs": _logs,
    "stop": _stop,
    "restart": _restart,
    "dump": _dump,
    "check-table": _check_table,
    "convert": _convert,
    "trace": _trace,
    "report": _report,
    "explain": _explain,
    "collect": _collect,
    "doctor": _doctor,
    "trial": _trial,
}


def _state(arguments: Namespace, environ: Mapping[str, str]) -> State:
    from ascend_supervisor.ctl.finding import find_state  # noqa: PLC0415

    return find_state(_named(arguments), environ)


def _named(arguments: Namespace) -> Named:
    from ascend_supervisor.ctl.finding import Named  # noqa: PLC0415

    return Named(arguments.state_file, arguments.log_dir)
