"""Keeps the job's etcd, at the end of the first server, until the others need it no more."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress

import anyio

from ascend_supervisor.coordination.own_etcd.others import (
    end_without_us,
    may_finish,
    others_here,
    told_of,
)
from ascend_supervisor.coordination.own_etcd.telling import telling
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.etcd.failures import EtcdError
from ascend_supervisor.events import Report
from ascend_supervisor.tasks.clock import Clock

LOOK_SECONDS = 0.1
LOOK_SECONDS_AT_MOST = 1.0
"""All records are read, and those of many servers are large."""


async def stay(
    store: Store, own: int, seconds: float, runs: Callable[[], bool], clock: Clock, report: Report
) -> None:
    """Until the others have left, for ``seconds`` at most, or while etcd ``runs``.

    A job that goes on is ended: at once, or after half of the time if the ranks here have ended
    with 0, because those of the others may, too.
    """
    began = clock.elapsed()
    pause = LOOK_SECONDS
    others: tuple[int, ...] | None = None

    with anyio.move_on_after(seconds):
        async with telling(lambda: told_of(others), seconds, clock, report):
            while runs():
                with suppress(EtcdError):
                    view = await store.read()
                    others = others_here(view, own)
                    if not others:
                        return
                    is_late = clock.elapsed() - began >= seconds / 2
                    end = end_without_us(view, own, secrets.token_hex(8))
                    if end is not None and (is_late or not may_finish(view, own)):
                        await store.write(end)
                await anyio.sleep(pause)
                pause = min(2 * pause, LOOK_SECONDS_AT_MOST)
