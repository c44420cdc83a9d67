"""What a server of many reads: what is near it, and all only if that says that it must; pure.

In a job of many servers nobody can read all records at every change. A server reads at one
revision: the epoch, its own keys, the ``alive`` of the next servers, and how many are ready or
done. It knows nothing of the others meanwhile (``View.known``), and decides nothing about them.
Who puts the last ``ready`` or ``done`` is told the number in the same answer, and reads all; if
that server does not go on, the others do so one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.failing import may_be_failing
from ascend_supervisor.coordination.agreement.memory import PeerMemory
from ascend_supervisor.coordination.agreement.records import Epoch, Phase
from ascend_supervisor.coordination.agreement.situation import JobRules, Situation
from ascend_supervisor.coordination.agreement.view import View, view_of

FEW = 64
"""A job of so many servers is read whole at every change: that takes a second at most."""
NEXT = 3
"""The ``alive`` of so many next servers is read."""
MOST_WATCHED = 2
"""Of so many of them it is watched."""

TURN_SECONDS = 0.25
"""Longer than the first of many needs to read all and to write what follows."""


class Near(Struct, frozen=True):
    """``index`` of ``servers``: ours, or the one that is given to us; ``reach`` as NEXT."""

    index: int
    servers: int
    reach: int = NEXT

    @property
    def next_ones(self) -> tuple[int, ...]:
        """Those whose ``alive`` we read."""
        found = [(self.index + step) % self.servers for step in range(1, self.reach + 1)]
        return tuple(dict.fromkeys(index for index in found if index != self.index))

    @property
    def watched(self) -> tuple[str, ...]:
        """Few: of a body of more than 512 bytes etcd's gateway may lose the rest.

        It reads on while it answers, and Go's server then throws away what was not read.
        """
        return (records.ABOUT_KEY, *map(records.alive_key, self.next_ones[:MOST_WATCHED]))

    def read(
        self, generation: int | None, closely: frozenset[int] = frozenset()
    ) -> tuple[str, ...]:
        """The keys that are read by name, those of ``about`` and its roster apart."""
        names = dict.fromkeys((records.EPOCH_KEY, *map(records.alive_key, self.next_ones)))
        if generation is None:
            names[records.newcomer_key(self.index, "")] = None
        for index in (self.index, *sorted(closely)):
            names |= dict.fromkeys((records.server_key(index), records.alive_key(index)))
            if generation is not None:
                names[records.ready_key(generation, index)] = None
                names[records.done_key(generation, index)] = None
        return tuple(names)


def near_of(memory: PeerMemory, rules: JobRules, few: int) -> Near | None:
    """What a server reads; None: all.

    So it does where the job has ``few`` servers, and without an index, or with one that a later
    table of fewer servers does not have.
    """
    index = rules.own.index if memory.index is None else memory.index
    if rules.servers <= few or index is None or index >= rules.servers:
        return None
    return Near(index, rules.servers)


class Look(Struct, frozen=True):
    """What one look is for: ``is_due``: if all are ready, or done, this server is to read all.

    ``leaves``: it needs to know of another one that lives. ``jobs`` are its own. ``wants_all``: it
    reads all in any case.
    """

    near: Near
    is_due: bool = False
    leaves: bool = False
    jobs: tuple[str, ...] = ()
    wants_all: bool = False


class Looks(Struct):
    """When this server has last read all, and since when the epoch is what it is."""

    all_read: float = float("-inf")
    stamp: str = ""
    since: float = 0.0

    def note(self, view: View, now: float) -> None:
        if view.known is None:
            self.all_read = now
        stamp = view.epoch.stamp if view.epoch is not None else ""
        if stamp != self.stamp:
            self.stamp, self.since = stamp, now


def look_of(
    near: Near, memory: PeerMemory, situation: Situation, rules: JobRules, looks: Looks, now: float
) -> Look:
    return Look(
        near,
        is_due=_is_due(near, memory, rules, looks, now),
        leaves=situation.stop is not None,
        jobs=memory.jobs,
        wants_all=bool(situation.unable) or _wants_all(near, memory, rules, looks, now),
    )


def _is_due(near: Near, memory: PeerMemory, rules: JobRules, looks: Looks, now: float) -> bool:
    """Servers that wait for the same look one after the other, and each not too often."""
    delay = memory.about.delay if memory.about is not None else 0.0
    since = max(memory.phase_seen + delay, looks.since) + near.index * TURN_SECONDS
    return now >= since and now >= looks.all_read + rules.ttl


def _wants_all(near: Near, memory: PeerMemory, rules: JobRules, looks: Looks, now: float) -> bool:
    """A wait that lasts, or a phase: each server reads all in its turn, for what people are told.

    All of them together as often as those of a job of FEW servers would.
    """
    if memory.epoch is None:
        return False
    about, ttl = memory.about, rules.ttl
    is_gathering = memory.epoch.phase is Phase.GATHER
    ends = memory.only_ready is not None and now >= memory.only_ready + rules.timeout
    if is_gathering and (ends or may_be_failing(about, rules.own)):
        return True
    turn, again = ttl * near.index / FEW, max(ttl, ttl * near.servers / FEW)
    if is_gathering and rules.verdict:  # what the cluster does is seen by what others have read
        turn, again = 0.0, ttl
        if about is not None and about.pending is not None:
            is_over = now >= memory.phase_seen + rules.verdict + near.index * TURN_SECONDS
            if is_over and now >= looks.all_read + ttl:
                return True
    first = memory.phase_seen + ttl + turn
    return now >= (first if looks.all_read < first else looks.all_read + again)


def in_turn(until: float, memory: PeerMemory, near: Near | None, ttl: float) -> float:
    """When to look: of many servers that wait for the same delay, one writes what follows."""
    if near is None or memory.about is None or not memory.about.delay:
        return until
    waits_for_delay = until == memory.phase_seen + memory.about.delay
    return until + min(near.index * TURN_SECONDS, ttl / 4) if waits_for_delay else until


def counted(epoch: Epoch | None) -> str:
    """The prefix of the keys that all servers put before the epoch can change, or begin."""
    if epoch is None:
        return f"{records.NEWCOMER}/"
    word = records.READY if epoch.phase is Phase.GATHER else records.DONE
    return f"{word}/{epoch.generation}/"


def near_view(
    near: Near, values: Mapping[str, bytes], revision: int, closely: frozenset[int] = frozenset()
) -> View:
    """What these keys tell of us, of those that were read ``closely``, and of the job."""
    return view_of(values, revision, near.servers, frozenset({near.index}) | closely)


def suspects(near: Near, view: View, look: Look) -> frozenset[int]:
    """Those next to us who are to be read closely: they seem to be lost, or we lean on them."""
    epoch, about = view.epoch, view.about
    if epoch is None or about is None or epoch.phase is Phase.END:
        return frozenset()
    if look.leaves:
        return frozenset(near.next_ones)
    if epoch.phase is not Phase.RUN:
        return frozenset()
    roster = about.roster
    seats = ((index, roster[index]) for index in near.next_ones if index < len(roster))
    return frozenset(i for i, seat in seats if view.alive.get(i) != seat.incarnation)


def needs_all(view: View, count: int, look: Look) -> bool:
    """Whether what is near says that all must be read; ``count`` are ready, or done."""
    epoch = view.epoch
    if view.damaged:
        return True
    if epoch is None:
        return False
    if epoch.phase is Phase.END:
        return epoch.job not in look.jobs
    if look.is_due and count >= look.near.servers:
        return True
    return look.leaves and all(index == look.near.index for index in view.living)
