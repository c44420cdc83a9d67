"""The command of --on-event: it is run for each event that is wanted, and gets it on its stdin.

It is a process of ours like any other: no sweep of ranks ends it, and nothing of it is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import PurePath
from typing import NoReturn

import anyio

from ascend_supervisor.alerts.messages import kind_of
from ascend_supervisor.alerts.outbox import Outbox
from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.processes.children import Child
from ascend_supervisor.processes.helper_program import Pipe, end_group, open_pipe
from ascend_supervisor.processes.kernel import memory_file
from ascend_supervisor.processes.ownership import Known
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.secrets import masked
from ascend_supervisor.processes.sweep import sweep_descendants
from ascend_supervisor.settings.alert_options import AlertKind, EventProgram
from ascend_supervisor.untrusted_text import clipped, printable
from ascend_supervisor.workers.runtime import Runtime

SOURCE = "--on-event"
RUN_SECONDS = 10.0
"""How long it may run for one event."""
KILLED_SECONDS = 0.3
"""How long a killed process may take to end; whoever takes longer is left to the next sweep."""
LAST_SECONDS = 2.0
"""How long it may still run for the last event."""
OUTPUT_BYTES = 4096
MOST_OUTPUT = 1024 * 1024
"""Who writes more has to wait, and so is killed in the end: reading it would cost the job."""
LINE_CHARACTERS = 300


AsLines = Callable[[Callable[[bytes], None]], Report]
"""Makes the report that gives each event, as a line, to what it is called with."""


class EventCommand:
    """``report`` takes the events of these ``kinds``, from ``begin`` on, each in its ``lines``."""

    def __init__(
        self,
        program: EventProgram,
        kinds: Collection[AlertKind],
        lines: AsLines,
        cwd: PurePath,
        runtime: Runtime,
    ) -> None:
        self._words = program.words
        self._kinds = kinds
        self._cwd = cwd
        self._runtime = runtime
        self._outbox = Outbox(self._run, self._tell, "event")
        self._render = lines(self._outbox.put)
        self._has_begun = False
        self._has_run = False

    def begin(self) -> None:
        """What happens from now on is of this job: no other supervisor has it."""
        self._has_begun = True

    def report(self, event: Event) -> None:
        if self._has_begun and kind_of(event) in self._kinds:
            self._render(event)

    async def keep(self) -> NoReturn:
        await self._outbox.keep()

    async def finish(self) -> None:
        """Return within 3 s after the last event, when nothing of the command is left."""
        await self._outbox.finish(LAST_SECONDS)
        if self._has_run:
            children, ownership = self._runtime.children, self._runtime.ownership
            await sweep_descendants(children, ownership, Known(), KILLED_SECONDS, lambda _: None)

    def _tell(self, sentence: str) -> None:
        self._runtime.report(Diagnostic(SOURCE, sentence, None))

    async def _run(self, line: bytes) -> None:
        self._has_run = True
        try:
            with open_pipe(OUTPUT_BYTES) as output:
                child = self._started(line, output.write_end)
                status = await self._ended(child, output)
        except OSError as error:
            self._tell(f"{self._name} cannot be started: {reason_of(error)}")
            return
        if status != 0:
            last = _last_line(output)
            said = f"; its last output: {last}" if last else ""
            self._tell(f"{self._name} {_how(status)}{said}")

    @property
    def _name(self) -> str:
        """Without its arguments, which may hold secrets."""
        return printable(self._words[0])

    def _started(self, line: bytes, output: int) -> Child:
        """Raises OSError.

        Its stdin is no pipe: a sweep would spare what it leaves for a moment, as it does what reads
        a pipe until others have ended.
        """
        runtime = self._runtime
        stdin = memory_file(line)
        try:
            child = runtime.children.spawn(
                self._words,
                environ=runtime.environ,
                cwd=str(self._cwd),
                output=output,
                stdin=stdin,
            )
        finally:
            os.close(stdin)
        runtime.children.keep(child)
        return child

    async def _ended(self, child: Child, output: Pipe) -> int | None:
        """Its return code, None if it was killed; nothing of its process group is left."""
        guardian, status = self._runtime.guardian, None
        leader = Pid.of(child.pid)
        guardian.watch(leader)
        try:
            with anyio.move_on_after(RUN_SECONDS):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(output.keep_reading, MOST_OUTPUT)
                    status = await child.ended()
                    tasks.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            if child.returncode is None:
                self._tell(
                    f"{self._name} was still running after the end of the job, and was killed"
                )
            raise
        finally:
            await end_group(child, KILLED_SECONDS)
            guardian.ended(leader)
        output.read()
        return status


def _how(status: int | None) -> str:
    if status is None:
        return f"has not ended within {RUN_SECONDS:g} s, and was killed"
    return str(ExitStatus.of(status))


def _last_line(output: Pipe) -> str:
    lines = output.content.decode(errors="backslashreplace").splitlines()
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return clipped(printable(masked(said)), LINE_CHARACTERS)
