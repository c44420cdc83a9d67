"""What follows a generation: a restart or the end; a table of cases, pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.errors import BAD_TABLE, DEFECT, HANG, UNAVAILABLE
from ascend_supervisor.outcome import (
    SIGNAL_BASE,
    Completed,
    Crashed,
    Ended,
    ExitStatus,
    Failure,
    Fault,
    Interrupted,
    NotStarted,
    Outcome,
    Reached,
    Remedy,
    StopSignal,
    signal_name,
)
from ascend_supervisor.phrases import counted, listed

SAME_DEATHS = 3
"""This many early deaths in a row with the same status end the job: retrying fixes no typo.

A rank that has lost another one has no typo, whatever its status.
"""
STEADY_SECONDS = 60.0
"""A generation that ran this long ends a row of free restarts."""
FREE_SECONDS = 3600.0
"""After a row of free restarts this long, the next one is charged: the cluster is unstable."""
CONTROL_PROGRAM = "ascend-supervisorctl"
"""What operators usually ask with."""


class Backoff(Struct, frozen=True):
    """Seconds before a restart: at most ``first``, doubled each time up to ``most``."""

    first: float
    most: float


class RestartBudget(Struct, frozen=True):
    """``limit`` restarts in any ``period`` seconds (None: in all), and what was spent of it.

    ``early_deaths`` counts the generations in a row that died within ``min_uptime`` seconds with
    the status ``last_death``. What is ``never`` and of ``never_causes`` (ids or layers) is not
    tried again. ``free`` counts the free restarts of a row that began at
    ``free_since``. ``stuck`` are the last steps of the charged generations in a row that came no
    further than the best step before them (None: no step); ``stuck_limit`` of them are allowed, 0
    is no limit.
    """

    limit: int
    period: float | None = None
    backoff: Backoff = Backoff(0.0, 0.0)
    min_uptime: float = 0.0
    never: frozenset[int] = frozenset()
    never_causes: frozenset[str] = frozenset()
    spent: tuple[float, ...] = ()
    early_deaths: int = 0
    last_death: ExitStatus | None = None
    free: int = 0
    free_since: float = 0.0
    stuck_limit: int = 0
    stuck: tuple[int | None, ...] = ()

    def rules_out(self, failure: Failure) -> str | None:
        """Why the user wants no restart after this failure, in half a sentence; None otherwise."""
        if failure.status.status in self.never:
            return f"status {failure.status.status} is never tried again (--no-restart-on)"
        cause = _known_cause(failure) if self.never_causes else None
        if cause is None or self.never_causes.isdisjoint({cause.id, cause.layer}):
            return None
        return (
            f"{cause.id}, a cause of the layer {cause.layer}, is never tried again "
            "(--no-restart-on-cause)"
        )

    def left(self, now: float) -> int:
        """How many restarts are allowed at ``now``."""
        return max(0, self.limit - len(self.recent(now)))

    def recent(self, now: float) -> tuple[float, ...]:
        return tuple(at for at in self.spent if self.period is None or now - at < self.period)


class ClusterRestarts(Struct, frozen=True):
    """What the cluster has ``used`` of the restarts that it may ask for within an hour."""

    used: int
    limit: int


class Restart(Struct, frozen=True):
    """Start the group again after ``delay`` seconds, with ``budget`` from then on.

    ``is_free``: the budget was not charged. ``cause`` is a sentence, if it is not what ended the
    generation here. ``cluster`` counts this restart, too; None if the cluster is not followed.
    ``server`` is the index of the server that the cause is on; None if this one decides alone.
    ``failure`` is that cause, if it is one.
    """

    delay: float
    budget: RestartBudget
    is_free: bool = False
    cause: str = ""
    cluster: ClusterRestarts | None = None
    server: int | None = None
    failure: Failure | None = None


class Stop(Struct, frozen=True):
    """End with ``exit_code``; ``reason`` is a sentence.

    ``cause`` is the root cause of the job, if another server has reported it: a failure or a
    sentence; ``server`` is the index of the server that it is on, None if this one decides alone.
    ``is_retryable``: a controller may start the job again, here or elsewhere
    (--retryable-exit-code). ``stuck`` is that of the budget from now on; None: it is as before.
    """

    exit_code: int
    reason: str
    cause: Failure | str | None = None
    is_retryable: bool = True
    server: int | None = None
    stuck: tuple[int | None, ...] | None = None


Decision = Restart | Stop


def decide(
    ended: Ended,
    budget: RestartBudget,
    now: float,
    *,
    jitter: float,
    holds_all_ranks: bool,
) -> Decision:
    """What follows a generation; ``jitter`` is a random number in [0, 1) (full jitter)."""
    death = _death(ended.decisive, budget)
    if isinstance(death, Stop):
        return death
    if ended.left:
        return Stop(death.code, f"what is left cannot be ended: {'; '.join(ended.left)}")
    if not holds_all_ranks:
        return Stop(death.code, "processes on other servers cannot be restarted from here")
    if ended.uptime >= STEADY_SECONDS:
        budget = replace(budget, free=0)
    if death.is_free and not _flaps(budget, now):
        return _free(budget, now, jitter)
    return _charged(budget, now, jitter, death, ended)


class _Death(Struct, frozen=True):
    """The end of a generation that may be followed by another; ``how`` says it in short.

    It ``is_own`` if no other rank has brought it about.
    """

    status: ExitStatus
    code: int
    how: str
    is_free: bool = False
    is_own: bool = True


def _death(outcome: Outcome, budget: RestartBudget) -> Stop | _Death:
    """A Stop if no generation can follow, whatever the budget."""
    match outcome:
        case Completed(who=who):
            return _unrepeated(0, f"{who} ended with 0")
        case NotStarted(exit_code=code, reason=reason):
            return _unrepeated(
                code or DEFECT, f"{reason}; not tried again: it would fail the same way"
            )
        case Interrupted(stop=stop):
            return stopped_by(stop)
        case Crashed(failure=failure):
            code = failure.status.exit_code or DEFECT
            if ruled_out := budget.rules_out(failure):
                return _unrepeated(code, ruled_out)
            return _Death(failure.status, code, str(failure.status), is_own=_is_own(failure))
        case Fault(reason=reason, exit_code=told, remedy=remedy):
            code = told or UNAVAILABLE
            if remedy is Remedy.FINAL:
                retryable = code != BAD_TABLE
                return Stop(code, f"{reason}; not tried again", is_retryable=retryable)
            how = f"{'a hang' if code == HANG else 'a fault'}, exit code {code}"
            return _Death(ExitStatus(code), code, how, remedy is Remedy.FREE)


def _known_cause(failure: Failure) -> Diagnosis | None:
    """Servers that decide together do so before anybody has looked."""
    from ascend_supervisor.evidence.diagnosed import diagnosis_of  # noqa: PLC0415  (see late_imports)

    return failure.diagnosis or diagnosis_of(failure)


def _is_own(failure: Failure) -> bool:
    from ascend_supervisor.evidence.blame import (  # noqa: PLC0415  (see late_imports)
        is_caused_elsewhere,
    )

    return not is_caused_elsewhere(failure)


def stopped_by(stop: StopSignal) -> Stop:
    """The end when we were told to stop by a signal, or by an operator."""
    told_by = signal_name(stop.number) if stop.by is None else f"{CONTROL_PROGRAM} ({stop.by})"
    return _unrepeated(SIGNAL_BASE + stop.number, f"told to stop by {told_by}")


def _unrepeated(exit_code: int, reason: str) -> Stop:
    """An end after which no controller should try again."""
    return Stop(exit_code, reason, is_retryable=False)


def _charged(
    budget: RestartBudget, now: float, jitter: float, death: _Death, ended: Ended
) -> Decision:
    budget = _with_death(budget, death, ended.uptime)
    stuck = _stuck_after(budget, ended.reached)
    decision = _priced(replace(budget, stuck=stuck), now, jitter, death, ended.reached.best)
    if isinstance(decision, Stop) and stuck != budget.stuck:
        return replace(decision, stuck=stuck)
    return decision


def _stuck_after(budget: RestartBudget, reached: Reached) -> tuple[int | None, ...]:
    """No more of them than the limit: what is kept does not grow."""
    if not reached.is_stuck or not budget.stuck_limit:
        return ()
    return (*budget.stuck, reached.step)[-budget.stuck_limit :]


def _priced(
    budget: RestartBudget, now: float, jitter: float, death: _Death, best: int | None
) -> Decision:
    if 0 < budget.stuck_limit <= len(budget.stuck) and budget.left(now):
        return _unrepeated(death.code, _no_progress(budget.stuck, best))
    if budget.early_deaths >= SAME_DEATHS and budget.left(now):
        return _unrepeated(
            death.code,
            f"{SAME_DEATHS} generations in a row ended the same way ({death.how}) within "
            f"{budget.min_uptime:g} s: retrying will not help",
        )
    return _spend(budget, now, jitter) or Stop(death.code, _spent(budget))


def _no_progress(stuck: Sequence[int | None], best: int | None) -> str:
    steps = ["no step" if step is None else f"step {step:,}" for step in stuck]
    ended = f"all ended at {steps[0]}" if len(set(steps)) == 1 else f"they ended at {listed(steps)}"
    return (
        f"{counted(len(stuck), 'generation')} in a row came no further than step {best or 0:,} "
        f"({ended}): retrying will not help (--no-progress-limit)"
    )


def _flaps(budget: RestartBudget, now: float) -> bool:
    return budget.free > 0 and now - budget.free_since >= FREE_SECONDS


def _free(budget: RestartBudget, now: float, jitter: float) -> Restart:
    since = budget.free_since if budget.free else now
    delay = _longest_delay(budget.backoff, budget.free) * jitter
    following = replace(budget, free=budget.free + 1, free_since=since)
    return Restart(delay, following, is_free=True)


def _with_death(budget: RestartBudget, death: _Death, uptime: float) -> RestartBudget:
    early = uptime < budget.min_uptime and death.is_own
    alike = death.status == budget.last_death
    count = (budget.early_deaths if alike else 0) + 1 if early else 0
    return replace(budget, early_deaths=count, last_death=death.status)


def _spend(budget: RestartBudget, now: float, jitter: float) -> Restart | None:
    recent = budget.recent(now)
    if len(recent) >= budget.limit:
        return None
    delay = _longest_delay(budget.backoff, len(recent)) * jitter
    return Restart(delay, replace(budget, spent=(*recent, now + delay)))


def _longest_delay(backoff: Backoff, restarts: int) -> float:
    return min(backoff.most, backoff.first * 2.0 ** min(restarts, 62))


def _spent(budget: RestartBudget) -> str:
    if not budget.limit:
        return "no restarts were asked for (--restarts)"
    period = "" if budget.period is None else f" within {budget.period:g} s"
    return f"the restart budget of {budget.limit} is used up{period}"
