"""What a coordinator offers to operators, through the control socket."""

from __future__ import annotations

from ascend_supervisor.coordination.waits_ended_by_hand import WaitByHand
from ascend_supervisor.coordination.whole_job import WholeJob


class ForOperators:
    """A wait that they may end, and the servers of the job as they may see them."""

    def __init__(self) -> None:
        self.wait = WaitByHand()
        self.whole_job = WholeJob()
