"""What is said of bytes that are not JSON: the line, the column, and what is wrong there."""

from __future__ import annotations

import pytest

from ascend_supervisor.files.untrusted_json import NotJson, parse_json


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            b'{\n  "a": 1, // of pod 0\n  "b": 2}',
            "line 2, column 11: a comment, which JSON does not allow",
        ),
        (b'{"a": 1\n/* b */}', "line 2, column 1: a comment, which JSON does not allow"),
        (b'# table\n{"a": 1}', "line 1, column 1: a comment, which JSON does not allow"),
        (
            b'{"a": [\n1,\n2,\n]}',
            "line 3, column 2: a comma after the last element, which JSON does not allow",
        ),
        (
            '{"é": 1 , }'.encode(),
            "line 1, column 9: a comma after the last element, which JSON does not allow",
        ),
        (b"{'a': 1}", "line 1, column 2: a single quote, but JSON strings have double quotes"),
        (b'{"a": 1,\n "b": ', "line 2, column 7: the document ends too early"),
        (b'{"a": "\xff"}', "line 1, column 8: byte 0xff is not valid UTF-8"),
        ('\n{"é": "'.encode() + b"\xc3", "line 2, column 8: byte 0xc3 is not valid UTF-8"),
        (b"\xef\xbb\xbf{,}", "line 1, column 2: "),
    ],
)
def test_the_place_and_the_mistake_are_named(data: bytes, sentence: str) -> None:
    with pytest.raises(NotJson) as refused:
        parse_json(data)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("data", "place", "found"),
    [
        (b'{"a": True}', "line 1, column 7: ", "'True'"),
        (b'{"a": NaN}', "line 1, column 7: ", "'NaN'"),
        (b'{"a": \x1b[2J}', "line 1, column 7: ", r"'\x1b'"),
        (b'{"a": 1} x', "line 1, column 10: ", "'x'"),
    ],
)
def test_whatever_else_is_there_is_quoted(data: bytes, place: str, found: str) -> None:
    with pytest.raises(NotJson) as refused:
        parse_json(data)
    assert str(refused.value).startswith(place)
    assert str(refused.value).endswith(f", at {found}")


def test_a_document_may_begin_with_a_bom() -> None:
    assert parse_json(b'\xef\xbb\xbf{"a": 1}').value == {"a": 1}
