"""One run of the program: read the settings, then answer, or run the job to its end.

Every exception becomes the last event, and everything is written.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ascend_supervisor import __version__
from ascend_supervisor.causes.diagnosis import language_of
from ascend_supervisor.cluster.platforms import node_rank_told, pods_told
from ascend_supervisor.errors import DEFECT, Refusal, Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.supervisor import Diagnostic, ExitLingering, SupervisorExited, defect
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.job_files import Place
from ascend_supervisor.life import Start
from ascend_supervisor.processes.ownership import Known
from ascend_supervisor.processes.sweep import sweep_descendants
from ascend_supervisor.program.alerts import file_without_url
from ascend_supervisor.program.answers import (
    cannot_start,
    first_event,
    print_answer,
    print_plan,
    refuse,
)
from ascend_supervisor.program.earlier_start import EarlierStart, earlier_start
from ascend_supervisor.program.parts import Parts, parts_of
from ascend_supervisor.program.premises import Premises, premises_of
from ascend_supervisor.program.single_instance import Holder, SingleInstance
from ascend_supervisor.program.sourced_files import without_cann
from ascend_supervisor.program.wiring import job_of
from ascend_supervisor.progress.account import KeptAccount
from ascend_supervisor.progress.words import account_sentence
from ascend_supervisor.reporters.python_warnings import report_diagnostics
from ascend_supervisor.scarcity import NoThread, scarcity
from ascend_supervisor.settings.precedence import (
    Help,
    Telling,
    Version,
    idle_options,
    read_settings,
    swallowed_options,
    telling_of,
)
from ascend_supervisor.settings.sources import CONFIG_BYTES
from ascend_supervisor.settings.usage import help_text
from ascend_supervisor.stop_requests import HEARD, Listen
from ascend_supervisor.supervisor import Broken, End, Job, refused, supervise
from ascend_supervisor.tasks.clock import RunningLoop
from ascend_supervisor.tasks.race import every, innermost
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.workers.runtime import Runtime

Leave = Callable[[int], NoReturn]
"""Ends the process with an exit code, even if threads are stuck."""
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    listen: Listen,
    leave: Leave,
    new_loop: NewLoop = RunningLoop,
) -> int:
    """The whole program. A run with a job ends in ``leave``; else this returns the exit code.

    The job runs in an event loop that ``new_loop`` makes; all its time limits follow the loop's
    time.
    """
    try:
        return _run(argv, environ, listen, leave, new_loop)
    except (NoThread, OSError, MemoryError) as error:
        return cannot_start(error, telling_of(argv, environ))


def _run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    listen: Listen,
    leave: Leave,
    new_loop: NewLoop,
) -> int:
    try:
        settings = read_settings(argv, environ, partial(read_regular_file, most=CONFIG_BYTES))
    except Refusal as refusal:
        return refuse(refusal, environ, telling_of(argv, environ))
    if isinstance(settings, Help):
        return print_answer(help_text())
    if isinstance(settings, Version):
        return print_answer(f"ascend_supervisor {__version__}\n")
    try:
        given = premises_of(settings, environ)
    except Refusal as refusal:
        return refuse(refusal, environ, Telling.of(settings), settings.retryable_exit_code)
    if settings.check:
        return print_plan(given, listen)
    main = partial(_main, given, earlier_start(given.place), listen, leave)
    try:
        return anyio.run(main, backend_options={"loop_factory": new_loop})
    except (NoThread, OSError, MemoryError) as error:
        return cannot_start(error, Telling.of(settings), settings.retryable_exit_code)


async def _main(given: Premises, earlier: EarlierStart, listen: Listen, leave: Leave) -> NoReturn:
    settings, environ, place = given.settings, given.environ, given.place
    ourselves = Holder.ourselves(place.pod, max(given.patience.drain, given.patience.grace))
    parts = parts_of(given, ourselves, earlier)
    report_diagnostics(parts.runtime.report, asyncio.get_running_loop())
    # The first line, even if signals came before it; from here on the last line always follows.
    parts.runtime.report(first_event(given, earlier))
    if hint := without_cann(settings.env_from, environ):
        parts.runtime.report(Diagnostic("CANN", hint, None))
    for told in filter(None, (idle_options(settings), swallowed_options(settings))):
        parts.runtime.report(Diagnostic("settings", told, None))
    if empty := file_without_url(settings, given.targets):
        parts.runtime.report(Diagnostic("--notify-url-file", empty, None))
    listen(_handlers(parts))
    async with anyio.create_task_group() as tasks:
        _start_side_tasks(tasks, parts)
        claim, job = partial(_claim, ourselves, place, parts), partial(job_of, given, parts)
        end = await exited(claim, job, parts.runtime)
        if parts.runtime.standbys is not None:
            await parts.runtime.standbys.end()
        end = end.with_retryable_code(settings.retryable_exit_code)
        await parts.notify.remove_file()
        clock, training = parts.runtime.clock, parts.chronicle.training
        if end.is_retryable and ends_last(end.start, environ):
            training.wait(clock.elapsed())
            await linger(parts, end.event, settings.exit_linger)
        end = end.told_in(language_of(settings.language, environ))
        await last_words(parts, _with_account(end, training.account(clock.elapsed())))
        tasks.cancel_scope.cancel()
    leave(end.event.exit_code)


def _with_account(end: End, kept: KeptAccount) -> End:
    """The same end with the account of the time, if any step was told."""
    if kept.percent_training is None:
        return end
    event = replace(
        end.event,
        account=dict(kept.account),
        percent_training=kept.percent_training,
        trained=account_sentence(kept),
    )
    return replace(end, event=event)


def _handlers(parts: Parts) -> Mapping[int, Callable[[], None]]:
    """What is called for each signal."""
    handlers: dict[int, Callable[[], None]] = {signal.SIGCHLD: parts.runtime.children.reap}
    return handlers | {number: partial(parts.interrupts.hear, number) for number in HEARD}


def _start_side_tasks(tasks: TaskGroup, parts: Parts) -> None:
    """What goes on beside the job, until the last word is written."""
    tasks.start_soon(parts.runtime.children.keep_reaping)
    tasks.start_soon(parts.records.keep)
    tasks.start_soon(parts.events.watch)
    tasks.start_soon(parts.outlets.keep_current)
    tasks.start_soon(parts.control.serve)
    tasks.start_soon(parts.runtime.outputs.logs.watch)
    tasks.start_soon(parts.notify.listen)
    for metrics in parts.metrics:
        tasks.start_soon(metrics.keep)
    for alerts in parts.alerts:
        tasks.start_soon(_keep, alerts.keep, parts.runtime.report)
    if parts.runtime.standbys is not None:
        tasks.start_soon(_keep, parts.runtime.standbys.keep, parts.runtime.report)


async def _keep(keep: Callable[[], Awaitable[None]], report: Report) -> None:
    """A defect here ends no job: its ranks start cold from then on, or nobody is told."""
    try:
        await keep()
    except Exception as error:  # noqa: BLE001
        report(defect(innermost(error)))


async def _claim(ourselves: Holder, place: Place, parts: Parts) -> None:
    """Begin the records, and listen, once no other supervisor uses this state file.

    Raises Unavailable if one does, or OSError at EMFILE and the like.

    If we are told to stop while we wait for the other one, nothing is written.
    """
    clock, report = parts.runtime.clock, parts.runtime.report
    instance = SingleInstance(Path(place.state_file), ourselves, parts.reserve, clock, report)
    try:
        is_ours = await instance.claim(parts.interrupts.stop)
    finally:
        if instance.is_taken_here:
            parts.records.leave_alone()
    if is_ours:
        for alerts in parts.alerts:  # first: what is refused from here on is told
            alerts.begin()
        try:
            await parts.notify.open(place.state_file)
        finally:  # not before: what a write lends meanwhile, this socket would keep for ever
            parts.records.begin()
            parts.events.begin()
        for metrics in parts.metrics:
            metrics.begin(parts.control.operations, report)
        parts.control.begin()


DEFECT_SECONDS = 10.0
"""How long the ranks may take to die after a defect of ours."""
LAST_WORDS_SECONDS = 10.0
"""How long after the last process we wait for the reader of rank output."""


async def exited(
    claim: Callable[[], Awaitable[None]], job: Callable[[], Awaitable[Job]], runtime: Runtime
) -> End:
    """Run the job; every exception becomes the final event, and no process is left."""
    try:
        await claim()
        return await supervise(await job())
    except Refusal as refusal:
        return refused(refusal)
    except Broken as broken:
        return await _broken(broken.error, runtime, broken.generations)
    except Exception as error:  # noqa: BLE001  (a defect of ours is an end, too)
        return await _broken(error, runtime)


async def _broken(error: Exception, runtime: Runtime, generations: int = 0) -> End:
    """The end by an error that nobody expected, or by a lack that nothing waits for."""
    cause = innermost(error)
    shortage = scarcity(cause)
    if not shortage:
        runtime.report(defect(error))
    with suppress(Exception):  # the last event and the exit code come, whatever fails here
        await sweep_descendants(
            runtime.children, runtime.ownership, Known(), DEFECT_SECONDS, lambda _: None
        )
    if shortage:
        what = "" if isinstance(cause, NoThread) else "the machine has no room for this job: "
        return refused(Unavailable(f"{what}{shortage}"), generations)
    reason = printable(f"a defect of ascend_supervisor, please report it: {error!r}")
    return End(SupervisorExited(DEFECT, reason, generations, reason), reason, is_retryable=True)


def ends_last(start: Start | None, environ: Mapping[str, str]) -> bool:
    """Whether this server of the job ends last (--exit-linger): the first one of several.

    Its last ``start`` tells that, or variables if there was none. If all pods of a job fail within
    seconds, Volcano does not retry it.
    """
    is_one_of_several = any(pods > 1 for _, pods in pods_told(environ))
    if start is None:
        return is_one_of_several and node_rank_told(environ) == 0
    return start.node_rank == 0 and (is_one_of_several or not start.holds_all_ranks)


async def linger(parts: Parts, end: SupervisorExited, seconds: float) -> None:
    """Wait with the end, unless we are told to stop: until then other servers end."""
    if not seconds or await parts.interrupts.stop_within(0):
        return
    parts.runtime.report(
        ExitLingering(seconds, end.exit_code, end.reason, end.root_cause, end.own_exit_code)
    )
    await parts.interrupts.stop_within(seconds)


async def last_words(parts: Parts, end: End) -> None:
    """Write everything that is left, the last event at the end; takes a bounded time."""
    until = anyio.current_time() + LAST_WORDS_SECONDS
    await parts.runtime.outputs.logs.finish()
    # These do not wait for the reader of stdout.
    parts.chronicle.report(end.event)
    parts.records.end(end.event, is_refused=end.refusal is not None)
    parts.events.report(end.event)
    for metrics in parts.metrics:
        metrics.report(end.event)
    for alerts in parts.alerts:
        alerts.report(end.event)
    await parts.records.finish()
    await parts.events.finish()
    output = partial(parts.outlets.finish_output, until - anyio.current_time())
    await every(partial(output, parts.interrupts.hurry), *(one.finish for one in parts.alerts))
    await parts.outlets.end(end.event, end.refusal)
    await parts.runtime.guardian.dismiss()
