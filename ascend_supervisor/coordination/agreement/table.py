"""The table of what a server does, line by line; the first one that fits decides."""

from __future__ import annotations

from collections.abc import Callable

from ascend_supervisor.coordination.agreement.acts import Act, Wait
from ascend_supervisor.coordination.agreement.afterwards import ended_here, next_job
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.causes import correct_cause
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
    take_back,
)
from ascend_supervisor.coordination.agreement.membership import (
    has_left,
    keep_own_keys,
    move,
    refuse_ourselves,
    take_index,
)
from ascend_supervisor.coordination.agreement.pending import charge, is_the_clusters
from ascend_supervisor.coordination.agreement.reasons import reason
from ascend_supervisor.coordination.agreement.running import (
    confirm,
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
    *(stop_without_index, restore_epoch, first_epoch, displaced, move, has_left, keep_own_keys),
    *(ended_here, next_job),
    *(refuse_ourselves, take_index),
    *(end_ranks, cannot_go_on, leave, correct_cause, take_back, get_ready),
    *(is_the_clusters, charge, run, give_up),
    *(success, say_done, leave_unneeded, leave_done, stop_running, start_ranks, confirm),
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
        memory.phase_seen + rules.verdict,
        *(one.since + rules.longest_absence for one in memory.absences),
    ]
    if memory.only_ready is not None:
        times.append(memory.only_ready + rules.timeout)
    return Wait(min(at for at in (*times, now + pause) if at > now), reason(case))
