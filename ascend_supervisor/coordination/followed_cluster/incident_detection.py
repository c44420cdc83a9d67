"""Which incident the cluster's files tell of; pure.

The rules are those of MindCluster's rescheduling. A rank table that becomes wrong while the ranks
run is told, and nothing else follows from it: they run on with their copy of the table before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.reset_file import HOT_RESET, POD_RESCHEDULE, ResetFile
from ascend_supervisor.coordination.followed_cluster.incident import GRAVITY, Incident
from ascend_supervisor.coordination.followed_cluster.memory import (
    CONFIRMED_SECONDS,
    ClusterMemory,
    CompletedTable,
    SeenTable,
    Sight,
    WithdrawnTable,
    WrongTable,
    observed,
    with_past_reset,
)
from ascend_supervisor.events.cluster import Trigger
from ascend_supervisor.phrases import listed

MOST_NAMED = 16
"""How many ranks a sentence names."""
MOST_CODES = 4


def with_status(reset: ResetFile, status: str) -> tuple[int, ...]:
    """The ranks with this status, in order."""
    return tuple(sorted({listed.rank for listed in reset.ranks if listed.status == status}))


def faulty(reset: ResetFile, ranks: Sequence[int]) -> str:
    has = "has" if len(ranks) == 1 else "have"
    return f"{_npus(ranks)} {has} a fault (reset file{_codes(reset, ranks)})"


def unrecovered(reset: ResetFile, ranks: Sequence[int]) -> str:
    return f"{_npus(ranks)} must be reset (unrecovered in the reset file{_codes(reset, ranks)})"


def not_reset(reset: ResetFile, ranks: Sequence[int]) -> str:
    return f"the reset of {_npus(ranks)} has failed (reset file{_codes(reset, ranks)})"


def _npus(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"the NPU of rank {ranks[0]}"
    return f"the NPUs of ranks {listed(ranks, MOST_NAMED)}"


def _codes(reset: ResetFile, ranks: Sequence[int]) -> str:
    """The driver's codes for these faults, if the file has them; each once."""
    those = frozenset(ranks)
    all_codes = (code for listed in reset.ranks if listed.rank in those for code in listed.codes)
    codes = tuple(islice(dict.fromkeys(all_codes), MOST_CODES))
    return f", error {', '.join(codes)}" if codes else ""


WITHDRAWN_SECONDS = 5.0
"""A table that is not completed for less, then is the same again, is no incident: an Ascend
Operator that restarts writes it so."""
WITHDRAWN_PROJECTED_SECONDS = 120.0
"""The same for a table in a ConfigMap. kubelet copies it when it syncs the pod: every 60 s
(syncFrequency) and up to half of that later (workerResyncIntervalJitterFactor), from a cache that
is some seconds behind. So what held for a moment is shown for up to 90 s and a little more."""
TOGETHER_SECONDS = 5.0
"""A table that was written this shortly before RetryTime changed belongs to that change, even if a
generation has begun with it meanwhile: between two pods that are lost, pods are scheduled and
started."""

AWAIT_TABLE = frozenset({"retry_time", "table_changed", "table_withdrawn"})
"""Of these incidents a new table follows."""


def noticed(memory: ClusterMemory, sight: Sight, now: float) -> ClusterMemory:
    """The memory after another look; without news, too: some things matter once they last."""
    seen = observed(memory, sight, now)
    if not seen.running:  # nothing runs that an incident could end
        return replace(seen, retry_time=seen.reset.retry_time)
    return _with_gravest(_with_retry_time(seen, now), now)


def _with_retry_time(memory: ClusterMemory, now: float) -> ClusterMemory:
    """A controller that restarts may count from 0 again, so any difference is news."""
    before, after = memory.retry_time, memory.reset.retry_time
    if before == after:
        return _with_restart_type(_with_doubt(memory, now), now)
    memory = replace(memory, retry_time=after, reset_from=None)
    if after in memory.answered:  # another server has seen it first
        return with_past_reset(replace(memory, started_with=after))
    if memory.reset.is_of_reset:
        return _with_restart_type(_reset(memory, before, now), now)
    if memory.incident is not None:
        return replace(memory, incident=_confirmed(memory, memory.incident, now))
    if now < memory.confirmed_until and memory.confirmed_from is None and not _is_rewritten(memory):
        return replace(memory, confirmed_from=before)
    return _replaced(memory, before, now)


def _with_doubt(memory: ClusterMemory, now: float) -> ClusterMemory:
    """A table written after the change that seemed to confirm the last incident: it was another."""
    before = memory.confirmed_from
    if before is None or now >= memory.confirmed_until or memory.incident is not None:
        return memory
    return _replaced(memory, before, now) if _is_rewritten(memory) else memory


def _reset(memory: ClusterMemory, before: int, now: float) -> ClusterMemory:
    """NPUs are reset, or were: no pod is replaced, and no table follows."""
    if not memory.reset.lists_resets:
        memory = replace(memory, reset_from=before)
    if memory.incident is not None or with_status(memory.reset, "unrecovered"):
        return memory
    return replace(memory, incident=_were_reset(memory, now))


def _with_restart_type(memory: ClusterMemory, now: float) -> ClusterMemory:
    """The restart type is written a moment after the RetryTime that it belongs to."""
    before, incident, told = memory.reset_from, memory.incident, memory.reset.restart_type
    if before is not None and told == POD_RESCHEDULE:
        memory = replace(memory, reset_from=None)
        if incident is None or incident == _were_reset(memory, incident.began):
            return _replaced(memory, before, now)
        return replace(memory, incident=_confirmed(memory, incident, now))
    is_taken_for_pods = incident is not None and incident.trigger == "retry_time"
    if before is None and is_taken_for_pods and told == HOT_RESET:
        return replace(memory, incident=_were_reset(memory, now))
    return memory


def _were_reset(memory: ClusterMemory, now: float) -> Incident:
    reason = f"NPUs were reset (RetryTime in the reset file is {memory.retry_time})"
    return _incident(memory, "npu_reset", reason, now)


def _is_rewritten(memory: ClusterMemory) -> bool:
    """Whether the table was written since the generation began.

    Where the servers agree, they see which pods are replaced, and nobody has to infer it.
    """
    at = memory.written_at
    return not memory.has_peers and at is not None and at > memory.started_at


def _replaced(memory: ClusterMemory, before: int, now: float) -> ClusterMemory:
    after = memory.retry_time
    reason = f"RetryTime in the reset file went from {before} to {after}: pods were replaced"
    new = _incident(memory, "retry_time", reason, now)
    return replace(memory, incident=replace(new, has_retry_time=True))


def _confirmed(memory: ClusterMemory, incident: Incident, now: float) -> Incident:
    # Nobody has waited for a table yet where an NPU was reset.
    began = incident.began if incident.awaits_table else now
    told = replace(incident, has_retry_time=True, awaits_table=True, began=began)
    if not incident.has_retry_time:
        return told
    # The second one means another pod, which has a table of its own.
    before = _placement(memory.table) or incident.before
    since = now - TOGETHER_SECONDS
    return replace(told, began=now, since=since, before=before, is_table_accepted=False)


def _with_gravest(memory: ClusterMemory, now: float) -> ClusterMemory:
    """A table that tells of it, too, is awaited, whichever of the files was looked at first."""
    incident = memory.incident
    for trigger, reason in filter(None, (_from_table(memory, now), _from_reset(memory))):
        incident = incident or _incident(memory, trigger, reason, now)
        if GRAVITY[trigger] > GRAVITY[incident.trigger]:
            incident = replace(incident, trigger=trigger, reason=reason)
        awaits_table = incident.awaits_table or trigger in AWAIT_TABLE
        listed = incident.listed | _listed_here(memory)
        incident = replace(incident, awaits_table=awaits_table, listed=listed)
    return replace(memory, incident=incident)


def _from_reset(memory: ClusterMemory) -> tuple[Trigger, str] | None:
    reset, ours = memory.reset, memory.ranks
    if reset.graceful_exit:
        return "graceful_exit", "it asks for a graceful end (GracefulExit in the reset file)"
    if failed := with_status(reset, "failed"):
        return "npu_failed", not_reset(reset, failed)
    if bad := [rank for rank in with_status(reset, "fault") if rank in ours]:
        return "npu_fault", faulty(reset, bad)
    if waiting := with_status(reset, "unrecovered"):
        return "npu_reset", unrecovered(reset, waiting)
    return None


def _from_table(memory: ClusterMemory, now: float) -> tuple[Trigger, str] | None:
    table = memory.table
    if isinstance(table, WithdrawnTable):
        is_late = table.is_projected and not memory.is_judging
        limit = WITHDRAWN_PROJECTED_SECONDS if is_late else WITHDRAWN_SECONDS
        is_owed = now < memory.owed_until and not memory.is_judging
        if memory.withdrawn_for < limit or is_owed:
            return None
        lasted = f"for {limit:g} s"
        return "table_withdrawn", f"the rank table has not been completed {lasted}: {table.why}"
    if isinstance(table, CompletedTable) and table.found.placement != memory.running:
        return "table_changed", "the rank table has changed"
    return None


def _incident(memory: ClusterMemory, trigger: Trigger, reason: str, now: float) -> Incident:
    """An incident that begins now; the table may have told of it a little earlier."""
    latest = min(memory.started_at, now - TOGETHER_SECONDS)
    return Incident(
        trigger,
        reason,
        began=now,
        before=memory.running,
        since=max(latest, now - CONFIRMED_SECONDS),
        awaits_table=trigger in AWAIT_TABLE,
    )


def _placement(table: SeenTable | None) -> str:
    return table.found.placement if isinstance(table, CompletedTable) else ""


def _listed_here(memory: ClusterMemory) -> frozenset[int]:
    return memory.ranks.intersection(with_status(memory.reset, "unrecovered"))


LASTING_SECONDS = 10.0
"""A table that has been wrong for so long, also since an incident began, is no write under way."""
MOST_REMEMBERED = 16

TableFaults = tuple[str, ...]


class Doubts(Struct, frozen=True):
    """The ``faults`` that the table has ``since`` a moment, and those that were ``told``."""

    faults: TableFaults = ()
    since: float = 0.0
    told: tuple[TableFaults, ...] = ()


def doubts_after(doubts: Doubts, memory: ClusterMemory, now: float) -> Doubts:
    """The doubts after a look at the table; what is new in ``told`` is to be told now.

    The same faults are told once, however often they come back. While the cluster recovers, a wrong
    table is waited for, and refused; that is told elsewhere.
    """
    runs = memory.running and memory.incident is None
    faults = memory.table.faults if runs and isinstance(memory.table, WrongTable) else ()
    if faults != doubts.faults:
        doubts = replace(doubts, faults=faults, since=now)
    if not faults or faults in doubts.told or now - doubts.since < LASTING_SECONDS:
        return doubts
    return replace(doubts, told=(*doubts.told, faults)[-MOST_REMEMBERED:])


def told_now(before: Doubts, after: Doubts) -> str | None:
    """What is to be told, as a sentence; None if nothing is new."""
    if before.told == after.told:
        return None
    return (
        f"the cluster has written a wrong table: {'; '.join(after.told[-1])}; the ranks run on "
        "with their copy of the one before, but no rank can start with this one: correct what "
        "writes it"
    )
