"""Which member of the running generation is lost."""

from __future__ import annotations

from msgspec import Struct

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.agreement.case import Case


class Loss(Struct, frozen=True):
    """A member that has no ranks any more, as far as is known.

    ``keys`` must not have changed when the loss is written. ``is_free``: it said farewell, or
    another process has its index.
    """

    index: int
    is_free: bool
    keys: tuple[str, ...]


def loss(case: Case) -> Loss | None:
    """The first member that is lost; None as long as an absence may have another reason."""
    if case.is_cautious:
        return None
    for index in range(len(case.roster)):
        if (lost := _loss_of(case, index)) is not None:
            return lost
    return None


def _loss_of(case: Case, index: int) -> Loss | None:
    seat, view = case.roster[index], case.view
    if view.alive.get(index) == seat.incarnation or case.has_done(index):
        return None
    member = view.members.get(index)
    is_free = member is not None and (member.has_left or member.incarnation != seat.incarnation)
    # Its record is gone, too: etcd may have lost data. Or we have no key of our own by which to
    # notice that etcd has stood still, and that all leases are gone. Or a stranger has written to
    # its ``alive``, and it will put it again.
    is_overwritten = keys.alive(index) in view.values and not is_free
    is_doubtful = member is None or case.member is None or is_overwritten
    if is_doubtful and not _is_long_gone(case, index):
        return None
    done = keys.done(case.epoch.generation, index)
    return Loss(index, is_free, (keys.alive(index), keys.server(index), done))


def _is_long_gone(case: Case, index: int) -> bool:
    absence = case.memory.absence(index)
    return absence is not None and case.clocks.now - absence.since >= case.rules.ttl
