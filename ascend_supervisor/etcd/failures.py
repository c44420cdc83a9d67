"""How requests to etcd fail, and what etcd's own errors mean: few errors, each a sentence; pure.

The codes of etcd's errors are those of gRPC; the words are those of its ``rpctypes``, the same from
3.4 to 3.6. The gateways of these versions give different HTTP statuses, so these do not count.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from ascend_supervisor.etcd.wire import Complaint
from ascend_supervisor.untrusted_text import printable, shown


class EtcdError(Exception):
    """The text is a sentence: what happened, where, and what to do if that is known."""


class Unreachable(EtcdError):
    """No endpoint has answered as etcd does; the text has a reason for each that was asked.

    ``may_have_happened``: a request that changes something was sent, and its fate is unknown.
    """

    def __init__(self, text: str, *, may_have_happened: bool = False) -> None:
        super().__init__(text)
        self.may_have_happened = may_have_happened


class Refused(EtcdError):
    """etcd, or TLS, refuses us; the same request will fail again until somebody changes something.

    The request has changed nothing.
    """


class MalformedAnswer(EtcdError):
    """Something has answered that is not etcd 3.4 or newer, or does not speak its JSON."""


class LeaseNotFound(EtcdError):
    """The lease of a put does not exist, so the transaction has changed nothing."""


class TooManyOperations(EtcdError):
    """The transaction was not sent, because etcd would refuse it."""


class HttpxMissing(EtcdError):
    """The library for HTTP is not installed."""


class FailureKind(Enum):
    SILENT = auto()
    """It cannot be reached, does not answer, or cannot serve now."""
    FULL = auto()
    """It answers, and reads, but writes nothing."""
    REFUSED = auto()
    STRANGE = auto()
    """It answers, but not as etcd."""


class EndpointFailure(Struct, frozen=True):
    """Why one endpoint has not answered, as a clause."""

    endpoint: str
    kind: FailureKind
    clause: str


def error_of(failures: list[EndpointFailure], *, may_have_happened: bool) -> EtcdError:
    """The error for a request that has failed at each of these endpoints."""
    text = "; ".join(f"{failure.endpoint}: {failure.clause}" for failure in failures)
    kinds = {failure.kind for failure in failures}
    if kinds == {FailureKind.REFUSED}:
        return Refused(f"etcd cannot be used: {text}")
    if kinds == {FailureKind.STRANGE} and not may_have_happened:
        return MalformedAnswer(f"expected an answer of etcd's JSON gateway: {text}")
    what = "etcd cannot be written to" if kinds == {FailureKind.FULL} else "no etcd answers"
    return Unreachable(f"{what}: {text}", may_have_happened=may_have_happened)


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
    return printable(words, 200) or f"gRPC code {complaint.code}"


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
    return Failed(FailureKind.STRANGE, f"its answer is not etcd's ({printable(str(reason), 200)})")
