"""Lines for a newcomer that finds the ``end`` of a job that it never knew."""

from __future__ import annotations

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.agreement.acts import Act, Exit, Transaction
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.epochs import first_gathering
from ascend_supervisor.coordination.agreement.indices import was_absent
from ascend_supervisor.coordination.agreement.records import Phase


def ended_here(case: Case) -> Act | None:
    """The job has succeeded, and this place was done: it only missed the end."""
    if not _has_unknown_end(case) or case.epoch.exit_code:
        return None
    place = case.rules.own.place
    for index, seat in enumerate(case.roster):
        if seat.place == place and case.has_done(index):
            done = keys.done(case.epoch.generation, index)
            told = Transaction(
                "the end was read",  # so that the next start here takes part in the next job
                case.job,
                case.view.unchanged(keys.EPOCH, done),
                deletes=(keys.server(index), done),
            )
            why = "the job has succeeded, and so had this server before"
            return Exit(0, why, farewell=told)
    return None


def next_job(case: Case) -> Act | None:
    """Everybody of the job before has left, or cannot have ranks any more."""
    if not _has_unknown_end(case):
        return None
    all_gone = all(_is_gone(case, index) for index in range(case.rules.servers))
    return first_gathering(case) if all_gone else None


def _has_unknown_end(case: Case) -> bool:
    epoch = case.view.epoch
    return epoch is not None and epoch.phase is Phase.END and epoch.job not in case.memory.jobs


def _is_gone(case: Case, index: int) -> bool:
    if was_absent(case, index):
        return True
    member = case.view.members.get(index)
    return index not in case.view.alive and (member is None or member.has_left)
