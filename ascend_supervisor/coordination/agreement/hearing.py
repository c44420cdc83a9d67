"""What a server does when a watch tells it where the job stands now; pure.

In a job of many servers all would read at once. Ranks are ended or started without reading first,
by the same table as ever; whatever else is to be done waits for what is read.
"""

from __future__ import annotations

from msgspec import Struct

from ascend_supervisor.coordination.agreement.acts import EndRanks, StartRanks
from ascend_supervisor.coordination.agreement.case import Case, Home
from ascend_supervisor.coordination.agreement.contact import CONTACT_LINES
from ascend_supervisor.coordination.agreement.decision_table import decide, waiting
from ascend_supervisor.coordination.agreement.memory import PeerMemory, with_epoch
from ascend_supervisor.coordination.agreement.records import About, Epoch, Member, Phase
from ascend_supervisor.coordination.agreement.view import View


class Heard(Struct, frozen=True):
    """The act, what it was decided on, the memory before it is carried out; when to read next."""

    act: EndRanks | StartRanks
    view: View
    memory: PeerMemory
    until: float


def heard(told: About, home: Home, without: frozenset[str] = frozenset()) -> Heard | None:
    """What to do now that ``told`` was written; None: read.

    It may have been written long ago: this server may have stood still since. So nothing is heard
    by a server that must look first or end, and that it was told is no contact.
    """
    known, epoch = home.memory.epoch, told.epoch
    if known is None or epoch is None or epoch.stamp != told.stamp or epoch.job != known.job:
        return None
    if epoch.phase is Phase.END or epoch.order <= known.order:
        return None
    if home.index is None or home.memory.misses_own_keys:
        return None
    if any(line(home) is not None for line in CONTACT_LINES):
        return None
    memory = with_epoch(home.memory, epoch, told, home.clocks.now)
    view = _told_view(told, epoch, home.index, home.own_record(epoch.job))
    act = decide(view, memory, home.clocks, home.situation, home.rules, without)
    if not isinstance(act, (EndRanks, StartRanks)):
        return None
    case = Case(memory, home.clocks, home.situation, home.rules, view)
    return Heard(act, view, memory, waiting(case).until)


def _told_view(told: About, epoch: Epoch, index: int, own: Member) -> View:
    """Of others it tells nothing; our own keys are in place, as they were when they were read."""
    return View(
        revision=0,
        values={},
        epoch=epoch,
        about=told,
        members={index: own},
        ready={},
        done={},
        alive={index: own.incarnation},
        known=frozenset({index}),
    )
