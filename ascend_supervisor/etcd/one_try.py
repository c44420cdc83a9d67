"""One try at one endpoint: what is sent, and how it fails; pure."""

from __future__ import annotations

from msgspec import Struct

from ascend_supervisor.etcd.failures import Kind
from ascend_supervisor.etcd.wire import Complaint
from ascend_supervisor.untrusted_text import printable


class Message(Struct, frozen=True):
    """What is asked; ``may_repeat``: asking twice does no more than asking once."""

    path: str
    body: bytes
    may_repeat: bool = True


class Failed(Exception):
    """The endpoint has not answered as etcd does; ``was_sent``: it may have done what was asked."""

    def __init__(self, kind: Kind, clause: str, *, was_sent: bool = True) -> None:
        super().__init__(clause)
        self.kind = kind
        self.clause = clause
        self.was_sent = was_sent


class Complained(Exception):
    """etcd has answered with an error."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.message)
        self.complaint = complaint


def not_understood(reason: object) -> Failed:
    return Failed(Kind.STRANGE, f"its answer is not etcd's ({printable(str(reason))[:200]})")
