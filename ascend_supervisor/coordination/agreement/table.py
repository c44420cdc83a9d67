"""The table of what a server does, line by line; the first one that fits decides."""

from __future__ import annotations

from collections.abc import Callable

from ascend_supervisor.coordination.agreement.acts import Act, Wait
from ascend_supervisor.coordination.agreement.afterwards import ended_here, next_job
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.contact import CONTACT_LINES
from ascend_supervisor.coordination.agreement.epochs import (
    displaced,
    first_epoch,
    restore_epoch,
    stop_without_index,
)
from ascend_supervisor.coordination.agreement.gathering import (
    cannot_go_on,
    end_ranks,
    get_ready,
    give_up,
    leave,
    run,
)
from ascend_supervisor.coordination.agreement.membership import (
    has_left,
    keep_own_keys,
    refuse_ourselves,
    take_index,
)
from ascend_supervisor.coordination.agreement.running import (
    leave_done,
    leave_unneeded,
    say_done,
    start_ranks,
    stop_running,
    success,
)

Line = Callable[[Case], Act | None]
"""Its act, or None if it does not fit, or would change nothing."""

LINES: tuple[Line, ...] = (
    *(stop_without_index, restore_epoch, first_epoch, displaced, has_left, keep_own_keys),
    *(ended_here, next_job),
    *(refuse_ourselves, take_index),
    *(end_ranks, cannot_go_on, leave, get_ready, run, give_up),
    *(success, say_done, leave_unneeded, leave_done, stop_running, start_ranks),
)

NAMES = tuple(line.__name__ for line in (*CONTACT_LINES, *LINES))


def waiting(case: Case) -> Wait:
    """Nothing to do before the first of the times at which a line may fit."""
    memory, rules, now = case.memory, case.rules, case.clocks.now
    delay = memory.about.delay if memory.about else 0.0
    # Without an index there are no keepalives, and reads alone must leave no gap.
    pause = rules.ttl / (4 if case.index is None else 2)
    times = [
        (memory.read if memory.read is not None else now) + pause,
        memory.contact + rules.patience,
        memory.cautious_until,
        memory.phase_seen + delay,
        *(one.since + rules.longest_absence for one in memory.absences),
    ]
    if memory.only_ready is not None:
        times.append(memory.only_ready + rules.timeout)
    return Wait(min(at for at in (*times, now + pause) if at > now), _reason(case))


def _reason(case: Case) -> str:
    epoch, given = case.memory.epoch, case.rules.own.index
    if epoch is None:
        return "waiting to see whether the job is known already"
    if case.index is not None:
        return f"waiting in {epoch.phase.value} {epoch.generation}"
    if given is not None:
        return f"waiting for index {given}{_held(case, given)}"
    if len(case.view.living) == case.rules.servers:
        return (
            f"waiting as a spare: {case.rules.servers} servers run; this one takes the place of "
            "one that is lost"
        )
    return "waiting until the place of a server that is lost is free"


def _held(case: Case, index: int) -> str:
    """By whom it is held, and what to do."""
    holder = case.view.members.get(index)
    if holder is None:
        return ""
    name = ", ".join(holder.addresses) or holder.place
    return f", which is held by {name}; see that each server has a --node-rank of its own"
