"""What is a request, what is none, and what both sides make of the other's line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.control.protocol import (
    MOST_ANSWER_BYTES,
    Accepted,
    AnsweredNo,
    AskDump,
    AskReady,
    AskRestart,
    AskStatus,
    AskStop,
    Declined,
    Dumped,
    NotUnderstood,
    Ping,
    Pong,
    Readiness,
    answer_line,
    answer_of,
    request_line,
    request_of,
)

REQUESTS = (
    (b'{"version":1,"request":"ping"}', Ping()),
    (b'{"version":1,"request":"status"}', AskStatus()),
    (b'{"version":1,"request":"ready"}', AskReady()),
    (b'{"version":1,"request":"restart"}', AskRestart()),
    (b'{"version":1,"request":"dump"}', AskDump()),
    (b'{"version":1,"request":"stop"}', AskStop()),
    (b'{"version":1,"request":"stop","grace":2.5}', AskStop(2.5)),
    (b'{"version":1,"request":"stop","grace":0}', AskStop(0.0)),
)


@pytest.mark.parametrize(("line", "request_"), REQUESTS)
def test_each_request_is_one_line_and_back(line, request_):
    assert request_of(line) == request_
    assert request_of(request_line(request_)) == request_
    assert request_line(request_).endswith(b"\n")


def test_order_space_and_null_do_not_matter():
    assert request_of(b' {"grace": null,\t"request": "stop", "version": 1 }\r') == AskStop()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"", "expected one line with a JSON object: line 1, column 1: the document ends too"),
        (b"ping", "expected one line with a JSON object: line 1, column 1: "),
        (b'{"version":1,"request":"pi', "expected one line with a JSON object: line 1"),
        (b"\xff\xfe", "byte 0xff is not valid UTF-8"),
        (b"[" * 4000, "expected one line with a JSON object"),
        (b'{"version":1,"request":"ping","request":"stop"}', "found 'request' twice or more"),
        (b'{"version":1,"request":"stop","grace":9,"grace":0}', "found 'grace' twice or more"),
        (b'{"version":1,"request":"stop","grace":9,"gr\\u0061ce":0}', "'grace' twice or more"),
        (b"[]", "expected one line with a JSON object, found []"),
        (b"7", "expected one line with a JSON object, found 7"),
        (b"null", "expected one line with a JSON object, found nothing"),
        (b'{"request":"ping"}', 'expected "version": 1, found nothing'),
        (b'{"version":2,"request":"ping"}', 'expected "version": 1, found 2'),
        (b'{"version":"1","request":"ping"}', "expected \"version\": 1, found '1'"),
        (b'{"version":true,"request":"ping"}', 'expected "version": 1, found true'),
        (b'{"version":1.0,"request":"ping"}', 'expected "version": 1, found 1.0'),
        (b'{"version":1}', 'expected as "request" one of ping, status, ready, stop, restart, dump'),
        (b'{"version":1,"request":"pong"}', "found 'pong'"),
        (b'{"version":1,"request":["ping"]}', "found ['ping']"),
        (b'{"version":1,"request":"\\u001b[2J"}', r"found '\x1b[2J'"),
        (b'{"version":1,"request":"stop","grace":-1}', "the request stop: Expected `float` >= 0"),
        (
            b'{"version":1,"request":"stop","grace":"5"}',
            "the request stop: Expected `float | null`",
        ),
        (
            b'{"version":1,"request":"stop","grace":true}',
            "the request stop: Expected `float | null`",
        ),
        (b'{"version":1,"request":"stop","grace":1e999}', "expected one line with a JSON object"),
        (b'{"version":1,"request":"stop","garce":5}', "the request stop: Object contains unknown"),
        (b'{"version":1,"request":"ping","grace":5}', "the request ping: Object contains unknown"),
    ],
)
def test_what_is_no_request_is_refused_in_a_sentence(line, sentence):
    with pytest.raises(NotUnderstood) as refused:
        request_of(line)
    assert sentence in str(refused.value)
    assert str(refused.value).isprintable()


def refusal(line: bytes) -> str:
    """Empty for a request."""
    try:
        request_of(line)
    except NotUnderstood as refused:
        return str(refused)
    return ""


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_a_request_or_a_sentence(line):
    assert refusal(line).isprintable()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values),
    max_leaves=5,
)


@given(
    st.dictionaries(
        st.sampled_from(["version", "request", "grace"]) | st.text(max_size=5),
        st.sampled_from([1, "ping", "stop", 0.5]) | _VALUES,
    )
)
def test_any_object_is_a_request_or_a_sentence(document):
    line = json.dumps(document).encode()
    sentence = refusal(line)
    assert sentence.isprintable()
    if not sentence:
        request = request_of(line)
        assert request_of(request_line(request)) == request


ANSWERS = (
    (Pong(7, 123), b'{"version":1,"ok":true,"pid":7,"start_time":123}\n'),
    (Pong(7, None), b'{"version":1,"ok":true,"pid":7,"start_time":null}\n'),
    (
        Readiness(ready=False, reason="rank 3 has ended"),
        b'{"version":1,"ok":true,"ready":false,"reason":"rank 3 has ended"}\n',
    ),
    (Accepted("stopping"), b'{"version":1,"ok":true,"effect":"stopping"}\n'),
    (
        Dumped("who waits", "/log", ("a.txt",)),
        b'{"version":1,"ok":true,"summary":"who waits","directory":"/log","files":["a.txt"]}\n',
    ),
    (Declined("no"), b'{"version":1,"ok":false,"error":"no"}\n'),
)


@pytest.mark.parametrize(("answer", "line"), ANSWERS)
def test_an_answer_is_one_line(answer, line):
    assert answer_line(answer) == line


@pytest.mark.parametrize("text", ["a\nb", "\0", "\udce9", "\x1b[2J\x9b", "\u2028"])
def test_an_answer_is_one_line_whatever_text_is_in_it(text):
    line = answer_line(Accepted(text))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line)["ok"] is True


def test_an_answer_that_would_be_too_long_is_declined():
    declined = json.loads(answer_line(Accepted("x" * MOST_ANSWER_BYTES)))
    assert declined["error"] == "the answer would be longer than 1048576 bytes"
    longest = answer_line(Accepted("x" * (MOST_ANSWER_BYTES - 36)))
    assert len(longest) == MOST_ANSWER_BYTES


def test_a_client_reads_an_answer():
    assert answer_of(b'{"version":1,"ok":true,"pid":7,"new":1}\n').integer("pid") == 7


def test_a_client_reads_why_it_was_declined():
    with pytest.raises(AnsweredNo, match=r"^no generation runs$"):
        answer_of(answer_line(Declined("no generation runs")))
    with pytest.raises(AnsweredNo, match=r"^'a\\x1b\[2Jb'$"):
        answer_of(answer_line(Declined("a\x1b[2Jb")))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"", "expected one line with a JSON object"),
        (b'{"version":1,"ok":tr', "expected one line with a JSON object"),
        (b"[1]", "expected one line with a JSON object"),
        (b'{"version":2,"ok":true}', "the supervisor answers in version 2, this program reads"),
        (b'{"ok":true}', "the supervisor answers in version nothing"),
        (b'{"version":1,"ok":false}', "$: missing 'error'"),
        (b'{"version":1}', "$: missing 'error'"),
    ],
)
def test_what_is_no_answer_is_refused_in_a_sentence(line, sentence):
    with pytest.raises(NotUnderstood) as refused:
        answer_of(line)
    assert sentence in str(refused.value)
