"""What the control socket's requests do, and whether the ranks do their work, as a probe asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
from msgspec import Struct

from ascend_supervisor.control.chronicle import Chronicle
from ascend_supervisor.control.live_status import Moment, live_status
from ascend_supervisor.control.protocol import (
    DUMP_SECONDS,
    Accepted,
    Answer,
    AskDump,
    AskReady,
    AskRestart,
    AskStatus,
    AskStop,
    Declined,
    Dumped,
    Ping,
    Pong,
    Readiness,
    Request,
)
from ascend_supervisor.control.status_answer import LiveStatus
from ascend_supervisor.coordination import Coordinator
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.events import Report
from ascend_supervisor.events.hangs import StacksTaken
from ascend_supervisor.events.supervisor import ControlRequest, ControlRequested
from ascend_supervisor.life import JobSeen, Life, NothingSeen
from ascend_supervisor.outcome import Fault, Remedy, Requester
from ascend_supervisor.phrases import have
from ascend_supervisor.probes import Probe
from ascend_supervisor.reporters.status_document import Status
from ascend_supervisor.stop_requests import Interrupts
from ascend_supervisor.tasks.clock import Clock

Dump = Callable[[Life], Awaitable[StacksTaken | NothingSeen]]
"""Takes the stacks of a generation, and reports that."""


class Running(Struct):
    """A generation; ``can_restart`` says whether a request here may end it for another one."""

    life: Life
    dump: Dump
    can_restart: bool


class Current:
    """``running`` is None between generations; ``latest`` stays after the end."""

    def __init__(self) -> None:
        self.running: Running | None = None
        self.latest: Life | None = None

    @contextmanager
    def watching(self, running: Running) -> Iterator[None]:
        """It runs until the end of the block."""
        self.running, self.latest = running, running.life
        try:
            yield
        finally:
            self.running = None


def readiness(status: Status, life: Life | None, *, must_notify: bool) -> Readiness:
    """``life`` is the generation that runs; ``must_notify``: its ranks are to say so themselves.

    Ranks that are started from another server, by mpirun, cannot: they get no NOTIFY_SOCKET.
    """
    obstacle = _obstacle(status, life, must_notify=must_notify)
    if obstacle is not None:
        return Readiness(ready=False, reason=obstacle)
    return Readiness(ready=True, reason=f"generation {status.generation} runs")


def _obstacle(status: Status, life: Life | None, *, must_notify: bool) -> str | None:
    if life is None or status.phase != "running":
        return f"the job is {status.phase}" + (f": {status.why}" if status.why else "")
    if life.is_ending:
        return f"generation {life.generation} is being ended"
    missing = len(life.plan.specs) - len(life.processes)
    if missing:
        return f"{missing} of {len(life.plan.specs)} processes have not been started"
    ended = [living.spec.name for living in life.processes if living.activity.has_ended]
    if ended:
        return f"{ended[0]} has ended"
    silent = [rank for rank in life.plan.start.local_ranks if not _has_notified(life, rank)]
    starts_ranks = any(one.spec.speaks_for_ranks for one in life.processes)
    if must_notify and starts_ranks and silent:
        return f"{have('rank', silent)} sent neither READY=1 nor WATCHDOG=1"
    return None


def _has_notified(life: Life, rank: int) -> bool:
    told = life.notified.get(rank)
    return told is not None and (told.ready_at is not None or told.watchdog_at is not None)


class Operations:
    """Every stop, restart and dump is reported, also if it is declined.

    ``must_notify``: ranks are ready once they have said so over their notify socket. ``current``,
    ``requests`` and ``coordinator`` belong to the job that runs; there is no coordinator before it.
    """

    def __init__(
        self,
        chronicle: Chronicle,
        interrupts: Interrupts,
        clock: Clock,
        report: Report,
        *,
        must_notify: bool,
    ) -> None:
        self.current = Current()
        self.requests = RestartRequests()
        self.coordinator: Coordinator | None = None
        self._chronicle = chronicle
        self._interrupts = interrupts
        self._clock = clock
        self._report = report
        self._must_notify = must_notify

    async def answer(self, request: Request, by: Requester) -> Answer:
        """Do what was asked for; only ``dump`` takes time, at most DUMP_SECONDS."""
        match request:
            case Ping():
                return Pong(self._chronicle.status.pid, self._chronicle.status.start_time)
            case AskStatus():
                return self.status()
            case AskReady():
                return self.readiness()
            case AskStop(grace=grace):
                return self._told("stop", by, self._stop(by, grace))
            case AskRestart(generation=generation):
                return self._told("restart", by, self._restart(by, generation))
            case AskDump():
                return await self._dump(by)

    def seen(self) -> JobSeen | None:
        """All servers of the job, as they were seen last; None if this server decides alone."""
        return None if self.coordinator is None else self.coordinator.seen()

    def status(self) -> LiveStatus:
        """Where the job stands now."""
        moment = Moment(self._clock.now(), self._clock.elapsed())
        return live_status(self._chronicle.now, self.current.latest, moment, self.seen())

    def readiness(self) -> Readiness:
        """Whether the ranks do their work now."""
        running = self.current.running
        return readiness(
            self._chronicle.status,
            None if running is None else running.life,
            must_notify=self._must_notify,
        )

    def _stop(self, by: Requester, grace: float | None) -> Accepted | Declined:
        if self._chronicle.status.phase == "ended":
            return Declined(f"nothing is left to stop: {self._chronicle.status.why}")
        return Accepted(self._interrupts.ask_to_stop(by, grace))

    def _restart(self, by: Requester, meant: int | None) -> Accepted | Declined:
        running = self._running()
        if isinstance(running, Declined):
            return self._wait_ended(meant) or running
        generation = running.life.generation
        if not running.can_restart:
            return Declined(
                "processes on other servers take part in this job, and cannot be restarted from "
                "here; let the cluster restart the job"
            )
        if meant is not None and meant != generation:
            return Declined(
                f"generation {meant} was ended meanwhile, and generation {generation} runs; ask "
                "again if that one is to be restarted, too"
            )
        is_stopping = running.life.is_ending or self._chronicle.status.phase == "stopping"
        if is_stopping or not self.requests.restart(generation, by):
            return Declined(f"generation {generation} is being ended already")
        return Accepted(f"generation {generation} is ended, and the next one starts")

    def _wait_ended(self, meant: int | None) -> Accepted | None:
        """None if there is no wait that an operator may end, or not after that generation."""
        if meant not in (None, self._chronicle.status.generation):
            return None
        if self.coordinator is None or not self.coordinator.end_wait():
            return None
        return Accepted(
            "the next generation starts with the rank table as it is; other servers of the job "
            "that wait must be asked, too"
        )

    async def _dump(self, by: Requester) -> Answer:
        running = self._running()
        if isinstance(running, Declined):
            return self._told("dump", by, running)
        what = f"the stacks of generation {running.life.generation} are taken"
        self._told("dump", by, Accepted(what))
        with anyio.move_on_after(DUMP_SECONDS):
            return _dumped(await running.dump(running.life))
        return Declined(f"the stacks were not there within {DUMP_SECONDS:g} s; ask again")

    def _running(self) -> Running | Declined:
        if self.current.running is not None:
            return self.current.running
        status = self._chronicle.status
        why = f" ({status.why})" if status.why else ""
        return Declined(f"no generation runs, the job is {status.phase}{why}; ask when one runs")

    def _told(
        self, request: ControlRequest, by: Requester, answer: Accepted | Declined
    ) -> Accepted | Declined:
        effect = answer.effect if isinstance(answer, Accepted) else f"declined: {answer.error}"
        self._report(ControlRequested(request, by.uid, by.pid, effect, by.user))
        return answer


def _dumped(taken: StacksTaken | NothingSeen) -> Dumped | Declined:
    if isinstance(taken, NothingSeen):
        return Declined(f"nothing was looked at: {taken.reason}")
    return Dumped(taken.summary, taken.directory if taken.files else None, taken.files)


class RestartRequests(Probe):
    """Ends the generation that somebody wants restarted."""

    def __init__(self) -> None:
        self._generation: int | None = None
        self._by = Requester(0, 0)
        self._news = anyio.Event()

    def restart(self, generation: int, by: Requester) -> bool:
        """End ``generation``; false if that was asked for already."""
        if generation == self._generation:
            return False
        self._generation, self._by = generation, by
        self._news.set()
        self._news = anyio.Event()
        return True

    async def must_end(self, life: Life) -> Fault:
        while life.generation != self._generation:
            await self._news.wait()
        return Fault(f"restart asked for by {self._by}", UNAVAILABLE, Remedy.FREE)
