"""The transactions that change the epoch, and the small ones of a member.

The restart budget of the job is calculated from the record, so every server gets the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records, rosters
from ascend_supervisor.coordination.agreement.acts import RecordChange
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.records import (
    About,
    Cause,
    Charges,
    Epoch,
    Phase,
    Record,
    encode,
    lease_of,
)
from ascend_supervisor.errors import TABLE_NOT_READY, UNAVAILABLE
from ascend_supervisor.etcd.values import Compare, Delete, Operation, Put
from ascend_supervisor.outcome import Ended, Fault
from ascend_supervisor.restart_policy import Restart, RestartBudget, decide


def budget_after(
    charges: Charges, unspent: RestartBudget, seen: float, now: float
) -> RestartBudget:
    """The budget at ``now``; the record was first seen at ``seen``, in seconds of the same clock.

    A restart may appear younger than it is, never older, so the budget is never exceeded.
    """
    return replace(
        unspent,
        spent=tuple(seen - age for age in charges.spent),
        early_deaths=charges.early_deaths,
        last_death=charges.last_death,
        free=charges.free,
        free_since=seen - charges.free_age if charges.free else now,
        stuck=charges.stuck,
    )


def charges_of(budget: RestartBudget, now: float) -> Charges:
    """The record of a budget at ``now``; a restart that is still delayed has a negative age."""
    return Charges(
        spent=tuple(now - at for at in budget.spent),
        early_deaths=budget.early_deaths,
        last_death=budget.last_death,
        free=budget.free,
        free_age=now - budget.free_since if budget.free else 0.0,
        stuck=budget.stuck,
    )


def put(key: str, record: Record, word: str) -> Put:
    """``word`` names the lease: the id of the job, or our incarnation."""
    return Put(key, encode(record), lease_of(word))


def deletes(*keys: str) -> tuple[Operation, ...]:
    return tuple(map(Delete, keys))


def new_epoch(
    case: Case, why: str, epoch: Epoch, about: About, more: tuple[Compare, ...] = ()
) -> RecordChange:
    """Write ``epoch`` with ``about``, both with a new stamp, if the epoch is what was read.

    ``about`` changes only together with the epoch, so it need not be compared.
    """
    epoch = replace(epoch, stamp=case.clocks.word)
    about = replace(about, stamp=epoch.stamp, epoch=epoch)
    told, blocks = rosters.in_blocks(about, case.rules.group)
    then = (
        put(records.EPOCH_KEY, epoch, epoch.job),
        put(records.ABOUT_KEY, told, epoch.job),
        *_changed_blocks(case, blocks, lease_of(epoch.job)),
    )
    compares = (*case.view.unchanged(records.EPOCH_KEY), *more)
    return RecordChange(compares, then, why=why, about=about)


def _changed_blocks(case: Case, blocks: Mapping[str, bytes], lease: int) -> Iterator[Operation]:
    """What makes the roster in etcd this one: it changes only together with the epoch, too."""
    found = case.view.values
    yield from (Put(key, new, lease) for key, new in blocks.items() if found.get(key) != new)
    yield from (
        Delete(key) for key in found if key.startswith(f"{records.ROSTER}/") and key not in blocks
    )


def the_end(
    case: Case,
    exit_code: int,
    cause: Cause | None,
    more: tuple[Compare, ...] = (),
    why: str = "",
) -> RecordChange:
    """Write ``end``; ``cause`` None leaves the one that is known, and so does an empty ``why``."""
    is_retryable = exit_code in {UNAVAILABLE, TABLE_NOT_READY}
    about = replace(case.about, is_retryable=is_retryable, why=why or case.about.why)
    about = about if cause is None else replace(about, cause=cause)
    epoch = replace(case.epoch, phase=Phase.END, exit_code=exit_code)
    why = f"the job ends with {exit_code}"
    return new_epoch(case, why, epoch, about, more)


def what_follows(
    case: Case, ended: Ended, cause: Cause, more: tuple[Compare, ...] = ()
) -> RecordChange:
    """Write what follows the running generation: ``gather`` for the next one, or ``end``."""
    return _written(case, ended, cause, case.epoch.following, case.clocks.now, more)


def settled(case: Case, ended: Ended, cause: Cause) -> RecordChange:
    """Write what a generation cost that was left ``pending``, or the ``end`` that follows it.

    The generation stays, so its readers count the ages from when they have first seen it.
    """
    return _written(case, ended, cause, case.epoch.generation, case.memory.generation_seen)


def pending(
    case: Case, uptime: float, cause: Cause, more: tuple[Compare, ...] = ()
) -> RecordChange:
    """Write ``gather`` for the next generation; what the restart costs is written later."""
    about = replace(
        case.about, cause=cause, delay=0.0, is_free=False, by_cluster=False, pending=uptime
    )
    epoch = replace(case.epoch, phase=Phase.GATHER, generation=case.epoch.following)
    return new_epoch(case, cause.reason, epoch, about, more)


def _written(
    case: Case,
    ended: Ended,
    cause: Cause,
    generation: int,
    seen: float,
    more: tuple[Compare, ...] = (),
) -> RecordChange:
    """``seen`` is when the readers have seen, or will see, ``generation`` for the first time."""
    memory, rules, now = case.memory, case.rules, case.clocks.now
    budget = budget_after(case.about.charges, rules.budget, memory.generation_seen, now)
    ended = replace(ended, reached=case.situation.reached)
    decision = decide(ended, budget, now, jitter=case.clocks.fraction, holds_all_ranks=True)
    if not isinstance(decision, Restart):
        epoch = replace(case.epoch, phase=Phase.END, exit_code=decision.exit_code)
        charges = case.about.charges
        if decision.stuck is not None:
            charges = replace(charges, stuck=decision.stuck)
        about = replace(
            case.about,
            cause=cause,
            charges=charges,
            is_retryable=decision.is_retryable,
            why=decision.reason,
        )
        return new_epoch(case, f"{cause.reason}; {decision.reason}", epoch, about, more)
    about = replace(
        case.about,
        cause=cause,
        charges=charges_of(decision.budget, seen),
        delay=decision.delay,
        is_free=decision.is_free,
        by_cluster=_is_by_cluster(ended),
        pending=None,
    )
    epoch = replace(case.epoch, phase=Phase.GATHER, generation=generation)
    return new_epoch(case, cause.reason, epoch, about, more)


def _is_by_cluster(ended: Ended) -> bool:
    match ended.decisive:
        case Fault(by_cluster=by_cluster):
            return by_cluster
        case _:
            return False
