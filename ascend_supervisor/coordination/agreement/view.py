"""The records of a job, all read at one revision of etcd."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records, rosters
from ascend_supervisor.coordination.agreement.records import (
    About,
    Beat,
    DamagedRecord,
    Epoch,
    Member,
    Phase,
    PhaseMark,
    Spare,
    decode,
)
from ascend_supervisor.etcd.values import Absent, Compare, Equals

T = TypeVar("T")

MOST_SERVERS = 1_000_000
MOST_MARKS = 32
"""So many marks of an index are deleted at once: a transaction has 128 operations at most."""


class View(Struct, frozen=True):
    """``values`` holds the bytes of every key (relative to the job's prefix); the rest is decoded.

    ``members`` are those of the epoch's job; ``ready`` and ``done`` those of its generation. All
    are by index. ``alive`` maps an index to an incarnation, ``spares`` a key to who waits.
    ``damaged`` says by key what is wrong with records that count as missing; ``about`` never counts
    without the ``epoch``. ``known``: those of whom all was read, beside the job itself; None: of
    everybody, and of the spares. ``newcomers``: so many servers wait for a job to begin.
    """

    revision: int
    values: Mapping[str, bytes]
    epoch: Epoch | None
    about: About | None
    members: Mapping[int, Member]
    ready: Mapping[int, PhaseMark]
    done: Mapping[int, PhaseMark]
    alive: Mapping[int, str]
    damaged: Mapping[str, str] = {}
    known: frozenset[int] | None = None
    spares: Mapping[str, Spare] = {}
    newcomers: int = 0

    def those_known(self, servers: int) -> Iterable[int]:
        """The indices of so many servers of which this view tells anything."""
        return range(servers) if self.known is None else sorted(self.known)

    @property
    def living(self) -> tuple[int, ...]:
        """The members whose ``alive`` is in place."""
        return tuple(
            index for index, one in self.members.items() if self.alive.get(index) == one.incarnation
        )

    @property
    def prepared(self) -> tuple[int, ...]:
        """The living members that are ready for the epoch's generation."""
        return tuple(
            index
            for index in self.living
            if index in self.ready
            and self.ready[index].incarnation == self.members[index].incarnation
        )

    @property
    def damaged_epoch(self) -> str:
        """What is wrong with the job's own records; empty if nothing is."""
        words = (records.EPOCH_KEY, records.ABOUT_KEY, records.ROSTER)
        return next((why for key, why in self.damaged.items() if key.split("/")[0] in words), "")

    def unchanged(self, *names: str) -> tuple[Compare, ...]:
        """These keys still hold what they held here, or are still absent."""
        values = self.values
        return tuple(
            Equals(name, values[name]) if name in values else Absent(name) for name in names
        )

    def marks_of(self, index: int) -> tuple[str, ...]:
        """The keys of every ``ready`` and ``done`` of an index, of any generation; not too many."""
        words = {records.READY, records.DONE}
        found = (name for name in sorted(self.values) if name.endswith(f"/{index}"))
        ours = [name for name in found if (known := records.key_parts(name)) and known[0] in words]
        return tuple(ours[:MOST_MARKS])


def view_of(
    values: Mapping[str, bytes],
    revision: int,
    servers: int = MOST_SERVERS,
    known: frozenset[int] | None = None,
) -> View:
    """The view of these keys, relative to the prefix of a job of so many servers.

    Keys that none of them writes are ignored, and so are marks of other generations, whatever they
    hold: they go with the next ``ready`` of their server.
    """
    damaged: dict[str, str] = {}
    epoch, about = _job(values, damaged)
    members: dict[int, Member] = {}
    alive: dict[int, str] = {}
    spares: dict[str, Spare] = {}
    marks: dict[str, dict[int, PhaseMark]] = {records.READY: {}, records.DONE: {}}
    for name, value in values.items():
        try:
            match records.key_parts(name):
                case records.SERVER, (index,) if index < servers:
                    member = decode(name, value, Member)
                    if epoch is None or member.job == epoch.job:
                        members[index] = member
                case records.ALIVE, (index,) if index < servers:
                    alive[index] = decode(name, value, Beat).incarnation
                case (records.READY | records.DONE) as word, (generation, index) if index < servers:
                    if epoch is not None and generation == epoch.generation:
                        marks[word][index] = decode(name, value, PhaseMark)
                case None if name.startswith(records.SPARE):
                    spares[name] = decode(name, value, Spare)
                case _:
                    pass
        except DamagedRecord as error:
            damaged[name] = str(error)
    ready, done = marks.values()
    newcomers = sum(name.startswith(f"{records.NEWCOMER}/") for name in values)
    told = (members, ready, done, alive, damaged, known, spares, newcomers)
    seen = View(revision, values, epoch, about, *told)
    return _believed(seen)


def merged(before: View, view: View) -> View:
    """``view``, and of those of whom it tells nothing what was read ``before``."""
    known = view.known
    if known is None:
        return view

    def both(old: Mapping[int, T], new: Mapping[int, T]) -> Mapping[int, T]:
        kept = {index: one for index, one in old.items() if index not in known}
        return {**kept, **{index: one for index, one in new.items() if index in known}}

    return replace(
        view,
        members=both(before.members, view.members),
        ready=both(before.ready, view.ready),
        done=both(before.done, view.done),
        alive=both(before.alive, view.alive),
        spares=before.spares,
        known=None if before.known is None else before.known | known,
    )


def _job(values: Mapping[str, bytes], damaged: dict[str, str]) -> tuple[Epoch | None, About | None]:
    """Together: what was written at once is true at once.

    An ``end`` counts also where ``about`` is no record: who has written it may have left.
    """
    epoch = None
    if records.EPOCH_KEY not in values:
        return None, None
    try:
        epoch = decode(records.EPOCH_KEY, values[records.EPOCH_KEY], Epoch)
        about = decode(records.ABOUT_KEY, values.get(records.ABOUT_KEY, b""), About)
        about = rosters.whole(about, values)
    except DamagedRecord as error:
        damaged[error.key] = str(error)
        return (epoch, None) if epoch is not None and epoch.phase is Phase.END else (None, None)
    if epoch.stamp == about.stamp:
        return epoch, about
    damaged[records.ABOUT_KEY] = (
        f"{records.ABOUT_KEY}: expected what was written with the {records.EPOCH_KEY}, "
        "found what was written at another time"
    )
    return None, None


def _believed(seen: View) -> View:
    """Without an ``end`` of success that members deny: their ranks have not ended with 0.

    A member takes its ``alive`` back before its ``done``, or at the same time.
    """
    if seen.epoch is None or seen.epoch.phase is not Phase.END or seen.epoch.exit_code:
        return seen
    for index in seen.living:
        done = seen.done.get(index)
        if done is None or done.incarnation != seen.members[index].incarnation:
            key = records.EPOCH_KEY
            why = f"{key}: it says that the job has succeeded, but server {index} has not"
            damaged = {**seen.damaged, key: why}
            return replace(seen, epoch=None, about=None, ready={}, done={}, damaged=damaged)
    return seen
