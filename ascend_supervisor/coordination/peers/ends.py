"""What the peers' orders mean to the story: faults, stops, the price of a restart; pure.

Times are seconds of CLOCK_BOOTTIME; ``full`` is the budget with which the job began.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import EndRanks, Exit
from ascend_supervisor.coordination.agreement.causes import is_consequence
from ascend_supervisor.coordination.agreement.gathering import named
from ascend_supervisor.coordination.agreement.memory import PeerMemory
from ascend_supervisor.coordination.agreement.records import Cause, Charges
from ascend_supervisor.coordination.agreement.situation import JobRules
from ascend_supervisor.coordination.agreement.writing import budget_after
from ascend_supervisor.errors import TABLE_NOT_READY, UNAVAILABLE, Unavailable
from ascend_supervisor.outcome import Crashed, Ended, Failure, Fault, Patience, Remedy
from ascend_supervisor.restart_policy import Restart, RestartBudget, Stop

AT_ONCE = Patience(drain=0.0, grace=0.0)
SUCCEEDED = "all ranks of all servers ended with 0"


def told(cause: Cause) -> str:
    """The cause, with its server, as a sentence without its end."""
    server = f"server {cause.server}"
    names_it = re.search(rf"\b{server}\b", cause.reason)  # server 1 is not server 12
    where = "" if names_it else f"{server}: "
    return "; ".join((f"{where}{cause.reason}", *_not_back(cause)))


def _not_back(cause: Cause) -> tuple[str, ...]:
    hosts = dict(zip(cause.also_lost, cause.hosts_lost, strict=False))
    names = (named(index, hosts.get(index, "")) for index in cause.also_lost)
    return tuple(f"{name} did not come back" for name in names)


def fault_of(order: EndRanks | Exit, cause: Cause | None, patience: Patience) -> Fault:
    """Why our ranks are to end; what follows is decided by all, so it costs nothing here.

    ``patience`` is the job's: the ranks may be writing a last checkpoint.
    """
    if isinstance(order, Exit) and order.kills:
        return Fault(order.reason, order.exit_code, Remedy.FINAL, AT_ONCE)
    if cause is None:
        return Fault(order.reason, UNAVAILABLE, Remedy.FREE, patience)
    return Fault(told(cause), cause.exit_code, Remedy.FREE, patience, cause=cause.failure)


def with_own_failure(stop: Stop, ended: Ended) -> Stop:
    """``stop`` with the failure on this server, if a consequence on another one was told first."""
    cause, outcome = stop.cause, ended.outcome
    if not isinstance(cause, Failure) or not isinstance(outcome, Crashed):
        return stop
    failure = outcome.failure
    if failure == cause or not is_consequence(cause) or is_consequence(failure):
        return stop
    return replace(stop, reason=f"{stop.reason}; on this server {failure.name} {failure.status}")


def ended_by(order: Exit, memory: PeerMemory) -> Stop:
    """The end that all servers have agreed on, or that this one had to choose alone."""
    ended, about, cause = memory.ended, memory.about, order.cause
    if ended is not None and about is not None:
        is_retryable = about.is_retryable and order.exit_code != 0
    else:
        is_retryable = order.exit_code in {UNAVAILABLE, TABLE_NOT_READY}
    if not order.exit_code:
        reason = order.reason if ended is None else SUCCEEDED
        return Stop(order.exit_code, reason, is_retryable=is_retryable)
    why = about.why if ended is not None and about is not None else order.reason
    if cause is None:
        return Stop(order.exit_code, why or order.reason, is_retryable=is_retryable)
    if cause.failure is None:
        sentence = told(cause)
        if why.startswith(cause.reason):  # then it begins with its cause
            why = why[len(cause.reason) :].lstrip("; ")
        reason = f"{sentence}; {why}" if why else sentence
        return Stop(order.exit_code, reason, sentence, is_retryable, cause.server)
    told_beside = (f"the cause is on server {cause.server}", *_not_back(cause), why)
    reason = "; ".join(one for one in told_beside if one)
    return Stop(order.exit_code, reason, cause.failure, is_retryable, cause.server)


class Moved(Unavailable):
    """The rank table gives this server another place: it must be started anew."""


class Replaced(Unavailable):
    """The cluster wants another in the place of this server: the others wait for that."""


def moved_to(rules: JobRules, index: int, servers: int, *, may_move: bool) -> JobRules:
    """The rules of a server at this place among so many, which a later rank table gives it.

    ``may_move``: that it was at another place is no fault. Else raises Moved.
    """
    if (index, servers) == (rules.own.index, rules.servers):
        return rules
    if may_move:
        return replace(rules, servers=servers, own=replace(rules.own, index=index))
    raise Moved(
        f"the rank table has changed: this was server {rules.own.index} of {rules.servers}, and is "
        f"now server {index} of {servers}; a server that was moved must be started anew"
    )


def budget_at(memory: PeerMemory, full: RestartBudget, now: float) -> RestartBudget:
    charges = memory.about.charges if memory.about is not None else Charges()
    return budget_after(charges, full, memory.generation_seen, now)


def restart_at(memory: PeerMemory, full: RestartBudget, now: float) -> Restart:
    """With what is left of the delay, for which the others wait, too."""
    budget, about = budget_at(memory, full, now), memory.about
    if about is None or about.cause is None:
        return Restart(0.0, budget)
    delay, cause = max(0.0, memory.phase_seen + about.delay - now), about.cause
    restart = Restart(delay, budget, about.is_free, told(cause), server=cause.server)
    return replace(restart, failure=cause.failure)


def pending_failure(memory: PeerMemory) -> str | None:
    """The failure of which the cluster may say that it is its own; None if there is none."""
    about = memory.about
    if about is None or about.cause is None or about.pending is None:
        return None
    return told(about.cause)
