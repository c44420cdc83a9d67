"""What a server of many reads: little, and everything only if the little says that it must; pure.

In a job of many servers nobody can read all records at every change. A server reads at one
revision: the epoch, its own keys, the ``alive`` of the next servers, and how many are ready or
done. The rest is as it was when all was read last, at most one TTL ago. Acting on that is safe,
because every transaction compares what it was decided on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.memory import PeerMemory
from ascend_supervisor.coordination.agreement.records import (
    About,
    Beat,
    Epoch,
    Member,
    Phase,
    PhaseMark,
    decode,
)
from ascend_supervisor.coordination.agreement.situation import JobRules
from ascend_supervisor.coordination.agreement.view import View

FEW = 64
"""A job of so many servers is read whole at every change: that takes a second at most."""
NEXT = 3
"""The ``alive`` of so many next servers is watched."""

TURN_SECONDS = 0.004
"""About as long as etcd takes to write what a server of many has decided."""

Values = Mapping[str, bytes | None]
"""By key, relative to the job's prefix; None: there is no such key."""


class Near(Struct, frozen=True):
    """``index`` of ``servers``: ours, or the one that is given to us. The limit is in seconds."""

    index: int
    servers: int
    limit: float

    @property
    def next_ones(self) -> tuple[int, ...]:
        """Those whose ``alive`` we watch."""
        found = [(self.index + step) % self.servers for step in range(1, NEXT + 1)]
        return tuple(dict.fromkeys(index for index in found if index != self.index))

    @property
    def watched(self) -> tuple[str, ...]:
        own = (records.server_key(self.index), records.alive_key(self.index))
        return (records.EPOCH_KEY, *own, *map(records.alive_key, self.next_ones))

    def read(self, generation: int) -> tuple[str, ...]:
        """The keys that are read by name, ``about`` apart, which is large."""
        marks = (
            records.ready_key(generation, self.index),
            records.done_key(generation, self.index),
        )
        return (*self.watched, *marks)


def near_of(memory: PeerMemory, rules: JobRules, few: int) -> Near | None:
    """What a server reads; None: all.

    So it does where the job has ``few`` servers, and without an index, or with one that a later
    table of fewer servers does not have.
    """
    index = rules.own.index if memory.index is None else memory.index
    if rules.servers <= few or index is None or index >= rules.servers:
        return None
    return Near(index, rules.servers, rules.ttl)


def in_turn(until: float, memory: PeerMemory, near: Near | None) -> float:
    """When to look: of many servers that wait for the same delay, one writes what follows."""
    if near is None or memory.about is None or not memory.about.delay:
        return until
    waits_for_delay = until == memory.phase_seen + memory.about.delay
    return until + near.index * TURN_SECONDS if waits_for_delay else until


def counted(epoch: Epoch) -> str:
    """The prefix of the keys that all servers put before the epoch can change."""
    word = records.READY if epoch.phase is Phase.GATHER else records.DONE
    return f"{word}/{epoch.generation}/"


def patched(view: View, values: Values, revision: int) -> View:
    """``view`` with these keys as they are at ``revision``; raises DamagedRecord."""
    known = dict(view.values)
    for name, value in values.items():
        if value is None:
            known.pop(name, None)
        else:
            known[name] = value
    view = replace(view, values=known, revision=revision)
    if records.EPOCH_KEY in values:
        view = _with_epoch(view, values)
    for name, value in values.items():
        view = _with_key(view, name, value)
    return view


def shows_loss(view: View) -> bool:
    """Whether a member of the running generation seems to be lost, as far as is known."""
    if view.epoch is None or view.about is None or view.epoch.phase is not Phase.RUN:
        return False
    return any(
        view.alive.get(index) != seat.incarnation and index not in view.done
        for index, seat in enumerate(view.about.roster)
    )


def _with_epoch(view: View, values: Values) -> View:
    """The marks of another generation do not count; those of its own are not known yet."""
    value = values[records.EPOCH_KEY]
    epoch = None if value is None else decode(records.EPOCH_KEY, value, Epoch)
    before = view.epoch
    if records.ABOUT_KEY in values:
        value = values[records.ABOUT_KEY]
        about = None if value is None else decode(records.ABOUT_KEY, value, About)
        view = replace(view, about=about)
    if epoch is None or before is None or epoch.generation != before.generation:
        view = replace(view, ready={}, done={})
    return replace(view, epoch=epoch)


def _with_key(view: View, name: str, value: bytes | None) -> View:
    match records.key_parts(name):
        case records.SERVER, (index,):
            member = None if value is None else decode(name, value, Member)
            is_its = member is not None and view.epoch is not None and member.job == view.epoch.job
            return replace(view, members=_put(view.members, index, member if is_its else None))
        case records.ALIVE, (index,):
            beat = None if value is None else decode(name, value, Beat).incarnation
            return replace(view, alive=_put(view.alive, index, beat))
        case (records.READY | records.DONE) as word, (generation, index):
            if view.epoch is None or generation != view.epoch.generation:
                return view
            mark = None if value is None else decode(name, value, PhaseMark)
            if word == records.READY:
                return replace(view, ready=_put(view.ready, index, mark))
            return replace(view, done=_put(view.done, index, mark))
        case _:
            return view


def _put(known: Mapping[int, Any], index: int, value: Any) -> Mapping[int, Any]:
    if known.get(index) == value:
        return known
    changed = dict(known)
    if value is None:
        del changed[index]
    else:
        changed[index] = value
    return changed
