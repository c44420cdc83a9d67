"""Random histories of a job with one bad server, or machine, and what becomes of its servers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.history import FailureLimit
from tests.coordination.agreement.process import Process
from tests.coordination.agreement.store import seen
from tests.coordination.agreement.world import Model, World

pytestmark = pytest.mark.thorough

HISTORIES, DEATHS = 300, 100
"""Of seven rules that were broken on purpose, four failed in each history and three in none."""
PARTS = 6
CHANCE = 0.03
"""Of a failure, at each event of a generation that runs."""
LIMIT = FailureLimit(2, 3)
LONGEST = 3_000
"""Events from a death to the next generation."""


class History:
    """Three servers and one or two spares; one of the three always fails first.

    At most one other server fails, once, before the bad one is out. Ranks that lose others fail,
    too, before or after their supervisors have heard of it.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)  # noqa: S311
        self.model = Model(3, limit=9, spares=self.chance.choice((1, 2)), leave_after=LIMIT)
        self.world: World = self.model.running()
        self.bad = self.chance.choice([one.name for one in self.world.processes if one.ranks])
        self.good = self.chance.choice([one.name for one in self.world.processes])
        self.spends_good = self.chance.random() < 0.5
        self.failures: list[str] = []

    def play(self) -> dict[str, int | None]:
        """The exit codes, by name."""
        while not self.model.is_over(self.world):
            self._happens(self._next())
        return {one.name: one.code for one in self.world.processes}

    def _next(self) -> tuple[str, ...]:
        if (whom := self._fails()) is not None:
            self.failures.append(whom)
            self.world = World(
                self.world.store,
                self.world.processes,
                ("fail",),
                watch=self.world.watch,
            )
            return "fail", whom
        events = list(self.model.events(self.world))
        if self.failures.count(self.bad) < LIMIT.count:  # the job goes on until it is out
            events = [one for one in events if one[0] != "succeed"] or events
        return self.chance.choice(events)

    def _fails(self) -> str | None:
        """Who fails next, while all ranks run."""
        running = [one for one in self.world.processes if self._can_fail(one)]
        if len(running) < 3 or self.chance.random() > CHANCE:
            return None
        names = [one.name for one in running]
        if self.spends_good and self.good in names and self.good != self.bad:
            self.spends_good = False
            return self.good
        return self.bad if self.bad in names else None

    def _can_fail(self, one: Process) -> bool:
        return one.ranks is not None and one.situation.ranks.value == "running"

    def _happens(self, event: tuple[str, ...]) -> None:
        self.world = self.model.happened(self.world, event)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_bad_server_is_out_after_its_second_failure_and_a_good_one_never(part):
    for seed in range(part, HISTORIES, PARTS):
        history = History(seed)
        codes = history.play()
        out = {name for name, code in codes.items() if code == 69}
        assert out == {history.bad}, f"seed {seed}: {history.failures}, {codes}"
        assert history.failures.count(history.bad) == LIMIT.count, f"seed {seed}"
        assert {code for name, code in codes.items() if name != history.bad} == {0}, f"seed {seed}"


class Deaths:
    """Three servers; the machine of one dies in two generations, and a new server starts there.

    The ranks of the others lose those of the dead one, and fail before its lease has ended, or
    after. A third server starts on that machine when another one waits for a place.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)  # noqa: S311
        self.model = Model(3, limit=9, leave_after=LIMIT)
        self.world: World = self.model.running()
        self.machine = self.chance.choice([one.place for one in self.world.processes])

    def play(self) -> World:
        """The world when a generation runs that was started after the second death."""
        for has_spare in (False, True):
            if has_spare:  # it has to wait for the fence of the dead one, and be it before the end
                self._comes("other")
            (bad,) = (one for one in self.world.processes if self._runs(one) and self._is_bad(one))
            self._happens("kill", bad.name)
            while self.world.store.holds(bad.name):
                self._to_next("tick")
            for _ in range(2):  # the servers look before somebody comes
                self._to_next("tick")
            self._comes("same")
            self._until(lambda: sum(map(self._runs, self.world.processes)) == 3)
        return self.world

    def _comes(self, kind: str) -> None:
        self.world = replace(self.world, newcomers=(kind,))
        events = self.model.events(self.world)
        came = [one for one in events if one[0] == "come" and self._is_there(one)]
        self.world = self.model.happened(self.world, self.chance.choice(came))
        self._to_next("tick")

    def _is_there(self, came: tuple[str, ...]) -> bool:
        return came[1] == "other" or came[2] == self.machine

    def _is_bad(self, one: Process) -> bool:
        return one.place == self.machine

    def _runs(self, one: Process) -> bool:
        return one.ranks is not None and one.situation.ranks.value == "running"

    def _happens(self, fault: str, whom: str) -> None:
        self.world = replace(self.world, faults=(fault,))
        self.world = self.model.happened(self.world, (fault, whom))

    def _to_next(self, kind: str) -> None:
        """All that may happen, in any order, to the next event of this kind."""
        while True:
            event = self._next()
            self.world = self.model.happened(self.world, event)
            if event[0] == kind:
                return

    def _until(self, holds: Callable[[], bool]) -> None:
        for _ in range(LONGEST):
            if holds():
                return
            self.world = self.model.happened(self.world, self._next())
        raise AssertionError("it does not come to that")

    def _next(self) -> tuple[str, ...]:
        events = [one for one in self.model.events(self.world) if one[0] != "succeed"]
        return self.chance.choice(events)


def test_a_machine_that_dies_twice_is_left_out():
    for seed in range(DEATHS):
        deaths = Deaths(seed)
        world = deaths.play()
        view = seen(world.store)
        assert view.about is not None
        assert [one.machine for one in view.about.failures] == [deaths.machine] * 2, f"seed {seed}"
        assert deaths.machine not in {seat.place for seat in view.about.roster}, f"seed {seed}"
        running = sorted(one.place for one in world.processes if one.ranks is not None)
        assert deaths.machine not in running, f"seed {seed}"
