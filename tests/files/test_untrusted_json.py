"""The cursor: what it reads, what it tolerates, and the sentences with which it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.files.untrusted_json import (
    Cursor,
    Misfit,
    NotJson,
    Once,
    parse_json,
    refuse_doubles,
    shown,
)


def refusal(read: Any) -> str:
    with pytest.raises(Misfit) as caught:
        read()
    return str(caught.value)


def test_the_path_names_keys_and_positions() -> None:
    top = parse_json(b'{"server_list": [{"device": [0, 1, 2, {}]}]}')
    device = top.elements("server_list")[0].elements("device")[3]
    assert device.path == "$.server_list[0].device[3]"
    assert top.path == "$"


def test_a_missing_key_is_named_with_its_place() -> None:
    top = parse_json(b'{"server_list": [{}]}')
    server = top.elements("server_list")[0]
    assert refusal(lambda: server.child("device")) == "$.server_list[0]: missing 'device'"
    assert refusal(lambda: server.text("device")) == "$.server_list[0]: missing 'device'"
    assert refusal(lambda: server.integer("device")) == "$.server_list[0]: missing 'device'"
    assert refusal(lambda: server.elements("device")) == "$.server_list[0]: missing 'device'"


def test_what_is_no_list_has_no_elements() -> None:
    assert (
        refusal(lambda: Cursor({"a": {}}).elements("a")) == "$.a: expected a list, found an object"
    )


def test_what_is_no_object_has_no_children() -> None:
    message = "$: expected an object, found a list"
    assert refusal(lambda: Cursor([]).get("a")) == message
    assert refusal(lambda: Cursor([]).child("a")) == message
    assert refusal(lambda: Cursor([]).optional_text("a")) == message


def test_null_is_a_value_where_one_is_required_and_an_absence_where_not() -> None:
    top = Cursor({"a": None})
    assert refusal(lambda: top.text("a")) == "$.a: expected a string, found null"
    assert refusal(lambda: top.integer("a")) == "$.a: expected an integer, found null"
    assert top.child("a").value is None
    assert top.optional_text("a") is None
    assert top.optional_text("b") is None


@pytest.mark.parametrize(
    ("value", "integer"),
    [(8, 8), ("8", 8), ("007", 7), ("-1", -1), (-1, -1), ("9" * 18, 10**18 - 1)],
)
def test_an_integer_may_be_written_as_a_string(value: Any, integer: int) -> None:
    assert Cursor({"n": value}).integer("n") == integer


@pytest.mark.parametrize(
    "value", [True, False, 8.0, 1e30, "", "eight", "8.0", " 8", "+8", "0x8", "٨", "9" * 19, 2**63]
)
def test_what_only_looks_like_an_integer_is_refused(value: Any) -> None:
    message = refusal(lambda: Cursor({"n": value}).integer("n"))
    assert message == f"$.n: expected an integer, found {shown(value)}"


@pytest.mark.parametrize("value", [-1, 16, "16", "-1"])
def test_an_integer_out_of_its_range_is_refused(value: Any) -> None:
    message = refusal(lambda: Cursor({"n": value}).integer("n", 0, 15))
    assert message == f"$.n: expected an integer from 0 to 15, found {shown(value)}"


def test_a_range_may_be_open_above() -> None:
    message = refusal(lambda: Cursor({"n": -1}).integer("n", least=0))
    assert message == "$.n: expected an integer, at least 0, found -1"


def test_text_may_be_written_as_an_integer() -> None:
    assert Cursor({"t": "x"}).text("t") == "x"
    assert Cursor({"t": 8}).text("t") == "8"
    assert Cursor({"t": 8}).optional_text("t") == "8"


@pytest.mark.parametrize("value", [True, 8.5, {}, ["x"]])
def test_what_is_neither_text_nor_integer_is_refused_as_text(value: Any) -> None:
    message = refusal(lambda: Cursor({"t": value}).text("t"))
    assert message == f"$.t: expected a string, found {shown(value)}"
    assert refusal(lambda: Cursor({"t": value}).optional_text("t")) == message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1}, "an object"),
        ([1, 2], "a list"),
        (None, "null"),
        (True, "true"),
        (8.5, "8.5"),
        ("eight", "'eight'"),
        ("a\nb\x1b", r"'a\nb\x1b'"),
        ("x" * 40, f"'{'x' * 40}'"),
        ("x" * 41, f"'{'x' * 40}'..."),
    ],
)
def test_a_found_value_is_shown_on_one_short_line(value: Any, text: str) -> None:
    assert shown(value) == text


def test_a_key_that_comes_again_is_refused_with_both_places() -> None:
    first, second = Cursor({"list": ["a", "a"]}).elements("list")
    names: Once[str] = Once("name")
    names.take("a", first)
    assert refusal(lambda: names.take("a", second)) == (
        "$.list[1]: name 'a' is taken already by $.list[0]"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a": 1',
        b'{"a": 1}x',
        b"\xff\xfe",
        b"\x00\x00",
        b"NaN",
        b'"\\ud800"',
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
)
def test_what_is_not_json_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(NotJson, match="line 1, column"):
        parse_json(data)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b'{"a": 1, "b": 2, "a": 1}', "$: expected each key once, found 'a' twice or more"),
        (
            b'{"x": [0, {"id": 1, "id": 2, "id": 3}], "y": {"id": 1}}',
            "$.x[1]: expected each key once, found 'id' twice or more",
        ),
        (b'{"a": {"\\u0062": 1, "b": 1}}', "$.a: expected each key once, found 'b' twice or more"),
        (b'{"a" :":", "a"\n: 1}', "$: expected each key once, found 'a' twice or more"),
        (b'{"a":1,"a":"\\u003a"}', "$: expected each key once, found 'a' twice or more"),
        (b'{"a": {"b": 1, "b": 1}, "a": 1}', "$: expected each key once, found 'a' twice or more"),
        (b'\xef\xbb\xbf{"a": 1, "a": 1}', "$: expected each key once, found 'a' twice or more"),
    ],
)
def test_a_key_that_stands_twice_is_named_with_its_place(data, sentence):
    assert refusal(lambda: refuse_doubles(data, parse_json(data))) == sentence


def test_nesting_deeper_than_the_interpreter_can_follow_is_refused():
    """How deep that is depends on its version; parse_json follows 1024 levels with all of them."""
    deep = b"[" * 100_000 + b"]" * 100_000
    unparsed = Cursor(None)
    assert refusal(lambda: refuse_doubles(rb'["\n", %b]' % deep, unparsed)) == "$: nested too deep"
    for nested in (b"[" * 500 + b"]" * 500, b'{"a":' * 500 + b"1" + b"}" * 500):
        refuse_doubles(nested, parse_json(nested))


@pytest.mark.parametrize(
    "data",
    [
        b'[{"a": {"a": 1}}, {"a": 1e40, "b": 1%s}]' % (b"0" * 300),
        b'{"a": "::1", ":b:": [":", {"c" : null}]}',
        rb'{"\u0061": "\"a\":", "b": 1}',
        b'\xef\xbb\xbf{"a": 1}',
    ],
)
def test_keys_of_different_objects_and_colons_in_text_are_no_doubles(data):
    refuse_doubles(data, parse_json(data))


KEYS = st.sampled_from(["a", "b", r"\u0061", ":", r"\\", r"\""])


def as_list(values: list[str]) -> str:
    return f"[{', '.join(values)}]"


def as_object(pairs: list[tuple[str, str]]) -> str:
    listed = ", ".join(f'"{key}" :{value}' for key, value in pairs)
    return f"{{{listed}}}"


documents = st.recursive(
    st.sampled_from(["1", "null", '":"', '"a"', r'"\""', r'"\u003a"', '"é"']),
    lambda inner: (
        st.lists(inner, max_size=3).map(as_list)
        | st.lists(st.tuples(KEYS, inner), max_size=3).map(as_object)
    ),
)


@given(documents)
def test_doubles_are_refused_wherever_they_are_and_nothing_else_is(document: str) -> None:
    doubled = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        doubled.append(len({name for name, _ in pairs}) < len(pairs))

    json.loads(document, object_pairs_hook=look)
    data = document.encode()
    if any(doubled):
        assert "expected each key once" in refusal(lambda: refuse_doubles(data, parse_json(data)))
    else:
        refuse_doubles(data, parse_json(data))


def test_more_values_than_any_table_has_are_not_even_parsed():
    assert "$: expected at most 4000000 values, found" in refusal(
        lambda: parse_json(b"[" + b"{}," * 2_000_001 + b"{}]")
    )
