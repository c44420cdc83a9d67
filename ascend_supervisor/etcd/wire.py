"""etcd's JSON, as its gRPC gateway speaks it since etcd 3.4; pure.

Bytes are base64, 64-bit integers are strings, and what is zero, empty or false is left out. The
fields are those of etcd's rpc.proto; the codes of errors are those of gRPC.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from ascend_supervisor.etcd.values import (
    Absent,
    Compare,
    Equals,
    Get,
    Got,
    Key,
    KeyValue,
    ModifiedAt,
    NotSince,
    Operation,
    Put,
    Range,
    Transaction,
    TransactionAnswer,
)

T = TypeVar("T")


class Message(Struct, frozen=True):
    """What is asked; ``may_repeat``: asking twice does no more than asking once."""

    path: str
    body: bytes
    may_repeat: bool = True


class Garbled(Exception):
    """The bytes are not what was expected; the text is a clause."""


class Complaint(Struct, frozen=True):
    """etcd's own words for an error, and the code of gRPC."""

    message: str
    code: int = 2


class _Lease(Struct, frozen=True):
    seconds: int = msgspec.field(default=0, name="TTL")


class Header(Struct, frozen=True):
    revision: int = 0


class _Record(Struct, frozen=True):
    key: bytes
    value: bytes = b""
    lease: int = 0
    mod_revision: int = 0

    def below(self, prefix: str) -> KeyValue:
        key = self.key.decode("utf-8", "surrogateescape").removeprefix(prefix)
        return KeyValue(key, self.value, self.lease, self.mod_revision)


class WatchEvent(Struct, frozen=True):
    """A record that was put; of one that is gone the ``type`` says so."""

    kv: _Record
    type: str = "PUT"


class WatchAnswer(Struct, frozen=True):
    """A message of a watch."""

    header: Header
    created: bool = False
    canceled: bool = False
    cancel_reason: str = ""
    compact_revision: int = 0
    events: tuple[WatchEvent, ...] = ()

    def put(self, prefix: str) -> tuple[KeyValue, ...]:
        """The records that were put; none if others are gone."""
        if any(one.type != "PUT" for one in self.events):
            return ()
        return tuple(one.kv.below(prefix) for one in self.events)


class _Headed(Struct, frozen=True):
    header: Header


class _Range(Struct, frozen=True):
    kvs: tuple[_Record, ...] = ()
    count: int = 0


class _Response(Struct, frozen=True):
    response_range: _Range | None = None


class _Transacted(Struct, frozen=True):
    header: Header
    succeeded: bool = False
    responses: tuple[_Response, ...] = ()


class _Authenticated(Struct, frozen=True):
    token: str


class _StreamedLease(Struct, frozen=True):
    result: _Lease | None = None
    error: Complaint | None = None


class _StreamedWatch(Struct, frozen=True):
    result: WatchAnswer | None = None
    error: Complaint | None = None


def transaction_body(transaction: Transaction, prefix: str = "") -> bytes:
    """``prefix`` stands before every key."""
    otherwise = [_operation(one, prefix) for one in transaction.otherwise]
    return _json(
        compare=[_compare(one, prefix) for one in transaction.when],
        success=[_operation(one, prefix) for one in transaction.then],
        **({"failure": otherwise} if otherwise else {}),
    )


def grant_body(lease: int, seconds: int) -> bytes:
    return _json(ID=str(lease), TTL=str(seconds))


def lease_body(lease: int) -> bytes:
    return _json(ID=str(lease))


def login_body(user: str, password: str) -> bytes:
    return _json(name=user, password=password)


def watch_body(ranges: tuple[Range, ...], revision: int, prefix: str = "") -> bytes:
    """One request for each range, from ``revision`` on; the gateway takes several in one body."""
    requests = [{**_range(one, prefix), "start_revision": str(revision)} for one in ranges]
    return b"\n".join(_json(create_request=request) for request in requests)


def transaction_answer(
    data: bytes, transaction: Transaction, prefix: str = ""
) -> TransactionAnswer:
    """Raises Garbled, also if there is not one response for each operation."""
    found = _decoded(data, _Transacted)
    if not transaction.when and not found.succeeded:
        raise Garbled("a transaction without compares did not succeed")
    done = transaction.then if found.succeeded else transaction.otherwise
    if len(found.responses) != len(done):
        raise Garbled(
            f"expected {len(done)} responses of a transaction, found {len(found.responses)}"
        )
    pairs = zip(done, found.responses, strict=True)
    got = tuple(_got(response, prefix) for one, response in pairs if isinstance(one, Get))
    return TransactionAnswer(found.succeeded, found.header.revision, got)


def token_answer(data: bytes) -> str:
    return _decoded(data, _Authenticated).token


def seconds_left(data: bytes) -> int | Complaint:
    """Of a lease, from the first message of a stream; 0 if there is no such lease."""
    found = _decoded(data.partition(b"\n")[0], _StreamedLease)
    answer = _result(found.result, found.error)
    return answer.seconds if isinstance(answer, _Lease) else answer


def watch_answer(line: bytes) -> WatchAnswer | Complaint:
    found = _decoded(line, _StreamedWatch)
    return _result(found.result, found.error)


def complaint(data: bytes) -> Complaint | None:
    """The error in an answer whose status is not 200; None if it is not etcd's."""
    try:
        return _decoded(data, Complaint)
    except Garbled:
        return None


def check_header(data: bytes) -> None:
    """Raises Garbled if this is not an answer that has nothing else to say."""
    _decoded(data, _Headed)


def _result(result: T | None, error: Complaint | None) -> T | Complaint:
    if result is not None:
        return result
    if error is not None:
        return error
    raise Garbled("a message of a stream has neither a result nor an error")


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Garbled(str(error)) from error


def _json(**fields: object) -> bytes:
    return msgspec.json.encode(fields)


def _key(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _compare(one: Compare, prefix: str) -> dict[str, object]:
    match one:
        case Equals(key=key, value=value):
            compared: dict[str, object] = {"target": "VALUE", "result": "EQUAL", "value": value}
        case Absent(key=key):  # one with a value fails if there is no such key, whatever it says
            compared = {"target": "VERSION", "result": "EQUAL", "version": "0"}
        case ModifiedAt(key=key, revision=revision):
            compared = {"target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}
        case NotSince(range=where, revision=revision):
            compared = {"target": "MOD", "result": "LESS", "mod_revision": str(revision)}
            return {**_range(where, prefix), **compared}
    return {"key": _key(prefix + key), **compared}


def _operation(one: Operation, prefix: str) -> dict[str, object]:
    if isinstance(one, Get):
        since = {"min_mod_revision": str(one.since)} if one.since else {}
        return {
            "request_range": {**_range(one.range, prefix), "count_only": one.only_count, **since}
        }
    if isinstance(one, Put):
        put = {"key": _key(prefix + one.key), "value": one.value, "lease": str(one.lease)}
        return {"request_put": put}
    return {"request_delete_range": {"key": _key(prefix + one.key)}}


def _range(one: Range, prefix: str) -> dict[str, object]:
    name = _key(prefix + one.name)
    if isinstance(one, Key):
        return {"key": name}
    return {"key": name or b"\0", "range_end": _end(name)}


def _end(prefix: bytes) -> bytes:
    """The first key behind those with this prefix; a NUL is etcd's word for "no end"."""
    begin = prefix.rstrip(b"\xff")
    return begin[:-1] + bytes([begin[-1] + 1]) if begin else b"\0"


def _got(response: _Response, prefix: str) -> Got:
    if response.response_range is None:
        raise Garbled("expected the response to a range, found another")
    found = response.response_range
    return Got(tuple(record.below(prefix) for record in found.kvs), found.count)
