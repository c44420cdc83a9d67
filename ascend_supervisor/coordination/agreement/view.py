"""The records of a job, all read at one revision of etcd."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.agreement.acts import Compare
from ascend_supervisor.coordination.agreement.records import (
    About,
    Beat,
    Epoch,
    Mark,
    Member,
    decode,
)


class View(Struct, frozen=True):
    """``values`` holds the bytes of every key (relative to the job's prefix); the rest is decoded.

    ``members`` are those of the epoch's job; ``ready`` and ``done`` those of its generation. All
    are by index. ``alive`` maps an index to an incarnation.
    """

    revision: int
    values: Mapping[str, bytes]
    epoch: Epoch | None
    about: About | None
    members: Mapping[int, Member]
    ready: Mapping[int, Mark]
    done: Mapping[int, Mark]
    alive: Mapping[int, str]

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

    def unchanged(self, *names: str) -> tuple[Compare, ...]:
        """These keys still hold what they held here, or are still absent."""
        return tuple(Compare(name, self.values.get(name)) for name in names)

    def marks_of(self, index: int) -> tuple[str, ...]:
        """The keys of every ``ready`` and ``done`` of an index, of any generation."""
        return tuple(
            name
            for name in sorted(self.values)
            if name.startswith((f"{keys.READY}/", f"{keys.DONE}/")) and name.endswith(f"/{index}")
        )


def view_of(values: Mapping[str, bytes], revision: int) -> View:
    """The view of these keys, relative to the job's prefix; raises DamagedRecord.

    Keys that no supervisor writes are ignored, and so are marks of other generations, whatever they
    hold: they go with the next ``ready`` of their server.
    """
    epoch = about = None
    members: dict[int, Member] = {}
    alive: dict[int, str] = {}
    for name, value in values.items():
        match keys.parts(name):
            case keys.EPOCH, _:
                epoch = decode(name, value, Epoch)
            case keys.ABOUT, _:
                about = decode(name, value, About)
            case keys.SERVER, (index,):
                members[index] = decode(name, value, Member)
            case keys.ALIVE, (index,):
                alive[index] = decode(name, value, Beat).incarnation
            case _:
                pass
    if epoch is not None:
        members = {index: one for index, one in members.items() if one.job == epoch.job}
    ready, done = (_marks(values, word, epoch) for word in (keys.READY, keys.DONE))
    return View(revision, values, epoch, about, members, ready, done, alive)


def _marks(values: Mapping[str, bytes], word: str, epoch: Epoch | None) -> dict[int, Mark]:
    """Those of the epoch's generation, by index; none without an epoch."""
    marks: dict[int, Mark] = {}
    for name, value in values.items():
        match keys.parts(name):
            case first, (generation, index) if first == word and epoch is not None:
                if generation == epoch.generation:
                    marks[index] = decode(name, value, Mark)
            case _:
                pass
    return marks
