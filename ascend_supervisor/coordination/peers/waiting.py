"""Tells whom of its peers a server waits for: after a moment, when that changes, now and then."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import NoReturn

import anyio

from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.events import Report
from ascend_supervisor.events.leftovers import wait_ended
from ascend_supervisor.events.peers import MOST_TOLD, PeersWaiting
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.long_wait import SERVERS, LongWait
from ascend_supervisor.tasks.race import beside

_Indices = tuple[int, ...]


def telling_waits(
    session: Session, clock: Clock, report: Report
) -> AbstractAsyncContextManager[object]:
    """While this is entered."""

    async def tell() -> NoReturn:
        with LongWait(SERVERS, clock.elapsed, wait_ended(report)) as wait:
            while True:
                intervals = iter(SERVERS)  # anew at each change
                await clock.sleep(next(intervals))  # one change follows the other
                now = _waited_for(session)
                while now == _waited_for(session):
                    report(PeersWaiting(*now, wait.told()))
                    with anyio.move_on_after(next(intervals)):
                        while now == _waited_for(session):
                            await session.change()

    return beside(tell)


def _waited_for(session: Session) -> tuple[_Indices, _Indices, tuple[str, ...], str]:
    missing = session.members_missing
    hosts = session.others.hosts(missing[:MOST_TOLD])
    return missing, session.members_lost, hosts, session.waits_for
