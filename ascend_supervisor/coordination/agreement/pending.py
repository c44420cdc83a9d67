"""Lines for a failure that may be that of the cluster: what it costs is known later.

The ranks of all servers are ended at once. The next ``run`` waits for the word of the cluster.
"""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import Act
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.records import Cause
from ascend_supervisor.coordination.agreement.rules import Rules
from ascend_supervisor.coordination.agreement.writing import settled
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.evidence.blame import Blame, blame
from ascend_supervisor.outcome import Crashed, Ended, Failure, Fault, Outcome, Remedy


def is_the_clusters(case: Case) -> Act | None:
    """The cluster recovers, so the failure was its own: it costs nothing."""
    told, uptime = case.situation.cluster, case.about.pending
    if case.gathering is None or case.member is None or uptime is None or told is None:
        return None
    assert case.index is not None  # noqa: S101
    cause = Cause(case.index, told.exit_code or UNAVAILABLE, told.reason)
    return settled(case, Ended(told, uptime), cause)


def charge(case: Case) -> Act | None:
    """The cluster has said nothing in time, or need not be asked: the failure is charged.

    As long as others are missing it may still say that it replaces them.
    """
    uptime, cause = case.about.pending, case.about.cause
    if case.gathering is None or case.member is None or uptime is None or cause is None:
        return None
    if (known := _failure_here(case, cause)) is not None and blame(known) is Blame.OWN:
        return settled(
            case, Ended(Crashed(known), uptime), replace(cause, failure=known.to_be_sent)
        )
    is_over = case.clocks.now >= case.memory.phase_seen + case.rules.verdict
    if not is_over or len(case.view.living) < case.rules.servers:
        return None
    return settled(case, Ended(_outcome(cause), uptime), cause)


def may_be_the_clusters(ended: Ended, rules: Rules) -> bool:
    """Whether a cluster that is followed is to be heard before this end is charged."""
    if not rules.verdict or ended.left:
        return False
    match ended.decisive:
        case Crashed(failure=failure):
            is_never_retried = failure.status.status in rules.budget.never
            return not is_never_retried and blame(failure) is not Blame.OWN
        case Fault(remedy=remedy):
            return remedy is Remedy.CHARGED
        case _:
            return False


def _failure_here(case: Case, cause: Cause) -> Failure | None:
    """The failure that was told, with all that became known since; None if it is not ours."""
    verdict, told = case.situation.verdict, cause.failure
    if cause.server != case.index or verdict is None or told is None:
        return None
    match verdict.decisive:
        case Crashed(failure=failure) if failure.generation == told.generation:
            return failure
        case _:
            return None


def _outcome(cause: Cause) -> Outcome:
    if cause.failure is not None:
        return Crashed(cause.failure)
    return Fault(cause.reason, cause.exit_code)
