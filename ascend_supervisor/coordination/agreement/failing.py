"""Which server keeps failing, as far as the records of the job and this server itself know.

Only what was first in its generation counts, and only where the failed rank does not say itself
that another rank, or its own program, is the cause.
"""

from __future__ import annotations

from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.history import MOST_KEPT, FirstFailure, is_recent
from ascend_supervisor.coordination.agreement.records import About
from ascend_supervisor.coordination.agreement.situation import Self
from ascend_supervisor.evidence.blame import is_caused_elsewhere
from ascend_supervisor.evidence.diagnosed import diagnosis_of
from ascend_supervisor.outcome import Crashed, Failure, Outcome
from ascend_supervisor.untrusted_text import clipped, printable

NOT_THE_SERVERS = frozenset({"user", "framework", "cluster", "unknown"})
"""Layers of causes that would fail in the same way on any other server: all exceptions of Python
among them."""
MAY_BE_THE_SERVERS = frozenset({"507033", "npu-open-failed"})
"""Causes that claim no layer, because the script may have asked for a wrong NPU; but where one of
this server is faulty or held, another server has a better one."""
MOST_OF_REASON = 120


def counts(outcome: Outcome) -> bool:
    """Whether a generation that ends so on this server counts against it.

    A fault does not: a hang that ends here first may have begun anywhere.
    """
    return isinstance(outcome, Crashed) and _is_of_server(outcome.failure)


def _is_of_server(failure: Failure) -> bool:
    if is_caused_elsewhere(failure):
        return False
    diagnosis = failure.diagnosis or diagnosis_of(failure)
    if diagnosis is None or diagnosis.id in MAY_BE_THE_SERVERS:
        return True
    return diagnosis.layer not in NOT_THE_SERVERS


def first_here(case: Case, outcome: Outcome, generation: int, reason: str) -> FirstFailure | None:
    """What counts against this server if ``outcome`` is the first failure of ``generation``."""
    if case.index is None or not counts(outcome):
        return None
    own = case.rules.own
    return first_on(case, case.index, own.machine, own.incarnation, generation, reason)


def first_of_unable(case: Case, unable: str) -> FirstFailure | None:
    """What counts against this server if it cannot do its part in the generation that runs."""
    own = case.rules.own
    if case.index is None or case.running is None:
        return None
    who = (case.index, own.machine, own.incarnation)
    return first_on(case, *who, case.running, unable)


def first_on(
    case: Case, index: int, machine: str, incarnation: str, generation: int, reason: str
) -> FirstFailure | None:
    """The same for another server; None where nobody is ever left out."""
    if not case.rules.leave_after.count or not machine:
        return None
    why = clipped(printable(reason), MOST_OF_REASON)
    return FirstFailure(index, machine, incarnation, generation, case.clocks.date, why)


def failures_told(about: About) -> tuple[FirstFailure, ...]:
    """Those that the job remembers, with that for which it gathers."""
    first = about.cause.first if about.cause is not None else None
    return about.failures if first is None else (*about.failures, first)


def may_be_failing(about: About | None, own: Self) -> bool:
    """Whether this machine has failed first: then all is read, because spares matter."""
    told = failures_told(about) if about is not None else ()
    return bool(own.failures) or any(one.machine == own.machine for one in told if own.machine)


def kept(case: Case) -> tuple[FirstFailure, ...]:
    """What the job is to remember from now on."""
    recent = (one for one in failures_told(case.about) if is_recent(one, case.clocks.date))
    return tuple(recent)[-MOST_KEPT:]


def failures_known(case: Case) -> tuple[FirstFailure, ...]:
    """The last failures that count: those that the job remembers, and our own of earlier jobs."""
    told = failures_told(case.about)
    names = {(one.incarnation, one.generation) for one in told}
    own = case.rules.own.failures
    ours = (one for one in own if (one.incarnation, one.generation) not in names)
    return case.rules.leave_after.latest((*ours, *told), case.clocks.date)


def own_failures(case: Case) -> tuple[FirstFailure, ...]:
    """The failures of this machine, if it was the first to fail too often; else none."""
    return case.rules.leave_after.broken_by(case.rules.own.machine, failures_known(case))


def spares_for(case: Case, index: int) -> tuple[str, ...]:
    """The keys of the spares beside us that may take this place, and have not failed too often."""
    limit, spares = case.rules.leave_after, case.view.spares
    latest = limit.latest(failures_told(case.about), case.clocks.date)
    return tuple(
        key
        for key, one in sorted(spares.items())
        if one.index in {None, index}
        and not case.is_own(one)
        and not limit.broken_by(one.machine, latest)
    )


def vacancies(case: Case) -> int:
    """How many places have no living holder."""
    return case.rules.servers - len(case.view.living)


def is_for_others(case: Case, index: int) -> bool:
    """Whether a free place is not ours yet: we have failed too often, and others may take it.

    A server that is only starting has a TTL to come first.
    """
    if not own_failures(case):
        return False
    has_waited = case.clocks.now - case.memory.phase_seen >= case.rules.ttl
    return bool(spares_for(case, index)) or not has_waited or case.view.known is not None
