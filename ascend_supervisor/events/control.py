"""What operators ask for through the control socket."""

from __future__ import annotations

from typing import ClassVar, Literal

from ascend_supervisor.events import Event

ControlRequest = Literal["stop", "restart", "dump"]


class ControlRequested(Event, frozen=True):
    """``uid`` and ``peer_pid`` are those of the process that asked."""

    name: ClassVar[str] = "control.requested"
    request: ControlRequest
    uid: int
    peer_pid: int
    effect: str

    @property
    def sentence(self) -> str:
        return f"process {self.peer_pid} of user {self.uid} asked for {self.request}: {self.effect}"
