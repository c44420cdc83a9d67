"""How requests to etcd fail: few errors, each with a sentence; pure."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct


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
