"""What a server tells the others when its ranks have ended, and when it leaves them."""

from __future__ import annotations

from contextlib import suppress
from signal import SIGTERM

import anyio

from ascend_supervisor.coordination.agreement.acts import Exit
from ascend_supervisor.coordination.agreement.situation import Obstacle, Ranks
from ascend_supervisor.coordination.peers.ends import Moved, Replaced
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.errors import DEFECT, UNAVAILABLE, LeftOut, Refusal, Unfit
from ascend_supervisor.etcd.failures import EtcdError
from ascend_supervisor.outcome import Completed, Ended, Fault, NotStarted, Remedy


def tell_end(session: Session, ended: Ended) -> None:
    """Nothing of ours runs any more, but what cannot be ended: then the job cannot go on."""
    if ended.left:
        reason = f"what is left cannot be ended: {'; '.join(ended.left)}"
        fault = Fault(reason, UNAVAILABLE, Remedy.FINAL)
        obstacle = Obstacle(UNAVAILABLE, reason)
        verdict = Ended(fault, ended.uptime)
        session.tell(ranks=Ranks.NONE, table=None, verdict=verdict, obstacle=obstacle)
    elif isinstance(ended.decisive, Completed):
        session.tell(ranks=Ranks.SUCCEEDED, verdict=ended)
    else:
        session.tell(ranks=Ranks.NONE, table=None, verdict=ended)


MARGIN_SECONDS = 1.0
LAST_WRITE_SECONDS = 2.0


async def say_farewell(
    session: Session, store: Store, error: Exception | None, seconds: float
) -> None:
    """Tell the others, by the rules of the peers; ``seconds`` is their TTL.

    It takes little more than that, also if etcd does not answer: who is not sure yet whether others
    are left waits for one TTL.
    """
    if not isinstance(session.order, Exit):
        _tell_why(session, error)
        with anyio.move_on_after(seconds + MARGIN_SECONDS):
            while not isinstance(session.order, Exit):
                await session.change()
    if isinstance(session.order, Exit) and session.order.farewell is not None:
        with anyio.move_on_after(LAST_WRITE_SECONDS), suppress(EtcdError):
            await store.write(session.order.farewell)


def _tell_why(session: Session, error: Exception | None) -> None:
    has_succeeded = session.situation.ranks is Ranks.SUCCEEDED
    if error is None or isinstance(error, (Moved, Replaced, LeftOut)):
        number = session.situation.stop
        ranks = Ranks.SUCCEEDED if has_succeeded else Ranks.NONE
        session.tell(ranks=ranks, stop=SIGTERM if number is None else number)
        return
    code, why = DEFECT, f"a defect: {error!r}"
    if isinstance(error, Refusal):
        code, why = error.exit_code, str(error)
    epoch = session.memory.epoch
    generation = None if epoch is None else epoch.generation
    session.tell(
        ranks=Ranks.NONE,
        generation=generation,
        verdict=Ended(NotStarted(code, why), 0.0),
        obstacle=Obstacle(code, why),
        unfit=why if isinstance(error, Unfit) else "",
    )
