"""Which index a newcomer may take; indices change hands in ``gather`` only."""

from __future__ import annotations

from ascend_supervisor.coordination.agreement.case import Case


def free_indices(case: Case) -> tuple[int, ...]:
    """Those that this server may take; with a given index, that one or none."""
    given = case.rules.own.index
    wanted = range(case.rules.servers) if given is None else (given,)
    return tuple(index for index in wanted if is_free(case, index))


def is_free(case: Case, index: int) -> bool:
    """Whether nobody else's ranks can belong to this index any more."""
    return _has_no_holder(case, index) or was_absent(case, index)


def was_absent(case: Case, index: int) -> bool:
    """Whether its holder had no ``alive`` for so long that its own fence has fallen."""
    absence = case.memory.absence(index)
    return absence is not None and case.clocks.now - absence.since >= case.rules.longest_absence


def _has_no_holder(case: Case, index: int) -> bool:
    place = case.rules.own.place
    member = case.view.members.get(index)
    if member is not None:
        # Where we run, nothing of an earlier process is left: that was looked for first.
        return member.has_left or member.place == place
    if index in case.view.alive or case.about.again:
        return False  # after a loss of data the roster does not show everybody
    seat = case.roster[index] if index < len(case.roster) else None
    return seat is None or seat.place == place
