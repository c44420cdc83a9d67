"""One try at one endpoint, and what etcd's own errors mean for a request; pure.

The codes are those of gRPC; the words are those of etcd's ``rpctypes``, the same from 3.4 to 3.6.
The gateways of these versions give different HTTP statuses, so these do not count.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from ascend_supervisor.etcd.failures import FailureKind
from ascend_supervisor.etcd.wire import Complaint
from ascend_supervisor.untrusted_text import printable, shown

_PERMISSION, _UNAUTHENTICATED = 7, 16
_ELSEWHERE = frozenset({1, 2, 4, 8, 13, 14})
"""Canceled, unknown, deadline, no room, internal, unavailable: another endpoint may serve."""

FULL = (
    "its database is full (NOSPACE), so it only reads and deletes: make room (etcdctl compact, "
    "then etcdctl defrag) or raise its --quota-backend-bytes, then end the alarm "
    "(etcdctl alarm disarm)"
)


class Meaning(Enum):
    ELSEWHERE = auto()
    """This endpoint cannot serve now."""
    TOKEN = auto()
    """The token has expired, or is unknown since a restart."""
    NO_LEASE = auto()
    LEASE_EXISTS = auto()
    NO_USERS = auto()
    """etcd does not ask for users."""
    FULL = auto()
    """Nothing can be written until somebody makes room."""
    REFUSED = auto()


_WORDS = {
    "invalid auth token": Meaning.TOKEN,
    "revision of auth store is old": Meaning.TOKEN,
    "requested lease not found": Meaning.NO_LEASE,
    "lease already exists": Meaning.LEASE_EXISTS,
    "database space exceeded": Meaning.FULL,
    "authentication is not enabled": Meaning.NO_USERS,
    "permission denied": Meaning.REFUSED,
    "user name is empty": Meaning.REFUSED,
}


def meaning_of(complaint: Complaint) -> Meaning:
    for words, meaning in _WORDS.items():
        if words in complaint.message:
            return meaning
    if complaint.code == _UNAUTHENTICATED:
        return Meaning.TOKEN
    return Meaning.ELSEWHERE if complaint.code in _ELSEWHERE else Meaning.REFUSED


def refusal(complaint: Complaint, user: str | None) -> str:
    """Why etcd refuses a request, and what to do."""
    who = f"the user {shown(user)}" if user else "a request without a user"
    if complaint.code == _PERMISSION or "permission denied" in complaint.message:
        return (
            f"etcd refuses {who}: permission denied; give its role readwrite on the keys (etcdctl "
            "role grant-permission)"
        )
    if "user name is empty" in complaint.message:
        return "etcd refuses a request without a user: give a user and a password"
    if "authentication failed" in complaint.message:
        return f"etcd refuses {who}: it does not know the user, or not with this password"
    if complaint.code == _UNAUTHENTICATED:
        return f"etcd refuses {who}: it does not accept a token that it has just given"
    return f"etcd refuses the request: {reason(complaint)}"


def reason(complaint: Complaint) -> str:
    """Etcd's own words, as a clause."""
    words = complaint.message.removeprefix("etcdserver: ").removeprefix("mvcc: ")
    return printable(words)[:200] or f"gRPC code {complaint.code}"


class Message(Struct, frozen=True):
    """What is asked; ``may_repeat``: asking twice does no more than asking once."""

    path: str
    body: bytes
    may_repeat: bool = True


class Failed(Exception):
    """The endpoint has not answered as etcd does; ``was_sent``: it may have done what was asked."""

    def __init__(self, kind: FailureKind, clause: str, *, was_sent: bool = True) -> None:
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
    return Failed(FailureKind.STRANGE, f"its answer is not etcd's ({printable(str(reason))[:200]})")
