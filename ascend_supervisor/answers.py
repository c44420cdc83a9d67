"""What the program answers without a job: texts, the plan, and why it starts nothing."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from functools import partial
from itertools import islice

import anyio

from ascend_supervisor.cluster.cluster_source import Cluster
from ascend_supervisor.cluster.table_source import identity, table_now
from ascend_supervisor.dry_run import as_json, as_text, plan_of
from ascend_supervisor.errors import CANNOT_WRITE, DEFECT, UNAVAILABLE, Refusal
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.exit import refused
from ascend_supervisor.files.reasons import reason_of
from ascend_supervisor.files.standard_streams import StdoutLost, put, tell
from ascend_supervisor.job_files import Place, names_of
from ascend_supervisor.launchers.choice import launcher_of
from ascend_supervisor.launchers.process_spec import changed
from ascend_supervisor.notify.addresses import planned_address
from ascend_supervisor.outcome import StopSignal
from ascend_supervisor.output.json_lines import Origin
from ascend_supervisor.planning import planner
from ascend_supervisor.probes.rendezvous import OwnPort
from ascend_supervisor.received_signals import Listen
from ascend_supervisor.reporters.stdout import Format, Outlets
from ascend_supervisor.reporters.termination_log import place_of, text_of, write_refusal
from ascend_supervisor.scarcity import NoThread, scarcity
from ascend_supervisor.settings.precedence import Settings, Telling
from ascend_supervisor.settings.values import ALL_RANKS, Console
from ascend_supervisor.sourced_files import sourced_alone
from ascend_supervisor.tasks.threads import ANSWER_SECONDS, answer_of, aside
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.workers.command import (
    check_command,
    check_exists,
    check_module,
    check_script,
    left_behind,
)
from ascend_supervisor.workers.module_search import check_finds_module


def print_plan(
    settings: Settings,
    environ: Mapping[str, str],
    place: Place,
    cluster: Cluster,
    listen: Listen,
) -> int:
    """Print the plan; returns the exit code that the run would give, as far as it can be known."""
    try:
        answer = anyio.run(_planned, settings, environ, place, cluster, listen)
    except Refusal as refusal:
        return refuse(refusal, environ, Telling.of(settings), settings.retryable_exit_code)
    if isinstance(answer, StopSignal):
        return 128 + answer.number
    return print_answer(answer)


async def _planned(
    settings: Settings,
    environ: Mapping[str, str],
    place: Place,
    cluster: Cluster,
    listen: Listen,
) -> str | StopSignal:
    """The plan, unless we are told to stop before it is known; raises a Refusal."""
    changes = await sourced_alone(settings.env_from, environ, place.state_file, listen)
    if isinstance(changes, StopSignal):
        return changes
    launcher = launcher_of(settings, environ, changes, cluster.source)
    found = await table_now(settings, environ, cluster)
    whoami = identity(settings, environ, cluster)
    usual_port = OwnPort(None)  # a plan keeps none, and whether it is taken may change
    notify = planned_address(place.state_file)
    planned = planner(settings, launcher, place, changes, notify, usual_port)
    plan, specs = plan_of(cluster, found, whoami, place, planned, settings.non_defaults)
    for spec in specs:
        check_script(spec)
        check_exists(spec)
        rank_environ = changed(environ, spec.environ)
        check_module(spec, rank_environ)
        check_command(spec, rank_environ)
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
        answer_of(partial(write_refusal, path, text), ANSWER_SECONDS, otherwise=None)
    except OSError as error:
        tell(f"ascend_supervisor: the termination log {path} cannot be written: {reason_of(error)}")
    except NoThread:  # nor would anything else be written
        pass


def _forget_the_loop() -> None:
    """A loop that is half made cannot even be closed, and Python would say so."""
    sys.unraisablehook = lambda _: None


async def _tell(
    refusal: Refusal, event: SupervisorExited, environ: Mapping[str, str], console: Console
) -> None:
    job_id, pod = names_of(environ, socket.gethostname())
    usual: Format = "none" if os.isatty(1) else "json"
    format_ = usual if console == "auto" else console
    outlets = Outlets(format_, ALL_RANKS, "info", Origin(job_id, pod, os.getpid()))
    if format_ in {"json", "text"}:
        outlets.report(event)
        await outlets.finish()
    if format_ in {"raw", "none"} or outlets.needs_sentence:
        for fault in refusal.faults:
            outlets.complain(fault)
    await outlets.finish()
