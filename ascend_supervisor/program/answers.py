"""What the program answers without a job: texts, the plan of --check, and why it starts nothing.

The first event says what runs here, and how the start before it ended.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import anyio

from ascend_supervisor import __version__
from ascend_supervisor.cluster.cluster_source import Cluster, identity, table_now
from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.ctl.columns import facts
from ascend_supervisor.errors import CANNOT_WRITE, DEFECT, UNAVAILABLE, Refusal
from ascend_supervisor.events.supervisor import SupervisorExited, SupervisorStarted
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.files.standard_streams import StdoutLost, put, tell
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.job_files import Place, names_of
from ascend_supervisor.life import Plan, Start
from ascend_supervisor.notify_socket.bound_socket import planned_address
from ascend_supervisor.outcome import StopSignal
from ascend_supervisor.output.json_lines import Origin
from ascend_supervisor.phrases import run_list
from ascend_supervisor.probes.rendezvous import OwnPort
from ascend_supervisor.process_spec import ProcessSpec, changed
from ascend_supervisor.processes.secrets import masked_words
from ascend_supervisor.program.earlier_start import EarlierStart
from ascend_supervisor.program.planner import planner
from ascend_supervisor.program.premises import Premises
from ascend_supervisor.program.sourced_files import sourced_alone
from ascend_supervisor.reporters.stdout import Outlets, StdoutFormat
from ascend_supervisor.reporters.termination_log import place_of, text_of, write_refusal
from ascend_supervisor.scarcity import NoThread, scarcity
from ascend_supervisor.settings.precedence import Telling
from ascend_supervisor.settings.readers import ALL_RANKS, ConsoleFormat
from ascend_supervisor.stop_requests import Listen
from ascend_supervisor.supervisor import refused
from ascend_supervisor.tasks.threads import ANSWER_SECONDS, Call, aside
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.workers.command import (
    check_command,
    check_exists,
    check_module,
    check_script,
    left_behind,
)
from ascend_supervisor.workers.module_search import check_finds_module

Document = dict[str, Any]
"""The plan, with the keys of its JSON."""


def plan_of(
    cluster: Cluster,
    found: FoundTable,
    identity: Identity,
    place: Place,
    plan: Callable[[Start], Plan],
    settings: Sequence[str],
) -> tuple[Document, tuple[ProcessSpec, ...]]:
    """The plan of generation 0, and its specs; raises a Refusal as the run would."""
    table = found.table
    node_rank, entry = find_entry(table, identity)
    specs = plan(Start(0, found, node_rank, entry, restarts_left=0)).specs
    document: Document = {
        "cluster": cluster.source,
        "cluster_hint": cluster.hint,
        "rank_table": {
            "path": str(found.path),
            "format": table.format.value,
            "sha256": found.sha256,
            "world_size": table.world_size,
            "servers": table.servers,
            "warnings": list(table.warnings),
            "ranks_see": str(place.table_file) if table.file_for_ranks is not None else None,
        },
        "this_server": {
            "entry": entry.label,
            "node_rank": node_rank,
            "ranks": [device.rank for device in entry.devices],
        },
        "settings": list(settings),
        "state_file": str(place.state_file),
        "processes": [_process(spec) for spec in specs],
    }
    return document, specs


def as_json(plan: Document) -> str:
    """All of it."""
    return to_json(plan, indent=True).decode() + "\n"


def as_text(plan: Document) -> str:
    """In short, for a terminal: what would run where, who meets where, where to look afterwards."""
    processes, table, here = plan["processes"], plan["rank_table"], plan["this_server"]
    environ = processes[0]["environment"]
    meeting = [environ[name] for name in ("MASTER_ADDR", "MASTER_PORT") if environ.get(name)]
    told = [
        ("command", _first_of(shlex.join(one["argv"]) for one in processes)),
        ("in", _first_of(one["directory"] for one in processes)),
        ("ranks here", ", ".join(map(str, here["ranks"])) + f" of {table['world_size']}"),
        ("servers", f"{table['servers']}; this is {here['entry']}, number {here['node_rank']}"),
        ("from", f"{table['path']} ({table['format']})"),
        ("rank 0 at", ":".join(meeting)),
        ("logs", _first_of(one["log"] for one in processes)),
        ("state file", plan["state_file"]),
        ("settings", "\n".join(plan["settings"])),
        ("hint", plan["cluster_hint"]),
        ("warnings", "\n".join(table["warnings"])),
    ]
    number = "one process" if len(processes) == 1 else f"{len(processes)} processes"
    title = f"A run would start {number} here; nothing was started. --json shows all of it."
    return "\n".join((title, "", *facts(told), ""))


def _first_of(texts: Iterable[str]) -> str:
    """The first one, and how many others differ from it."""
    first, *others = dict.fromkeys(texts)
    return f"{first} (and {len(others)} more)" if others else first


def _process(spec: ProcessSpec) -> dict[str, object]:
    return {
        "rank": spec.rank,
        "local_rank": spec.local_rank,
        "argv": spec.argv,
        "environment": dict(spec.environ),
        "directory": str(spec.cwd),
        "directories_made": [str(path) for path in spec.directories],
        "files_written": [str(path) for path in spec.files],
        "log": str(spec.log),
        "cpus": None if spec.cpus is None else run_list(spec.cpus),
    }


def print_plan(given: Premises, listen: Listen) -> int:
    """Print the plan; returns the exit code that the run would give, as far as it can be known."""
    try:
        answer = anyio.run(_planned, given, listen)
    except Refusal as refusal:
        settings = given.settings
        retryable = settings.retryable_exit_code
        return refuse(refusal, given.environ, Telling.of(settings), retryable)
    if isinstance(answer, StopSignal):
        return 128 + answer.number
    return print_answer(answer)


async def _planned(given: Premises, listen: Listen) -> str | StopSignal:
    """The plan, unless we are told to stop before it is known; raises a Refusal."""
    settings, environ, place, cluster = given.settings, given.environ, given.place, given.cluster
    changes = await sourced_alone(settings.env_from, environ, place.state_file, listen)
    if isinstance(changes, StopSignal):
        return changes
    launcher = given.launcher(changes)
    usual_port = OwnPort(None)  # a plan keeps none, and whether it is taken may change
    notify = planned_address(place.state_file)
    planned = planner(given, launcher, changes, notify, usual_port)
    said, whoami = settings.non_defaults, identity(given.options, environ, cluster)
    found = await table_now(given.options, environ, cluster)
    plan, specs = plan_of(cluster, found, whoami, place, planned, said)
    for spec in specs:
        check_script(spec)
        rank_environ = changed(environ, spec.environ)
        check_module(spec, rank_environ)
        check_command(spec, rank_environ)
        check_exists(spec, rank_environ)
    for spec in islice((one for one in specs if one.rank is not None), 1):
        await aside(partial(check_finds_module, spec, changed(environ, spec.environ)))
    if words := left_behind(specs):
        tell(f"ascend_supervisor: {words}")
    return as_text(plan) if os.isatty(1) and not settings.json else as_json(plan)


def print_answer(answer: str) -> int:
    """The exit code: 0 when all of ``answer`` is on stdout, 73 when it cannot be written.

    141, without a message, when the reader goes before the end, as if SIGPIPE had ended us.
    """
    try:
        put(answer.encode())
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    except StdoutLost as lost:
        tell(f"ascend_supervisor: {lost}")
        return CANNOT_WRITE
    return 0


def refuse(
    refusal: Refusal, environ: Mapping[str, str], telling: Telling, retryable: int | None = None
) -> int:
    """Report why nothing was started: as sentences for people, as an event, and to kubelet.

    The exit code is the ``retryable`` one of --retryable-exit-code if it applies.
    """
    event = refused(refusal).with_retryable_code(retryable).event
    _tell_kubelet(event.root_cause or event.msg, telling)
    try:
        anyio.run(_tell, refusal, event, environ, telling.console)
    except (NoThread, OSError):
        _forget_the_loop()
        for fault in refusal.faults:
            tell(f"ascend_supervisor: {printable(fault)}")
    return event.exit_code


def cannot_start(error: Exception, telling: Telling, retryable: int | None = None) -> int:
    """The exit code, after one sentence on stderr: there is no event loop to report events.

    It is the ``retryable`` one of --retryable-exit-code if that is known: this may pass.
    """
    _forget_the_loop()
    reason = scarcity(error)
    if reason is None and isinstance(error, OSError) and error.filename is None:
        reason = error.strerror
    tell(f"ascend_supervisor: cannot start: {reason or error}")
    _tell_kubelet(f"ascend_supervisor cannot start: {reason or error}", telling)
    own = UNAVAILABLE if isinstance(error, (OSError, NoThread, MemoryError)) else DEFECT
    return own if retryable is None else retryable


def _tell_kubelet(cause: str, telling: Telling) -> None:
    """Write the termination log, if the file is nobody's; waits a bounded time for its disk."""
    if telling.check or (path := place_of(telling.termination_log)) is None:
        return
    text = text_of(printable(cause))
    try:
        Call(partial(write_refusal, path, text)).within(ANSWER_SECONDS, otherwise=None)
    except OSError as error:
        tell(f"ascend_supervisor: the termination log {path} cannot be written: {reason_of(error)}")
    except NoThread:  # nor would anything else be written
        pass


def _forget_the_loop() -> None:
    """A loop that is half made cannot even be closed, and Python would say so."""
    sys.unraisablehook = lambda _: None


async def _tell(
    refusal: Refusal, event: SupervisorExited, environ: Mapping[str, str], console: ConsoleFormat
) -> None:
    job_id, pod = names_of(environ, socket.gethostname())
    usual: StdoutFormat = "none" if os.isatty(1) else "json"
    format_ = usual if console == "auto" else console
    outlets = Outlets(format_, ALL_RANKS, "info", Origin(job_id, pod, os.getpid()))
    if format_ in {"json", "text"}:
        outlets.report(event)
        await outlets.finish()
    if format_ in {"raw", "none"} or outlets.needs_sentence:
        for fault in refusal.faults:
            outlets.complain(fault)
    await outlets.finish()


def first_event(given: Premises, earlier: EarlierStart) -> SupervisorStarted:
    settings, cluster, place = given.settings, given.cluster, given.place
    return SupervisorStarted(
        version=__version__,
        command=masked_words(settings.command),
        method=settings.method,
        restarts=settings.restarts,
        settings=settings.non_defaults,
        cluster=cluster.source,
        cluster_hint=cluster.hint,
        schedule_count=place.start.schedule,
        start_count=place.start.process,
        previous_end=earlier.sentence,
        previous_root_cause=earlier.root_cause,
    )
