"""A thousand random histories of a job with one bad server, and what becomes of its servers."""

from __future__ import annotations

from random import Random

import pytest

from ascend_supervisor.coordination.agreement.history import FailureLimit
from tests.coordination.agreement.process import Process
from tests.coordination.agreement.world import Model, World

HISTORIES = 1_000
PARTS = 20
CHANCE = 0.03
"""Of a failure, at each event of a generation that runs."""
LIMIT = FailureLimit(2, 3)


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
