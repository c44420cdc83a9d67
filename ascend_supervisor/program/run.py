"""One run of the program: read the settings, then answer, or run the job to its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio
from anyio.abc import TaskGroup

from ascend_supervisor import __version__
from ascend_supervisor.causes.language import language_of
from ascend_supervisor.errors import Refusal
from ascend_supervisor.events import Report
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.job_files import Place
from ascend_supervisor.program.alerts import file_without_url
from ascend_supervisor.program.answers import (
    cannot_start,
    first_event,
    print_answer,
    print_plan,
    refuse,
)
from ascend_supervisor.program.earlier_start import EarlierStart, earlier_start
from ascend_supervisor.program.end_of_run import ends_last, exited, last_words, linger
from ascend_supervisor.program.parts import Parts, parts_of
from ascend_supervisor.program.premises import Premises, premises_of
from ascend_supervisor.program.single_instance import Holder, SingleInstance
from ascend_supervisor.program.sourced_files import without_cann
from ascend_supervisor.program.wiring import job_of
from ascend_supervisor.reporters.python_warnings import defect, report_diagnostics
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.settings.precedence import (
    Help,
    Telling,
    Version,
    idle_options,
    read_settings,
    telling_of,
)
from ascend_supervisor.settings.sources import CONFIG_BYTES
from ascend_supervisor.settings.usage import help_text
from ascend_supervisor.stop_requests import HEARD, Listen
from ascend_supervisor.tasks.clock import RunningLoop
from ascend_supervisor.tasks.race import innermost

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
    if idle := idle_options(settings):
        parts.runtime.report(Diagnostic("settings", idle, None))
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
        await last_words(parts, end.with_account(training.account(clock.elapsed())))
        tasks.cancel_scope.cancel()
    leave(end.event.exit_code)


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
