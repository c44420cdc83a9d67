"""Probes: when a generation may start, and that it must end; one file a source."""

from __future__ import annotations

import anyio

from ascend_supervisor.life import Life, Plan
from ascend_supervisor.outcome import Fault


class Probe:
    """A part that is asked; what it does not say of itself, nothing follows from."""

    async def released(self) -> None:
        """Return when nothing holds what a generation needs; no table is known yet.

        May raise a Refusal, as ``ready`` may: then there is no generation any more.
        """

    async def ready(self, plan: Plan) -> None:
        """Return when this plan may start."""

    async def must_end(self, life: Life) -> Fault:  # noqa: ARG002
        """Wait until the generation must end; asked again while it is ended.

        Answers at once while what was told still holds.
        """
        await anyio.sleep_forever()
        raise AssertionError
