"""Tells whom or what a server waits for: after a moment, then now and then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NoReturn

import anyio

from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.events import Report
from ascend_supervisor.events.leftovers import WaitEnded
from ascend_supervisor.events.peers import PeersWaiting
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.intervals import CLUSTER
from ascend_supervisor.tasks.race import first

FIRST_SECONDS = 2.0
"""Servers that start together need no words."""


@asynccontextmanager
async def telling_waits(session: Session, clock: Clock, report: Report) -> AsyncIterator[None]:
    """While this is entered."""
    error = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tell, session, clock, report)
        try:
            yield
        except Exception as raised:  # noqa: BLE001  (raised below, without a group around it)
            error = raised
        finally:
            tasks.cancel_scope.cancel()
    if error is not None:
        raise error


async def _tell(session: Session, clock: Clock, report: Report) -> NoReturn:
    began = clock.elapsed()
    interval = CLUSTER
    await clock.sleep(FIRST_SECONDS)
    try:
        while True:
            waited = round(clock.elapsed() - began, 3)
            report(PeersWaiting(_missing(session), session.waits_for, waited))
            await first(partial(clock.sleep, interval.seconds), partial(_other_reason, session))
            interval = interval.longer
    finally:
        report(WaitEnded(round(clock.elapsed() - began, 3)))


async def _other_reason(session: Session) -> None:
    """Return when a server that has no number yet waits for something else."""
    told = session.waits_for
    while session.waits_for == told or session.memory.index is not None:
        await session.change()


def _missing(session: Session) -> tuple[int, ...]:
    """Those that a server waits for which has a part in the job; others wait for their own."""
    return () if session.memory.index is None else session.members_missing
