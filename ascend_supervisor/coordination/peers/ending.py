"""What the session is told of the end of our ranks."""

from __future__ import annotations

from ascend_supervisor.coordination.agreement.situation import Obstacle, Ranks
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.outcome import Completed, Ended, Fault, Remedy


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
