"""What a server tells the others when its ranks have ended, and when it leaves them."""

from __future__ import annotations

from contextlib import suppress
from signal import SIGTERM

import anyio

from ascend_supervisor.coordination.agreement.acts import Exit
from ascend_supervisor.coordination.agreement.leaving import OF_SERVER
from ascend_supervisor.coordination.agreement.situation import Obstacle, Ranks
from ascend_supervisor.coordination.peers.ends import Moved, Replaced
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.errors import DEFECT, UNAVAILABLE, LeftOut, Refusal, Unavailable
from ascend_supervisor.etcd.failures import EtcdError
from ascend_supervisor.outcome import Completed, Ended, Fault, NotStarted, Outcome, Remedy
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.tasks.race import innermost


def unable_to_start(outcome: Outcome) -> str:
    """Why no rank could be started here, in a sentence, if another server may start it."""
    match outcome:
        case Fault(reason=reason, is_of_server=True) | NotStarted(reason=reason, is_of_server=True):
            return _cannot_start(reason)
        case _:
            return ""


def _cannot_start(why: str) -> str:
    return why if why.startswith(OF_SERVER) else f"{OF_SERVER}cannot start its ranks: {why}"


def tell_end(session: Session, ended: Ended) -> None:
    """Nothing of ours runs any more, but what cannot be ended: then no rank can start here."""
    if ended.left:
        reason = f"what is left cannot be ended: {'; '.join(ended.left)}"
        fault = Fault(reason, UNAVAILABLE, Remedy.FINAL)
        obstacle = Obstacle(UNAVAILABLE, reason)
        verdict = Ended(fault, ended.uptime)
        unable = f"{OF_SERVER}cannot go on: {reason}" if ended.are_stuck else ""
        session.tell(
            ranks=Ranks.NONE, table=None, verdict=verdict, obstacle=obstacle, unable=unable
        )
    elif isinstance(ended.decisive, Completed):
        session.tell(ranks=Ranks.SUCCEEDED, verdict=ended)
    else:
        unable = unable_to_start(ended.outcome)
        session.tell(ranks=Ranks.NONE, table=None, verdict=ended, unable=unable)


async def may_leave(session: Session) -> None:
    """Wait until a server that is unable has left to a spare, or knows that it cannot.

    In the second case it tries again.
    """
    while session.situation.unable and not session.has_decided:
        await session.change()
    if session.situation.unable and not isinstance(session.order, Exit):
        session.tell(unable="")


MARGIN_SECONDS = 1.0
LAST_WRITE_SECONDS = 2.0


async def say_farewell(
    session: Session, store: Store, error: Exception | None, seconds: float
) -> None:
    """Tell the others, by the rules of the peers; ``seconds`` is their TTL.

    It takes little more than that, also if etcd does not answer: who is not sure yet whether others
    are left waits for one TTL. If a spare takes our place for a Refusal, raises Unavailable in the
    place of that.
    """
    if not isinstance(session.order, Exit):
        _tell_why(session, error)
        with anyio.move_on_after(seconds + MARGIN_SECONDS):
            while not isinstance(session.order, Exit):
                await session.change()
    if isinstance(session.order, Exit) and session.order.farewell is not None:
        with anyio.move_on_after(LAST_WRITE_SECONDS), suppress(EtcdError):
            await store.write(session.order.farewell)
    order = session.order
    if isinstance(error, Refusal) and isinstance(order, Exit) and order.left_to_spare:
        raise Unavailable(order.reason) from error


def _tell_why(session: Session, error: Exception | None) -> None:
    has_succeeded = session.situation.ranks is Ranks.SUCCEEDED
    if error is None or isinstance(error, (Moved, Replaced, LeftOut)):
        number = session.situation.stop
        ranks = Ranks.SUCCEEDED if has_succeeded else Ranks.NONE
        session.tell(ranks=ranks, stop=SIGTERM if number is None else number)
        return
    code, why, is_of_server = DEFECT, f"a defect: {error!r}", False
    if isinstance(error, Refusal):
        code, why, is_of_server = error.exit_code, str(error), error.is_of_server
    elif (lacking := scarcity(innermost(error))) and session.situation.ranks is Ranks.NONE:
        code, why, is_of_server = UNAVAILABLE, lacking, True
    epoch = session.memory.epoch
    generation = None if epoch is None else epoch.generation
    session.tell(
        ranks=Ranks.NONE,
        generation=generation,
        verdict=Ended(NotStarted(code, why), 0.0),
        obstacle=Obstacle(code, why),
        unable=_cannot_start(why) if is_of_server else "",
    )
