"""Lines about the epoch itself: it is missing, it fell back, or it is that of another job."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.agreement.acts import Act, Exit, Forget
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.contact import ending_ranks
from ascend_supervisor.coordination.agreement.records import About, Epoch, Phase
from ascend_supervisor.coordination.agreement.writing import new_epoch
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.outcome import SIGNAL_BASE


def stop_without_index(case: Case) -> Act | None:
    """Told to stop before we took part: nobody needs to hear of it."""
    stop = case.situation.stop
    if stop is None or case.index is not None or case.all_done:
        return None
    if case.has_ranks:
        return ending_ranks(case, "told to stop")
    return Exit(SIGNAL_BASE + stop, "told to stop")


def restore_epoch(case: Case) -> Act | None:
    """Data were lost, or damaged: whoever remembers more puts it again. The highest one stays."""
    known, found = case.memory.epoch, case.view.epoch
    if known is None or (found is not None and not _is_older(case, found, known)):
        return None
    about = case.memory.about or About("", case.rules.settings)
    why = case.view.damaged_epoch or "etcd has lost data"
    return new_epoch(case, why, known, replace(about, again=True))


def _is_older(case: Case, found: Epoch, known: Epoch) -> bool:
    """Whether etcd holds what was true before.

    Another job that has ended is an old one: none of this name begins while a member of ours has
    confirmed itself within the fence.
    """
    if found.job != known.job:
        return found.phase is Phase.END and case.index is not None
    return found.phase is not Phase.END and found.order < known.order


def first_epoch(case: Case) -> Act | None:
    """Nobody has put an epoch for one TTL, so there is no job yet."""
    since = case.memory.epoch_missing
    if keys.EPOCH in case.view.values or case.memory.epoch is not None or since is None:
        return None  # one that is damaged may be that of servers that are only away
    return first_gathering(case) if case.clocks.now - since >= case.rules.ttl else None


def first_gathering(case: Case) -> Act:
    """A new job, with an id of its own."""
    epoch = Epoch(case.clocks.word, 0, Phase.GATHER, "")
    return new_epoch(case, "a new job", epoch, About("", case.rules.settings))


def displaced(case: Case) -> Act | None:
    """Another job runs under our name, or another process has our index."""
    known, found = case.memory.epoch, case.view.epoch
    is_other_job = known is not None and found is not None and known.job != found.job
    if not is_other_job and not _has_other_owner(case):
        return None
    if case.memory.started is None:
        return Forget()
    reason = "another job uses our keys" if is_other_job else "another process has our index"
    return Exit(UNAVAILABLE, reason, kills=True)


def _has_other_owner(case: Case) -> bool:
    return case.index is not None and case.index in case.view.members and case.member is None
