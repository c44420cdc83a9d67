"""The stage of a generation whose ranks are heard."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.notify_socket.hearing import Hearing
from tests.workers.test_generation import Stage, stage

__all__ = ["stage"]


@pytest.fixture
async def hearing(stage: Stage) -> AsyncIterator[Hearing]:
    """Its socket is open, and is read."""
    async with Hearing(stage).listening() as one:
        yield one
