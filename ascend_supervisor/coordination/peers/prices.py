"""What a restart of the job costs, and what is left of its budget; pure.

Times are seconds of CLOCK_BOOTTIME; ``full`` is the budget with which the job began.
"""

from __future__ import annotations

from ascend_supervisor.coordination.agreement.charges import budget_after
from ascend_supervisor.coordination.agreement.memory import Memory
from ascend_supervisor.coordination.agreement.records import Charges
from ascend_supervisor.coordination.peers.ends import told
from ascend_supervisor.restart_policy import Restart, RestartBudget


def budget_at(memory: Memory, full: RestartBudget, now: float) -> RestartBudget:
    charges = memory.about.charges if memory.about is not None else Charges()
    return budget_after(charges, full, memory.generation_seen, now)


def restart_at(memory: Memory, full: RestartBudget, now: float) -> Restart:
    """With what is left of the delay, for which the others wait, too."""
    budget, about = budget_at(memory, full, now), memory.about
    if about is None or about.cause is None:
        return Restart(0.0, budget)
    delay = max(0.0, memory.phase_seen + about.delay - now)
    return Restart(delay, budget, about.is_free, told(about.cause), server=about.cause.server)


def pending_failure(memory: Memory) -> str | None:
    """The failure of which the cluster may say that it is its own; None if there is none."""
    about = memory.about
    if about is None or about.cause is None or about.pending is None:
        return None
    return told(about.cause)
