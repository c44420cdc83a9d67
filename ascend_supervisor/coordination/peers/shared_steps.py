"""The steps of the job, for the servers whose ranks tell none: kept in etcd, written seldom."""

from __future__ import annotations

from contextlib import suppress
from typing import NoReturn, Protocol

import msgspec
from msgspec.structs import replace

from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.etcd.failures import EtcdError
from ascend_supervisor.outcome import Reached
from ascend_supervisor.progress.progress import SharedSteps
from ascend_supervisor.tasks.clock import Clock

SHARE_SECONDS = 10.0
"""Between two looks, and so between two writes."""


class StepsOfJob(Protocol):
    """What this server knows of the steps."""

    def told(self) -> SharedSteps | None:
        """What its own ranks have told in this generation; None if they have told nothing."""

    @property
    def reached(self) -> Reached:
        """How far this generation has come, by all that is known here."""

    def hear(self, steps: SharedSteps) -> None:
        """Take in what another server has told."""


async def share_steps(store: Store, steps: StepsOfJob, clock: Clock, seconds: float) -> NoReturn:
    """Write what is told here, and read what is told elsewhere, every so many ``seconds``.

    What cannot be written or read now is left out: the next look tells more.
    """
    written: SharedSteps | None = None
    heard = b""
    while True:
        await clock.sleep(seconds)
        own = steps.told()
        with suppress(EtcdError, msgspec.MsgspecError, RecursionError):
            if own is not None:
                if written is None or replace(own, age=written.age) != written:
                    await store.write_steps(msgspec.json.encode(own))
                    written = own
            elif (found := await store.steps()) and found != heard:
                heard = found
                steps.hear(msgspec.json.decode(found, type=SharedSteps))
