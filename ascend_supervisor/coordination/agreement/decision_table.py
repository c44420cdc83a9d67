"""The table of what a server does: the first line that fits is its next act."""

from __future__ import annotations

from collections.abc import Callable

from ascend_supervisor.coordination.agreement import causes, gathering, leaving, membership, running
from ascend_supervisor.coordination.agreement.acts import Act, Read, WaitUntil
from ascend_supervisor.coordination.agreement.case import Case, Home
from ascend_supervisor.coordination.agreement.contact import CONTACT_LINES
from ascend_supervisor.coordination.agreement.memory import PeerMemory
from ascend_supervisor.coordination.agreement.situation import Clocks, JobRules, Situation
from ascend_supervisor.coordination.agreement.view import View

TableLine = Callable[[Case], Act | None]
"""Its act, or None if it does not fit, or would change nothing."""

LINES: tuple[TableLine, ...] = (
    membership.stop_without_index,
    membership.restore_epoch,
    membership.first_epoch,
    membership.come,
    leaving.forget_place,
    membership.displaced,
    membership.move,
    membership.has_left,
    membership.keep_own_keys,
    membership.ended_here,
    membership.next_job,
    leaving.end_left,
    membership.refuse_ourselves,
    membership.take_index,
    leaving.offer,
    gathering.end_ranks,
    leaving.leave_unable,
    gathering.cannot_go_on,
    gathering.leave,
    causes.correct_cause,
    running.lost_first,
    leaving.not_to_blame,
    leaving.leave_place,
    gathering.take_back,
    gathering.get_ready,
    running.is_the_clusters,
    running.charge,
    gathering.run,
    gathering.give_up,
    running.success,
    running.say_done,
    running.leave_unneeded,
    running.leave_done,
    running.stop_running,
    running.start_ranks,
    running.confirm,
)

NAMES = tuple(line.__name__ for line in (*CONTACT_LINES, *LINES))


USUAL_PAUSE, PAUSE_WITHOUT_INDEX, PAUSE_AT_REST = 1 / 2, 1 / 4, 2 / 3
"""TTLs between two reads. Without an index there are no keepalives, and reads alone must leave no
gap. At rest the keepalives leave none."""


def _pause(case: Case) -> float:
    """A server of many reads less where it runs and misses nobody."""
    if case.index is None:
        return case.rules.ttl * PAUSE_WITHOUT_INDEX
    is_at_rest = case.running is not None and case.view.known is not None
    is_complete = not case.memory.absences and not case.memory.misses_own_keys
    return case.rules.ttl * (PAUSE_AT_REST if is_at_rest and is_complete else USUAL_PAUSE)


def waiting(case: Case) -> WaitUntil:
    """Nothing to do before the first of the times at which a line may fit."""
    memory, rules, now = case.memory, case.rules, case.clocks.now
    pause = _pause(case)
    times = [
        (memory.read if memory.read is not None else now) + pause,
        memory.contact + rules.patience,
        memory.cautious_until,
        *(one.since + rules.longest_absence for one in memory.absences),
    ]
    if case.gathering is not None:
        delay = case.about.delay
        times += [memory.phase_seen + delay, memory.phase_seen + rules.verdict]
    if memory.epoch_missing is not None and case.view.newcomers >= rules.servers:
        times.append(memory.epoch_missing + rules.soon)
    if memory.only_ready is not None:
        times.append(memory.only_ready + rules.timeout)
    return WaitUntil(min(at for at in (*times, now + pause) if at > now), gathering.reason(case))


def decide(
    view: View | None,
    memory: PeerMemory,
    clocks: Clocks,
    situation: Situation,
    rules: JobRules,
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
