"""The steps of the job and the account of its time, for servers that cannot know them themselves.

Kept in etcd, and written seldom.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import NoReturn, Protocol

import anyio
import msgspec
from msgspec.structs import replace

from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.etcd.failures import EtcdError
from ascend_supervisor.outcome import Reached
from ascend_supervisor.progress.account import MOST_PAUSE_SECONDS, KeptAccount
from ascend_supervisor.progress.progress import SharedSteps
from ascend_supervisor.tasks.clock import Clock

SHARE_SECONDS = 10.0
"""Between two looks, and so between two writes."""


UNREADABLE = EtcdError, msgspec.MsgspecError, RecursionError


class StepsOfJob(Protocol):
    """What this server knows of the steps."""

    def told(self) -> SharedSteps | None:
        """What its own ranks have told in this generation; None if they have told nothing."""

    @property
    def reached(self) -> Reached:
        """How far this generation has come, by all that is known here."""

    def hear(self, steps: SharedSteps) -> None:
        """Take in what another server has told."""

    def go_on(self, account: KeptAccount) -> None:
        """Go on with the account of the job, which was there before this server."""


LOOK_SECONDS = 2.0


async def take_over(store: Store, steps: StepsOfJob) -> None:
    """Go on with the account of the job; what cannot be read now is left out.

    To be called before the first generation here.
    """
    with anyio.move_on_after(LOOK_SECONDS), suppress(*UNREADABLE):
        told = msgspec.json.decode(await store.steps(), type=SharedSteps)
        if told.account is not None:
            age = time.time() - told.written
            pause = age if 0 < age <= MOST_PAUSE_SECONDS else 0.0
            steps.go_on(told.account.after(pause, "waiting"))


async def share_steps(store: Store, steps: StepsOfJob, clock: Clock, seconds: float) -> NoReturn:
    """Write what is told here, and read what is told elsewhere, every so many ``seconds``.

    What cannot be written or read now is left out: the next look tells more.
    """
    heard = b""
    while True:
        await clock.sleep(seconds)
        own = steps.told()
        with suppress(*UNREADABLE):
            if own is not None:
                # Written also if no step has come: the account has more to tell.
                await store.write_steps(msgspec.json.encode(replace(own, written=time.time())))
            elif (found := await store.steps()) and found != heard:
                heard = found
                steps.hear(msgspec.json.decode(found, type=SharedSteps))
