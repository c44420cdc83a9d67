"""Tells whom of its peers a server waits for: after a moment, when that changes, now and then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import anyio

from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.events import Report
from ascend_supervisor.events.leftovers import WaitEnded
from ascend_supervisor.events.peers import MOST_TOLD, PeersWaiting
from ascend_supervisor.tasks.clock import CLUSTER, Clock

_Indices = tuple[int, ...]

FIRST_SECONDS = 2.0
"""Servers that start together need no words, and changes come together."""


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
    interval, last = CLUSTER, None
    await clock.sleep(FIRST_SECONDS)
    try:
        while True:
            now = _waited_for(session)
            interval = interval.longer if now == last else CLUSTER
            last = now
            report(PeersWaiting(*now, round(clock.elapsed() - began, 3)))
            with anyio.move_on_after(interval.seconds):
                while _waited_for(session) == last:
                    await session.change()
                await clock.sleep(FIRST_SECONDS)  # one change follows the other
    finally:
        report(WaitEnded(round(clock.elapsed() - began, 3)))


def _waited_for(session: Session) -> tuple[_Indices, _Indices, tuple[str, ...], str]:
    missing = session.members_missing
    hosts = session.others.hosts(missing[:MOST_TOLD])
    return missing, session.members_lost, hosts, session.waits_for
