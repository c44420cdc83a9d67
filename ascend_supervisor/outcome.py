"""How a process ended, and how a generation ended; values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from signal import Signals

SIGNAL_BASE = 128
"""Added to a signal's number to make an exit code of it, as shells do."""


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a child ended: with a status of its own (0-255) or by a signal, never both."""

    status: int | None
    signal: int | None = None

    @property
    def ok(self) -> bool:
        return self.status == 0

    @property
    def exit_code(self) -> int:
        """The status, or 128 + the signal's number."""
        return SIGNAL_BASE + self.signal if self.signal is not None else (self.status or 0)

    @property
    def signal_name(self) -> str | None:
        return None if self.signal is None else signal_name(self.signal)

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was killed by {signal_name(self.signal)}"
        return f"exited with status {self.status}"


@dataclass(frozen=True, slots=True)
class Failure:
    """The first process of a generation that failed: the root cause, as far as can be known.

    ``exception`` is what it raised, ``reason`` what its framework says of why it ended it.
    ``ended_at`` is in seconds of the clock.
    """

    name: str
    rank: int | None
    generation: int
    status: ExitStatus
    runtime_seconds: float
    ended_at: float = 0.0
    oom_killed: bool | None = None
    log: str = ""
    exception: str | None = None
    last_lines: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """Every significant process ended with 0."""


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A process could not be started, and starting it again would fail the same way."""

    exit_code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Crashed:
    """A process of this server failed."""

    failure: Failure


class Remedy(Enum):
    """What a fault costs."""

    CHARGED = "charged"
    """A restart, charged to the budget."""
    FREE = "free"
    """A restart that is not charged: somebody else has asked for it."""
    FINAL = "final"
    """No restart would help."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: ``drain`` from the first failure to TERM, ``grace`` from TERM to KILL.

    ``kill`` bounds the wait for the end of what was killed: a process inside a driver call does
    not end before the driver lets go.
    """

    drain: float
    grace: float
    kill: float = 30.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A reason to end a generation that is no death of a process here.

    ``exit_code`` is for when this generation is the last. ``patience`` None means the job's grace
    and no drain. ``last_look``: the ranks are looked at before they are told to stop. ``cause`` is
    the first failure, where another server has told of it.
    """

    reason: str
    exit_code: int
    remedy: Remedy = Remedy.CHARGED
    patience: Patience | None = None
    last_look: bool = False
    cause: Failure | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """We were told to stop by a signal; a failure may have come before it."""

    signal: int
    failure: Failure | None = None


Outcome = Completed | NotStarted | Crashed | Fault | Interrupted


@dataclass(frozen=True, slots=True)
class Ended:
    """A generation when nothing of it runs any more.

    ``uptime`` is in seconds, from its start to its first reason to end. ``faults`` came while it
    was being ended; ``left`` describes the processes that even SIGKILL did not end.
    """

    outcome: Outcome
    uptime: float
    faults: tuple[Fault, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def decisive(self) -> Outcome:
        """What decides on what follows: the outcome, unless a fault that came later weighs more.

        A final fault weighs more than a free one, and that more than a failure here: it would be
        charged. Nothing outweighs the end of all ranks, nor a signal to us.
        """
        return max((self.outcome, *self.faults), key=_weight)


def _weight(outcome: Outcome) -> int:
    match outcome:
        case Fault(remedy=Remedy.FINAL):
            return 2
        case Fault(remedy=Remedy.FREE):
            return 1
        case Crashed() | Fault():
            return 0
        case Completed() | NotStarted() | Interrupted():
            return 3


def signal_name(number: int) -> str:
    """The signal's name, such as SIGTERM; "signal 40" for the real-time ones without a name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
