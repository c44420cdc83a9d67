"""Probes: when a generation may start, and when it must end; one file per source."""

from __future__ import annotations

import anyio

from ascend_supervisor.life import Life, Plan
from ascend_supervisor.outcome import Fault


class Probe:
    """A source of reasons to wait or to end; each default does nothing."""

    async def keep(self) -> None:
        """Goes on beside everything else until the job ends; it may return, and raises nothing."""

    async def released(self) -> None:
        """Return when no process holds what a generation needs; no table is known yet.

        May raise a Refusal, as ``ready`` may: then no generation follows.
        """

    async def ready(self, plan: Plan) -> None:
        """Return when this plan may start."""

    async def must_end(self, life: Life) -> Fault:  # noqa: ARG002
        """Wait until the generation must end; called again while it is being ended.

        Returns at once while an earlier answer still holds.
        """
        await anyio.sleep_forever()
        raise AssertionError
