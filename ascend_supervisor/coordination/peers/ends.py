"""What the peers' orders mean to the story: faults and stops; pure."""

from __future__ import annotations

from ascend_supervisor.coordination.agreement.acts import EndRanks, Exit
from ascend_supervisor.coordination.agreement.records import About, Cause
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.outcome import Fault, Patience, Remedy
from ascend_supervisor.restart_policy import Stop

AT_ONCE = Patience(drain=0.0, grace=0.0)


def told(cause: Cause) -> str:
    """The cause, with its server, as a sentence without its end."""
    lost = "".join(f"; server {index} was also lost" for index in cause.also_lost)
    return f"server {cause.server}: {cause.reason}{lost}"


def fault_of(order: EndRanks | Exit, cause: Cause | None, patience: Patience) -> Fault:
    """Why our ranks are to end; what follows is decided by all, so it costs nothing here.

    ``patience`` is the job's: the ranks may be writing a last checkpoint.
    """
    if isinstance(order, Exit) and order.kills:
        return Fault(order.reason, order.exit_code, Remedy.FINAL, AT_ONCE)
    if cause is None:
        return Fault(order.reason, UNAVAILABLE, Remedy.FREE, patience)
    return Fault(told(cause), cause.exit_code, Remedy.FREE, patience, cause=cause.failure)


def ended_by(order: Exit, about: About | None) -> Stop:
    """The end that all servers have agreed on, or that this one had to choose alone."""
    cause = order.cause or (about.cause if about is not None else None)
    if cause is None or not order.exit_code:
        return Stop(order.exit_code, order.reason)
    return Stop(order.exit_code, f"{order.reason}: {told(cause)}", cause.failure)
