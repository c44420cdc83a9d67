"""Tells that the job's own etcd is waited for, or waits: after a moment, then now and then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import anyio

from ascend_supervisor.events import Report
from ascend_supervisor.events.leftovers import WaitEnded
from ascend_supervisor.events.own_etcd import EtcdWaiting
from ascend_supervisor.tasks.clock import CLUSTER, Clock

FIRST_SECONDS = 2.0
"""Servers that start and end together need no words."""


@asynccontextmanager
async def telling(
    what: Callable[[], str], limit: float, clock: Clock, report: Report
) -> AsyncIterator[None]:
    """While this is entered; ``limit`` is in seconds."""
    error = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tell, what, limit, clock, report)
        try:
            yield
        except Exception as raised:  # noqa: BLE001  (raised below, without a group around it)
            error = raised
        finally:
            tasks.cancel_scope.cancel()
    if error is not None:
        raise error


async def _tell(what: Callable[[], str], limit: float, clock: Clock, report: Report) -> NoReturn:
    began = clock.elapsed()
    interval = CLUSTER
    await clock.sleep(FIRST_SECONDS)
    try:
        while True:
            report(EtcdWaiting(what(), round(clock.elapsed() - began, 3), limit))
            await clock.sleep(interval.seconds)
            interval = interval.longer
    finally:
        report(WaitEnded(round(clock.elapsed() - began, 3)))
