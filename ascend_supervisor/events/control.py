"""What operators ask for through the control socket."""

from __future__ import annotations

from typing import ClassVar, Literal

from ascend_supervisor.events import Event

ControlRequest = Literal["stop", "restart", "dump"]


class ControlRequested(Event, frozen=True):
    """``uid`` and ``peer_pid`` are those of the process that asked; ``user`` may be empty."""

    name: ClassVar[str] = "control.requested"
    request: ControlRequest
    uid: int
    peer_pid: int
    effect: str
    user: str = ""

    @property
    def sentence(self) -> str:
        who = f"process {self.peer_pid} of user {self.user or self.uid}"
        return f"{who} asked for {self.request}: {self.effect}"
