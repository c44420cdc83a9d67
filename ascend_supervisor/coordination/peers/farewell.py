"""How a server leaves its peers, on every way out."""

from __future__ import annotations

from contextlib import suppress
from signal import SIGTERM

import anyio

from ascend_supervisor.coordination.agreement.acts import Exit
from ascend_supervisor.coordination.agreement.records import DamagedRecord
from ascend_supervisor.coordination.agreement.situation import Obstacle, Ranks
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.errors import DEFECT, Refusal
from ascend_supervisor.etcd.failures import EtcdError
from ascend_supervisor.outcome import Ended, NotStarted

FAREWELL_SECONDS = 5.0
LAST_WRITE_SECONDS = 2.0


async def say_farewell(session: Session, store: Store, error: BaseException | None) -> None:
    """Tell the others, by the rules of the peers; for FAREWELL_SECONDS at most, if etcd is slow."""
    if not isinstance(session.order, Exit):
        _tell_why(session, error)
        with anyio.move_on_after(FAREWELL_SECONDS):
            while not isinstance(session.order, Exit):
                await session.change()
    if isinstance(session.order, Exit) and session.order.farewell is not None:
        with anyio.move_on_after(LAST_WRITE_SECONDS), suppress(EtcdError, DamagedRecord):
            await store.write(session.order.farewell)


def _tell_why(session: Session, error: BaseException | None) -> None:
    if not isinstance(error, Exception):
        number = session.situation.stop
        session.tell(ranks=Ranks.NONE, stop=SIGTERM if number is None else number)
        return
    code = error.exit_code if isinstance(error, Refusal) else DEFECT
    epoch = session.memory.epoch
    generation = None if epoch is None else epoch.generation
    session.tell(
        ranks=Ranks.NONE,
        generation=generation,
        verdict=Ended(NotStarted(code, str(error)), 0.0),
        obstacle=Obstacle(code, str(error)),
    )
