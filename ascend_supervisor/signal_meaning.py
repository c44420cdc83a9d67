"""What a signal to stop means, and which failures it explains; pure.

Kubernetes sends SIGTERM more than once: a preStop hook to every process of the container, then
kubelet to PID 1. So a repeated SIGTERM is the same request, and only a person is impatient.
"""

from __future__ import annotations

from signal import Signals

from ascend_supervisor.outcome import SIGNAL_BASE, Failure, StopSignal

IMPATIENT_SECONDS = 0.5
"""A SIGINT sooner than this after a signal to stop is part of it: one Ctrl-C may come twice."""
SAME_STOP_SECONDS = 2.0
"""A SIGTERM may reach the ranks this long before it reaches us."""


def is_impatient(number: int, now: float, first: StopSignal) -> bool:
    """Whether this signal, after the ``first`` one, asks to kill what is left."""
    if number == Signals.SIGINT:
        return now - first.at >= IMPATIENT_SECONDS
    return number == Signals.SIGQUIT


def explainable_until(failure: Failure) -> float | None:
    """Until when a SIGTERM to us explains this failure, in seconds of the clock; None: never.

    It explains a death by SIGTERM, also as a shell reports it (143), unless a framework says that
    it ended the process itself.
    """
    by_sigterm = failure.status.exit_code == SIGNAL_BASE + Signals.SIGTERM
    return failure.ended_at + SAME_STOP_SECONDS if by_sigterm and not failure.reason else None


def explains(stop: StopSignal, failure: Failure) -> bool:
    """Whether the failure is a consequence of the same request to stop."""
    until = explainable_until(failure)
    return stop.number == Signals.SIGTERM and until is not None and stop.at <= until
