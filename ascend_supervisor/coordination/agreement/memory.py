"""What this process remembers of what it has read."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import (
    Act,
    EndRanks,
    Exit,
    Forget,
    Read,
    RecordChange,
    StartRanks,
    WaitUntil,
)
from ascend_supervisor.coordination.agreement.records import About, Epoch, Phase, decode
from ascend_supervisor.coordination.agreement.situation import JobRules
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.etcd.values import Delete, Put


class Absence(Struct, frozen=True):
    """``alive/<index>`` was missing, or a stranger's, in every read since ``since``.

    ``record`` is the incarnation in ``server/<index>``, None if there is no record: it did not
    change.
    """

    index: int
    since: float
    record: str | None


class KeptAlive(Struct, frozen=True):
    """The answer to a keepalive of our lease; ``remains``: it came with a TTL."""

    remains: bool


class PeerMemory(Struct, frozen=True):
    """All times are those of Clocks; ``memory_at`` makes the first one.

    ``contact`` is when the last request was sent whose answer showed our ``alive`` in place.
    ``heard`` is the last answer of any kind, ``read`` the last read of all keys. ``index`` is ours,
    if we have one. ``jobs`` are our own: those whose ``gather`` or ``run`` we have read. ``epoch``
    and ``about`` are the latest ones; ``generation_seen`` and ``phase_seen`` say since when.
    ``ended`` is the ``end`` of a job of our own. ``started`` is the latest generation that was
    started here.
    ``offers``: our record as a spare was in place at the last read. ``cautious_until``: no loss of
    others is believed before. ``epoch_missing`` and ``only_ready`` (every living member is ready,
    and the delay is over) say since when.
    """

    contact: float
    heard: float
    read: float | None = None
    index: int | None = None
    jobs: tuple[str, ...] = ()
    epoch: Epoch | None = None
    about: About | None = None
    generation_seen: float = 0.0
    phase_seen: float = 0.0
    ended: Epoch | None = None
    started: int | None = None
    offers: bool = False
    cautious_until: float = 0.0
    misses_own_keys: bool = False
    epoch_missing: float | None = None
    only_ready: float | None = None
    absences: tuple[Absence, ...] = ()

    def absence(self, index: int) -> Absence | None:
        return next((one for one in self.absences if one.index == index), None)


def memory_at(now: float) -> PeerMemory:
    """The memory of a process that has started now; the fence counts from here."""
    return PeerMemory(contact=now, heard=now)


def remember(
    memory: PeerMemory, seen: View | KeptAlive, sent: float, now: float, rules: JobRules
) -> PeerMemory:
    """The memory after an answer to a request that was sent at ``sent`` and came ``now``."""
    had_gap = now - memory.heard > rules.ttl / 2
    if had_gap or _is_late(memory, seen, now, rules):
        memory = replace(memory, absences=(), epoch_missing=None, only_ready=None)
    if had_gap:
        memory = replace(memory, cautious_until=now + rules.ttl)
    if isinstance(seen, KeptAlive):
        in_place = seen.remains
    else:
        memory = _with_view(memory, seen, now, rules)
        in_place = memory.index is None or seen.alive.get(memory.index) == rules.own.incarnation
    memory = replace(memory, heard=now)
    return _with_contact(memory, sent, rules) if in_place else memory


def carried_out(memory: PeerMemory, act: Act, sent: float, rules: JobRules) -> PeerMemory:
    """The memory after ``act`` was done; of a RecordChange: after it has succeeded."""
    match act:
        case StartRanks(generation=generation):
            return replace(memory, started=generation)
        case Forget():
            return replace(
                memory, index=None, epoch=None, about=None, epoch_missing=None, absences=()
            )
        case RecordChange(then=done, about=about):
            put = {one.key: one.value for one in done if isinstance(one, Put)}
            if records.EPOCH_KEY in put:
                epoch = decode(records.EPOCH_KEY, put[records.EPOCH_KEY], Epoch)
                memory = with_epoch(memory, epoch, about, sent)
            index = memory.index
            if index is not None and Delete(records.alive_key(index)) in done:
                memory = replace(memory, index=None, misses_own_keys=False)
            mine = [index for index in range(rules.servers) if records.alive_key(index) in put]
            return _with_contact(memory, sent, rules) if mine else memory
        case Read() | WaitUntil() | EndRanks() | Exit():
            return memory


def _with_contact(memory: PeerMemory, sent: float, rules: JobRules) -> PeerMemory:
    """Once the fence has fallen nothing raises it: the ranks are being killed."""
    if sent - memory.contact >= rules.patience:
        return memory
    return replace(memory, contact=max(sent, memory.contact))


def _is_late(memory: PeerMemory, seen: View | KeptAlive, now: float, rules: JobRules) -> bool:
    """Whether an ``alive`` may have come and gone since the last read."""
    return isinstance(seen, View) and memory.read is not None and now - memory.read >= rules.ttl


def _with_view(memory: PeerMemory, view: View, now: float, rules: JobRules) -> PeerMemory:
    if memory.read is None:
        memory = replace(memory, cautious_until=now + rules.ttl)
    if view.epoch is None:
        since = memory.epoch_missing
        memory = replace(memory, epoch_missing=now if since is None else since)
    else:
        memory = replace(memory, epoch_missing=None)
        memory = with_epoch(memory, view.epoch, view.about, now)
    memory = _with_own_keys(memory, view, now, rules)
    offers = memory.offers
    if view.known is None:
        offers = records.spare_key(rules.own.incarnation) in view.spares
    absences = _absences(memory, view, now, rules)
    only_ready = _only_ready(memory, view, now)
    return replace(memory, read=now, offers=offers, absences=absences, only_ready=only_ready)


def with_epoch(memory: PeerMemory, epoch: Epoch, about: About | None, now: float) -> PeerMemory:
    """An epoch of another job than the one that is remembered changes nothing."""
    if epoch.phase is Phase.END:
        if epoch.job not in memory.jobs:
            return memory
        return replace(memory, ended=epoch, about=about or memory.about)
    known = memory.epoch
    if known is None:
        jobs = (*memory.jobs, epoch.job) if epoch.job not in memory.jobs else memory.jobs
        return replace(
            memory, jobs=jobs, epoch=epoch, about=about, generation_seen=now, phase_seen=now
        )
    if epoch.job != known.job or epoch.order < known.order:
        return memory
    if epoch.generation != known.generation:
        memory = replace(memory, generation_seen=now)
    if epoch.order != known.order:
        memory = replace(memory, phase_seen=now, only_ready=None)
    return replace(memory, epoch=epoch, about=about)


def _with_own_keys(memory: PeerMemory, view: View, now: float, rules: JobRules) -> PeerMemory:
    own = rules.own.incarnation
    index = memory.index
    if index is None:
        ours = (i for i, one in view.members.items() if one.incarnation == own and not one.has_left)
        index = next(ours, None)
    misses = index is not None and (index not in view.members or view.alive.get(index) != own)
    if misses and not memory.misses_own_keys:  # only once: a wait that every read renews never ends
        memory = replace(memory, cautious_until=now + rules.ttl)
    return replace(memory, index=index, misses_own_keys=misses)


def _absences(memory: PeerMemory, view: View, now: float, rules: JobRules) -> tuple[Absence, ...]:
    found = []
    for index in view.those_known(rules.servers):
        member = view.members.get(index)
        if member is not None and view.alive.get(index) == member.incarnation:
            continue  # any other ``alive`` is that of a stranger, which no lease takes away
        record = member.incarnation if member else None
        before = memory.absence(index)
        since = before.since if before is not None and before.record == record else now
        found.append(Absence(index, since, record))
    return tuple(found)


def _only_ready(memory: PeerMemory, view: View, now: float) -> float | None:
    """Since when every living member is ready: only then nobody is waited for but the missing.

    Who has not read of everybody knows nothing new.
    """
    epoch, about = view.epoch, view.about
    if epoch is None or about is None or epoch.phase is not Phase.GATHER:
        return None
    if view.known is not None:
        return memory.only_ready
    if now < memory.phase_seen + about.delay or not view.living:
        return None
    prepared = set(view.prepared)
    if not all(index in prepared for index in view.living):
        return None
    return now if memory.only_ready is None else memory.only_ready
