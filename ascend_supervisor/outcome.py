"""How a process ended, and how a generation ended; values only."""

from __future__ import annotations

from dataclasses import dataclass
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
    """A process failed; ``leftovers`` describes what even SIGKILL did not end."""

    failure: Failure
    leftovers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """Somebody else says that the generation must end; ``exit_code`` is for when it is the last."""

    reason: str
    exit_code: int
    leftovers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Interrupted:
    """We were told to stop by a signal; a failure may have come before it."""

    signal: int
    failure: Failure | None = None


Outcome = Completed | NotStarted | Crashed | Fault | Interrupted


def signal_name(number: int) -> str:
    """The signal's name, such as SIGTERM; "signal 40" for the real-time ones without a name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
