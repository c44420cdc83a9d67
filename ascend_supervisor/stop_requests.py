"""The signals that we receive, and requests to stop, as something to wait for, in every state.

Kubernetes sends SIGTERM more than once: a preStop hook to every process of the container, then
kubelet to PID 1. So a repeated SIGTERM is the same request, and only a person is impatient.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from signal import Signals

import anyio

from ascend_supervisor.events import Report
from ascend_supervisor.events.supervisor import SignalReceived
from ascend_supervisor.outcome import Requester, StopSignal, signal_name
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first

IMPATIENT_SECONDS = 0.5
"""A SIGINT sooner than this after a signal to stop is part of it: one Ctrl-C may come twice."""


def is_impatient(number: int, now: float, first: StopSignal) -> bool:
    """Whether this signal, after the ``first`` one, asks to kill what is left."""
    if number == Signals.SIGINT:
        return now - first.at >= IMPATIENT_SECONDS
    return number == Signals.SIGQUIT


STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
FORWARDED = (signal.SIGUSR1, signal.SIGUSR2)
IDLE = "stopping; no rank runs"
"""What a stop means while nothing runs that would have a grace."""
HEARD = (*STOPPING, *FORWARDED, signal.SIGHUP)

Listen = Callable[[Mapping[int, Callable[[], None]]], None]
"""Calls the handlers for signals from now on; to be called with the event loop running.

It needs a handler for each signal of HEARD, and for SIGCHLD."""


class Interrupts:
    """The first stopping signal asks for an end with grace, an impatient one cuts it short.

    ``usual_grace`` (seconds) is the job's, for the words about a stop; None if there is no job.
    """

    def __init__(
        self,
        report: Report,
        reopen_logs: Callable[[], None],
        clock: Clock,
        usual_grace: float | None = None,
    ) -> None:
        self._report = report
        self._reopen_logs = reopen_logs
        self._clock = clock
        self._with_grace = (
            "with grace" if usual_grace is None else f"with {usual_grace:g} s of grace"
        )
        self._forward: Callable[[int], bool] | None = None
        self._stop = anyio.Event()
        self._hurry = anyio.Event()
        self._first: StopSignal | None = None
        self._grace: float | None = None
        self._news_of_grace = anyio.Event()

    def hear(self, number: int) -> None:
        """To be called in the event loop's thread for every signal of HEARD."""
        self._report(SignalReceived(signal_name(number), self._obey(number)))

    def ask_to_stop(self, by: Requester, grace: float | None) -> str:
        """Stop as at SIGTERM, because an operator asks for it; says what this changes.

        ``grace`` (seconds) stands in place of the job's, also if the ranks are being stopped
        already; None leaves what holds now.
        """
        is_first = self._first is None
        if is_first:
            self._first = StopSignal(signal.SIGTERM, self._clock.now(), by)
            self._stop.set()
        if grace is not None:
            self._grace = grace
            self._news_of_grace.set()
            self._news_of_grace = anyio.Event()
        if self._forward is None and (is_first or grace is not None):
            return IDLE
        if grace is not None:
            return f"stopping; what is left after a grace of {grace:g} s is killed"
        is_new = f"stopping, {self._with_grace}"
        return is_new if is_first else "stopping already; this changes nothing"

    @property
    def grace(self) -> float | None:
        """What the latest request to stop says in place of the job's grace, in seconds."""
        return self._grace

    async def next_grace(self) -> float:
        """The grace of the next request to stop that says one, in seconds."""
        await self._news_of_grace.wait()
        assert self._grace is not None  # noqa: S101  (set before the event)
        return self._grace

    async def stop(self) -> StopSignal:
        """The first stopping signal, as soon as there is one."""
        await self._stop.wait()
        assert self._first is not None  # noqa: S101  (set before the event)
        return self._first

    async def stop_within(self, seconds: float) -> StopSignal | None:
        """The same, or None after ``seconds``. With 0, only a signal that has come already."""
        if self._first is None and seconds > 0:
            await first(self._stop.wait, partial(self._clock.sleep, seconds))
        return self._first

    async def hurry(self) -> None:
        """Return when an impatient signal has come."""
        await self._hurry.wait()

    def stop_so_far(self) -> StopSignal | None:
        """The first stopping signal, if one has come."""
        return self._first

    @contextmanager
    def forwarding(self, send: Callable[[int], bool]) -> Iterator[None]:
        """Meanwhile pass SIGUSR1 and SIGUSR2 to ``send``, which returns whether they were sent."""
        self._forward = send
        try:
            yield
        finally:
            self._forward = None

    def _obey(self, number: int) -> str:
        if number == signal.SIGHUP:
            self._reopen_logs()
            return "the log files are opened anew"
        if number in FORWARDED:
            if self._forward is None or not self._forward(number):
                return "no rank runs that it could be forwarded to"
            return "forwarded to the ranks"
        now = self._clock.now()
        if self._first is None:
            self._first = StopSignal(number, now)
            self._stop.set()
            if self._forward is None:
                return IDLE
            return f"stopping, {self._with_grace}; a later SIGINT, or SIGQUIT, kills what is left"
        if not is_impatient(number, now, self._first):
            return "stopping already; this changes nothing"
        self._hurry.set()
        return "stopping at once"
