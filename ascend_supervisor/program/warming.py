"""Has standbys made (--warm) once a generation trains: before, they would slow its start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ascend_supervisor.life import Life, Plan
from ascend_supervisor.outcome import Fault
from ascend_supervisor.probes import Probe
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first
from ascend_supervisor.workers.standbys import Standbys, Wish

LATEST_SECONDS = 60.0
"""After which standbys are started although no step was told."""
WAIT_SECONDS = 0.5
"""A table that is complete is found sooner."""


class Warming(Probe):
    """``first_step`` returns when the generation has made its first step.

    ``foreseen`` are the ranks of the first one, as far as they can be known before the cluster has
    said who is where.
    """

    def __init__(
        self,
        standbys: Standbys,
        foreseen: Sequence[ProcessSpec],
        first_step: Callable[[], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._standbys = standbys
        self._foreseen = _ranks(foreseen)
        self._first_step = first_step
        self._clock = clock

    async def released(self) -> None:
        """While the cluster is waited for, nobody else needs the CPU time."""
        if self._foreseen:
            self._standbys.want(Wish(self._foreseen, WAIT_SECONDS, at_once=True))

    async def ready(self, plan: Plan) -> None:  # noqa: ARG002
        """The CPU time is for the ranks now."""
        self._foreseen = ()
        self._standbys.halt()

    async def must_end(self, life: Life) -> Fault:
        """Never: it has no reason to."""
        start = life.plan.start
        if start.restarts_left or start.cluster is not None:
            await first(self._first_step, partial(self._clock.sleep, LATEST_SECONDS))
            if not life.is_ending:
                self._standbys.want(Wish(_ranks(life.plan.specs)))
        return await super().must_end(life)


def _ranks(specs: Sequence[ProcessSpec]) -> tuple[ProcessSpec, ...]:
    return tuple(spec for spec in specs if spec.rank is not None)
