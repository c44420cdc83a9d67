"""What comes after a generation: again, or the end; a table of cases and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ascend_supervisor.errors import DEFECT, UNAVAILABLE
from ascend_supervisor.outcome import (
    SIGNAL_BASE,
    Completed,
    Crashed,
    ExitStatus,
    Fault,
    Interrupted,
    NotStarted,
    Outcome,
    signal_name,
)

SAME_DEATHS = 3
"""So many generations in a row that die young and alike end the job: a typo is not an accident."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before a restart: at most ``first``, doubled each time up to ``most``."""

    first: float
    most: float


@dataclass(frozen=True, slots=True)
class RestartBudget:
    """``limit`` restarts in any ``period`` seconds (None: in all), and what was spent of it.

    ``early_deaths`` counts the generations in a row that died within ``min_uptime`` seconds with
    the status ``last_death``.
    """

    limit: int
    period: float | None = None
    backoff: Backoff = Backoff(0.0, 0.0)
    min_uptime: float = 0.0
    never: frozenset[int] = frozenset()
    spent: tuple[float, ...] = ()
    early_deaths: int = 0
    last_death: ExitStatus | None = None

    def left(self, now: float) -> int:
        """How many restarts are allowed at ``now``."""
        return max(0, self.limit - len(self.recent(now)))

    def recent(self, now: float) -> tuple[float, ...]:
        return tuple(at for at in self.spent if self.period is None or now - at < self.period)


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the group again after ``delay`` seconds, with ``budget`` from then on."""

    delay: float
    budget: RestartBudget


@dataclass(frozen=True, slots=True)
class Stop:
    """End with ``exit_code``; ``reason`` is a sentence."""

    exit_code: int
    reason: str


Decision = Restart | Stop


def decide(
    outcome: Outcome,
    budget: RestartBudget,
    now: float,
    *,
    uptime: float,
    jitter: float,
    holds_all_ranks: bool,
) -> Decision:
    """What follows ``outcome``.

    ``uptime`` is how long the generation ran, ``jitter`` a random number in [0, 1) (full jitter).
    """
    match outcome:
        case Completed():
            return Stop(0, "every rank ended with 0")
        case NotStarted(exit_code=code, reason=reason):
            return Stop(code or DEFECT, f"not tried again, it would fail the same way: {reason}")
        case Interrupted(signal=number):
            return stopped_by(number)
        case Crashed(failure=failure, leftovers=leftovers):
            code = failure.status.exit_code
            if failure.status.status in budget.never:
                return Stop(code or DEFECT, f"status {code} is never tried again (--no-restart-on)")
            death = failure.status
            code = code or DEFECT
        case Fault(exit_code=code, leftovers=leftovers):
            code = code or UNAVAILABLE
            death = ExitStatus(code)
    if leftovers:
        return Stop(code, f"what is left cannot be ended: {'; '.join(leftovers)}")
    if budget.limit and not holds_all_ranks:
        return Stop(code, "ranks on other servers cannot be restarted from here")
    budget = _with_death(budget, death, uptime)
    if budget.early_deaths >= SAME_DEATHS and budget.left(now):
        return Stop(
            code,
            f"{SAME_DEATHS} generations in a row ended the same way ({death}) within "
            f"{budget.min_uptime:g} s: this will not mend itself",
        )
    return _spend(budget, now, jitter) or Stop(code, _spent(budget))


def stopped_by(number: int) -> Stop:
    """The end when we were told to stop by a signal."""
    return Stop(SIGNAL_BASE + number, f"told to stop by {signal_name(number)}")


def _with_death(budget: RestartBudget, death: ExitStatus, uptime: float) -> RestartBudget:
    early = uptime < budget.min_uptime
    alike = death == budget.last_death
    count = (budget.early_deaths if alike else 0) + 1 if early else 0
    return replace(budget, early_deaths=count, last_death=death)


def _spend(budget: RestartBudget, now: float, jitter: float) -> Restart | None:
    recent = budget.recent(now)
    if len(recent) >= budget.limit:
        return None
    doublings = min(len(recent), 62)
    most = min(budget.backoff.most, budget.backoff.first * 2**doublings)
    delay = most * jitter
    return Restart(delay, replace(budget, spent=(*recent, now + delay)))


def _spent(budget: RestartBudget) -> str:
    if not budget.limit:
        return "no restarts were asked for (--restarts)"
    period = "" if budget.period is None else f" within {budget.period:g} s"
    return f"the restart budget of {budget.limit} is used up{period}"
