"""What counts as news in a reset file.

Each doubtful case is decided by what would be worse: a restart that is missed is also told by the
rank table, or by ranks that fail; a wrong one ends a healthy job.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_supervisor.cluster.reset_file import (
    MAX_BYTES,
    ListedRank,
    ResetFile,
    parse_reset_file,
)

FILES = Path(__file__).parents[1] / "data" / "reset_files"
QUIET: dict[str, Any] = {
    "RankList": [],
    "UpdateTime": 1733000000,
    "RetryTime": 3,
    "FaultFlushing": False,
    "GracefulExit": 0,
    "RestartFaultProcess": False,
}
ENTRY = {"RankId": 1, "LogicId": 1, "Status": "unrecovered", "Policy": "reset"}


def read(**changes: object) -> ResetFile | None:
    return parse_reset_file(json.dumps(QUIET | changes).encode())


def listed(**changes: object) -> tuple[ListedRank, ...]:
    """The ranks that are read from a list of one entry."""
    news = read(RankList=[ENTRY | changes])
    assert news is not None
    return news.ranks


@pytest.mark.parametrize(
    ("release", "news"),
    [
        (
            "v5",
            ResetFile((ListedRank(1, "unrecovered", ("8C204E00",)), ListedRank(2, "unrecovered"))),
        ),
        (
            "v6.0.RC3",
            ResetFile(
                (
                    ListedRank(1, "recovered", ("8C03A000",)),
                    ListedRank(9, "unrecovered", ("80E18401", "8C204E00")),
                ),
                retry_time=2,
            ),
        ),
        ("v6.0.0", ResetFile(graceful_exit=True)),
        ("v7.2", ResetFile((ListedRank(12, "fault"),), retry_time=3, is_flushing=True)),
    ],
)
def test_each_release_is_read(release: str, news: ResetFile) -> None:
    assert parse_reset_file((FILES / f"{release}.json").read_bytes()) == news


def test_a_file_that_is_just_being_initialized_is_no_news() -> None:
    assert parse_reset_file((FILES / "initializing.json").read_bytes()) is None


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("v*.json")))
def test_no_beginning_of_a_file_is_news(name: str) -> None:
    whole = (FILES / name).read_bytes().rstrip()
    assert parse_reset_file(whole) is not None
    for length in range(len(whole)):
        assert parse_reset_file(whole[:length]) is None


def test_a_shorter_text_over_the_rest_of_a_longer_one_is_no_news() -> None:
    long, short = (FILES / "v6.0.RC3.json").read_bytes(), (FILES / "v6.0.0.json").read_bytes()
    assert parse_reset_file(short.rstrip() + long[len(short.rstrip()) :]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"  \n",
        b"\0" * 64,
        b"\xff\xfe{\x00}\x00",
        b'{"RankList":[],"RetryTime":4,"x":"\xe9"}',
        json.dumps(QUIET).encode("utf-16"),
        b"null",
        b"1",
        b'"RankList"',
        b"[]",
        b'[{"RankList":[],"RetryTime":4}]',
        b"{}",
        b'{"status":"completed"}',
        b'{"UpdateTime":1733000000}',
        b'{"RetryTime":NaN}',
        b'{"RetryTime":1e999}',
        b'{"RankList":[],"RetryTime":4,}',
    ],
)
def test_what_is_no_reset_file_is_no_news(data: bytes) -> None:
    assert parse_reset_file(data) is None


def test_python_literals_are_no_news_because_all_writers_write_json() -> None:
    assert parse_reset_file(str(QUIET | {"RetryTime": 4}).encode()) is None


def test_a_bom_is_skipped() -> None:
    assert parse_reset_file(BOM_UTF8 + json.dumps(QUIET).encode()) == ResetFile(retry_time=3)


def test_unknown_keys_and_a_status_of_the_whole_are_ignored() -> None:
    assert read(status="initializing", Later={"RetryTime": 9}) == ResetFile(retry_time=3)


@pytest.mark.parametrize(
    "data",
    [
        b'{"RankList":[],"RetryTime":3,"RetryTime":4}',
        b'{"RankList":[],"RetryTime":3,"UpdateTime":1,"UpdateTime":2}',
        b'{"RankList":[{"RankId":1,"RankId":2,"Status":"fault"}],"RetryTime":3}',
        b'{"RankList":[],"\\u0052ankList":null,"RetryTime":3}',
    ],
)
def test_doubled_keys_are_no_news_because_either_could_be_meant(data: bytes) -> None:
    assert parse_reset_file(data) is None


def test_a_huge_file_is_no_news() -> None:
    whole = json.dumps(QUIET).encode()
    assert parse_reset_file(whole.ljust(MAX_BYTES)) == ResetFile(retry_time=3)
    assert parse_reset_file(whole.ljust(MAX_BYTES + 1)) is None
    assert parse_reset_file(b"{" + b'"a":[' * (MAX_BYTES // 8)) is None


@pytest.mark.parametrize("depth", [200, 900, 1_030, 100_000])
@pytest.mark.parametrize("key", ["RankList", "RetryTime", "FaultFlushing", "GracefulExit", "Later"])
def test_deep_nesting_does_no_harm(key: str, depth: int) -> None:
    parts = {"RankList": "[]", "RetryTime": "3"} | {key: "[" * depth + "]" * depth}
    data = ",".join(f'"{name}":{value}' for name, value in parts.items())
    assert parse_reset_file(f"{{{data}}}".encode()) in (None, ResetFile(retry_time=3))


# What counts for the whole job: its zero must not be taken for a change.


@pytest.mark.parametrize("value", [0, 7, "7", 7.0, 2**31, 10**18 - 1])
def test_retry_time_is_an_integer_however_it_is_written(value: Any) -> None:
    assert read(RetryTime=value) == ResetFile(retry_time=int(value))


def test_a_release_without_retry_time_has_none_of_it() -> None:
    data = json.dumps({key: QUIET[key] for key in ("RankList", "UpdateTime")}).encode()
    assert parse_reset_file(data) == ResetFile(retry_time=0)


@pytest.mark.parametrize(
    "value",
    [None, -1, "-1", 10**18, 10**30, 1e30, 2.5, True, "", "three", "3 ", "٣", "9" * 5000, [3], {}],
)
def test_a_retry_time_that_is_no_count_is_no_news_because_0_would_restart_a_healthy_job(
    value: object,
) -> None:
    assert read(RetryTime=value) is None


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        *((value, True) for value in (True, 1, 1.0, "1", "true", "True", " TRUE ")),
        *((value, False) for value in (False, 0, 0.0, "0", "false", "False", None)),
    ],
)
@pytest.mark.parametrize("key", ["FaultFlushing", "GracefulExit"])
def test_booleans_may_be_numbers_or_words(key: str, value: object, meaning: bool) -> None:
    news = read(**{key: value})
    assert news is not None
    assert (news.is_flushing if key == "FaultFlushing" else news.graceful_exit) is meaning
    assert (news.graceful_exit if key == "FaultFlushing" else news.is_flushing) is False


@pytest.mark.parametrize("value", ["", "yes", "on", [], [True], {}, 0.5, "2"])
@pytest.mark.parametrize("key", ["FaultFlushing", "GracefulExit"])
def test_a_boolean_that_is_none_is_no_news_so_that_what_was_asked_before_still_holds(
    key: str, value: object
) -> None:
    assert read(**{key: value}) is None


def test_only_1_asks_for_a_graceful_exit_because_a_wrong_end_is_worse_than_a_hard_one() -> None:
    assert read(GracefulExit=2) == read(GracefulExit=-1) == ResetFile(retry_time=3)
    assert read(FaultFlushing=2) is None


def test_a_list_of_ranks_may_be_null_as_go_writes_an_empty_one() -> None:
    assert read(RankList=None) == ResetFile(retry_time=3)


@pytest.mark.parametrize("value", [{}, {"0": ENTRY}, "none", 0, True])
def test_ranks_that_are_no_list_are_no_news(value: object) -> None:
    assert read(RankList=value) is None


# One entry of the list.


@pytest.mark.parametrize("value", [5, "5", 5.0])
def test_a_rank_is_an_integer_however_it_is_written(value: object) -> None:
    assert listed(RankId=value) == (ListedRank(5, "unrecovered"),)


@pytest.mark.parametrize(
    ("written", "status"),
    [
        ("fault", "fault"),
        ("Unrecovered", "unrecovered"),
        (" RECOVERED\n", "recovered"),
        ("failed", "failed"),
        ("hot-switching", "hot-switching"),
    ],
)
def test_a_status_counts_in_any_case_and_one_of_a_later_release_is_kept(
    written: str, status: str
) -> None:
    assert listed(Status=written) == (ListedRank(1, status),)


BAD_ENTRIES: tuple[object, ...] = (
    None,
    1,
    "unrecovered",
    [],
    {},
    {"RankId": 1},
    {"Status": "failed"},
    *(ENTRY | {"RankId": rank} for rank in (None, -1, 1.5, True, "one", 10**18, [1])),
    *(ENTRY | {"Status": status} for status in (None, "", 1, True, "a b", "x" * 41, "\x1b[2J")),
)


@pytest.mark.parametrize("bad", BAD_ENTRIES)
def test_a_bad_entry_does_not_hide_the_others(bad: object) -> None:
    others = [ENTRY | {"RankId": 6}, bad, ENTRY | {"RankId": 7, "Status": "recovered"}]
    news = read(RankList=others, GracefulExit=1)
    expected = (ListedRank(6, "unrecovered"), ListedRank(7, "recovered"))
    assert news == ResetFile(expected, retry_time=3, graceful_exit=True)


def test_a_rank_that_is_listed_twice_is_read_twice_so_that_no_status_is_lost() -> None:
    news = read(RankList=[ENTRY | {"Status": "recovered"}, ENTRY])
    assert news is not None
    assert [rank.status for rank in news.ranks] == ["recovered", "unrecovered"]


@pytest.mark.parametrize(
    ("written", "codes"),
    [
        ({"ErrorCode": [], "ErrorCodeHex": "8C03A000"}, ("8C03A000",)),
        ({"ErrorCode": None, "ErrorCodeHex": "0x8c204e00, 80E18401"}, ("8C204E00", "80E18401")),
        ({"ErrorCode": [2350927360, 1]}, ("8C204E00", "1")),
        ({"ErrorCode": [1], "ErrorCodeHex": ""}, ("1",)),
        ({"ErrorCode": [-1, True, None, "8C03A000", 1.5]}, ()),
        ({"ErrorCode": 7, "ErrorCodeHex": 7}, ()),
        ({"ErrorCodeHex": "\x1b[2J,none," + "F" * 17}, ()),
        ({"ErrorCodeHex": ",".join(["AB"] * 10**5)}, ("AB",) * 4),
        ({}, ()),
    ],
)
def test_fault_codes_are_hexadecimal_and_few(
    written: dict[str, object], codes: tuple[str, ...]
) -> None:
    assert listed(**written) == (ListedRank(1, "unrecovered", codes),)


# Whatever the bytes.

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["RankId", "Status", "ErrorCode", "ErrorCodeHex", "RetryTime"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


def check(data: bytes) -> None:
    news = parse_reset_file(data)
    if news is not None:
        assert news.retry_time >= 0
        assert all(rank.rank >= 0 and rank.status.isprintable() for rank in news.ranks)


@settings(max_examples=200)
@given(st.binary(max_size=100))
def test_no_bytes_are_a_surprise(data: bytes) -> None:
    check(data)
    check(b'{"RankList":' + data + b"}")


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(sorted(QUIET)), values), st.lists(values, max_size=3))
def test_no_json_is_a_surprise(changes: dict[str, Any], entries: list[Any]) -> None:
    check(json.dumps(QUIET | changes).encode())
    check(json.dumps(QUIET | {"RankList": entries}).encode())
