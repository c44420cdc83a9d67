"""A world that is driven by hand, event by event."""

from __future__ import annotations

from collections.abc import Callable

from ascend_supervisor.coordination.agreement.history import FailureLimit
from ascend_supervisor.coordination.agreement.records import About, Epoch
from ascend_supervisor.coordination.agreement.view import View
from tests.coordination.agreement.process import NEVER, Process
from tests.coordination.agreement.store import seen
from tests.coordination.agreement.world import FAULTS, STUCK, UNABLE, UNFIT, Model, World


class Stage:
    """Any fault may come, any number of times."""

    def __init__(
        self, start: str, servers: int = 2, spares: int = 0, leave_after: FailureLimit = NEVER
    ) -> None:
        self.model = Model(servers, limit=5, spares=spares, leave_after=leave_after)
        anything = (*FAULTS * 4, *(UNFIT, UNABLE, STUCK) * 2), ("same", "other", "other")
        self.world: World = getattr(self.model, start)(*anything)

    def __getitem__(self, name: str) -> Process:
        return self.world.process(name)

    @property
    def view(self) -> View:
        return seen(self.world.store)

    @property
    def epoch(self) -> str:
        """The phase and the generation."""
        epoch = self.view.epoch
        return f"{epoch.phase.value} {epoch.generation}" if epoch else "none"

    @property
    def written(self) -> Epoch:
        assert self.view.epoch is not None
        return self.view.epoch

    @property
    def about(self) -> About:
        assert self.view.about is not None
        return self.view.about

    def play(self, *events: str) -> None:
        """Each event in words: "look A", "do A", "kill B", "tick"."""
        for event in events:
            words = tuple(event.split(" ", 2))
            assert words in set(self.model.events(self.world)), f"{event} cannot happen now"
            self.world = self.model.happened(self.world, words)

    def settle(self, *names: str) -> None:
        """These servers (or all) look and write until they only wait."""
        while True:
            events = [
                event
                for event in self.model.events(self.world)
                if event[0] in {"look", "do"} and (not names or event[1] in names)
            ]
            if not events:
                return
            self.world = self.model.happened(self.world, events[0])

    def until(self, fact: Callable[[], bool]) -> None:
        """The first server that can do something does it, until ``fact`` holds."""
        while not fact():
            self.world = self.model.happened(self.world, next(self.model.events(self.world)))

    def usually_until(self, fact: Callable[[], bool]) -> None:
        """What happens without further faults, until ``fact`` holds."""
        while not fact():
            events = self.model.events(self.world)
            self.world = self.model.happened(self.world, self.model.usual(events))

    def ticks(self, number: int) -> None:
        """So many ticks, and all that servers do in them."""
        for _ in range(number):
            self.settle()
            self.play("tick")
        self.settle()

    def codes(self) -> dict[str, int | None]:
        """The exit codes at the end, if nothing else goes wrong."""
        while not self.model.is_over(self.world):
            events = self.model.events(self.world)
            self.world = self.model.happened(self.world, self.model.usual(events))
        return {one.name: one.code for one in self.world.processes}
