"""The next act of this server: the first line of the table that fits."""

from __future__ import annotations

from ascend_supervisor.coordination.agreement.acts import Act, Read
from ascend_supervisor.coordination.agreement.case import Case, Home
from ascend_supervisor.coordination.agreement.clocks import Clocks
from ascend_supervisor.coordination.agreement.contact import CONTACT_LINES
from ascend_supervisor.coordination.agreement.memory import Memory
from ascend_supervisor.coordination.agreement.rules import Rules
from ascend_supervisor.coordination.agreement.situation import Situation
from ascend_supervisor.coordination.agreement.table import LINES, waiting
from ascend_supervisor.coordination.agreement.view import View


def decide(
    view: View | None,
    memory: Memory,
    clocks: Clocks,
    situation: Situation,
    rules: Rules,
    without: frozenset[str] = frozenset(),
) -> Act:
    """What to do next; ``memory`` already knows ``view``, which is None if nothing was read.

    Ask with None after every wake, before anything is read: a server that was frozen must end its
    ranks first. Lines whose names are in ``without`` are skipped.
    """
    home = Home(memory, clocks, situation, rules)
    for contact_line in CONTACT_LINES:
        if contact_line.__name__ not in without and (act := contact_line(home)) is not None:
            return act
    if view is None:
        return Read()
    case = Case(memory, clocks, situation, rules, view)
    for line in LINES:
        if line.__name__ not in without and (act := line(case)) is not None:
            return act
    return waiting(case)
