"""The JSON of etcd's gateway: ranges, the errors of all its versions, and rubbish."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.etcd import wire
from ascend_supervisor.etcd.failures import Meaning, meaning_of, refusal
from ascend_supervisor.etcd.values import Get, Prefix, Transaction


def span_of(prefix: str) -> tuple[bytes, bytes]:
    body = json.loads(wire.transaction_body(Transaction(then=(Get(Prefix(prefix)),))))
    asked = body["success"][0]["request_range"]
    return b64decode(asked["key"]), b64decode(asked["range_end"])


@given(st.binary(max_size=3), st.binary(min_size=1, max_size=4))
def test_a_prefix_is_the_range_of_exactly_the_keys_that_begin_with_it(prefix, key):
    begin, end = span_of(prefix.decode("utf-8", "surrogateescape"))
    is_inside = begin <= key and (end == b"\0" or key < end)
    assert is_inside == (key.startswith(prefix) and key >= b"\0")


@pytest.mark.parametrize(
    ("code", "message", "meaning"),
    [
        (16, "etcdserver: invalid auth token", Meaning.TOKEN),
        (3, "etcdserver: revision of auth store is old", Meaning.TOKEN),
        (16, "something new", Meaning.TOKEN),
        (5, "etcdserver: requested lease not found", Meaning.NO_LEASE),
        (9, "etcdserver: lease already exists", Meaning.LEASE_EXISTS),
        (9, "etcdserver: authentication is not enabled", Meaning.NO_USERS),
        (14, "etcdserver: request timed out", Meaning.ELSEWHERE),
        (14, "etcdserver: no leader", Meaning.ELSEWHERE),
        (8, "etcdserver: mvcc: database space exceeded", Meaning.FULL),
        (3, "etcdserver: request is too large", Meaning.REFUSED),
        (7, "etcdserver: permission denied", Meaning.REFUSED),
    ],
)
def test_the_grpc_code_and_the_words_decide_what_an_error_means(code, message, meaning):
    for more in (f'"error": {json.dumps(message)}', '"details": []'):  # the gateways of 3.4 and 3.6
        data = f'{{"code": {code}, "message": {json.dumps(message)}, {more}}}'.encode()
        complaint = wire.complaint(data)
        assert complaint is not None
        assert meaning_of(complaint) is meaning


def test_a_refusal_quotes_what_could_break_a_line():
    told = refusal(wire.Complaint("etcdserver: b\x1b[1mad\nline", 3), None)
    assert told == "etcd refuses the request: b\\x1b[1mad\\nline"
    assert "'b\\x1b'" in refusal(wire.Complaint("permission denied", 7), "b\x1b")


@given(st.binary(max_size=200))
def test_rubbish_is_not_understood(data):
    for read in (wire.token_answer, wire.seconds_left, wire.watch_answer, wire.check_header):
        with pytest.raises(wire.Garbled):
            read(data)
    assert wire.complaint(data) is None


def test_json_that_is_nested_too_deep_is_not_understood():
    with pytest.raises(wire.Garbled):
        wire.check_header(b'{"header":{},"x":' + b"[" * 100_000)
