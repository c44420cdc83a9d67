"""The number of the next generation, and what was spent of the restart budget."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from msgspec.structs import replace

from ascend_supervisor.outcome import Ended
from ascend_supervisor.restart_policy import Decision, Restart, RestartBudget, decide
from ascend_supervisor.tasks.clock import Clock


class Ledger:
    """``random`` gives numbers in [0, 1), for the back-off."""

    def __init__(self, budget: RestartBudget, clock: Clock, random: Callable[[], float]) -> None:
        self._budget = budget
        self._clock = clock
        self._random = random
        self._numbers = count()
        self.generation = next(self._numbers)

    @property
    def limit(self) -> int:
        """How many restarts were asked for."""
        return self._budget.limit

    @property
    def restarts_left(self) -> int:
        return self._budget.left(self._clock.now())

    def is_never_retried(self, status: int | None) -> bool:
        """Whether the user has ruled out a restart after this exit status."""
        return status in self._budget.never

    def settle_recovered(self, ended: Ended) -> Decision:
        """As ``settle``, after an incident of the cluster, which counts its restarts itself.

        The restart is free however long the row of free ones is; its back-off still grows.
        """
        self._budget = replace(self._budget, free_since=self._clock.now())
        return self.settle(ended, holds_all_ranks=True)

    def settle(self, ended: Ended, *, holds_all_ranks: bool) -> Decision:
        """What follows a generation; a restart is written down."""
        decision = decide(
            ended,
            self._budget,
            self._clock.now(),
            jitter=self._random(),
            holds_all_ranks=holds_all_ranks,
        )
        if isinstance(decision, Restart):
            self._budget = decision.budget
            self.generation = next(self._numbers)
        return decision
