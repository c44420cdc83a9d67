"""The restart budget of the job, as every server calculates it from the record."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.records import Charges
from ascend_supervisor.restart_policy import RestartBudget


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
    )


def charges_of(budget: RestartBudget, now: float) -> Charges:
    """The record of a budget at ``now``; a restart that is still delayed has a negative age."""
    return Charges(
        spent=tuple(now - at for at in budget.spent),
        early_deaths=budget.early_deaths,
        last_death=budget.last_death,
        free=budget.free,
        free_age=now - budget.free_since if budget.free else 0.0,
    )
