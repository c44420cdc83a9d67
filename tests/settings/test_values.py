"""What a value may look like, and the sentence for one that cannot be."""

from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor.settings.readers import ALL_RANKS, NO_RANKS, ListenAddress
from tests.job_settings import only_fault, settings


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("0", 0), ("2.5", 2.5), (".5", 0.5), ("250ms", 0.25), ("90s", 90), ("5m", 300)),
        *(("10min", 600), ("10 min", 600), ("1h", 3600)),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert settings("--grace", text).grace == pytest.approx(seconds)
    assert settings(toml=f"grace = '{text}'").grace == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"(\d+", "a regular expression, which this is not (missing ), unterminated subpattern"),
        (
            r"step (?P<stp>\d+)",
            "a regular expression with a group (?P<step>...) or (?P<checkpoint>",
        ),
    ],
)
def test_a_pattern_is_refused_with_what_is_wrong_and_as_it_was_written(pattern, expected) -> None:
    fault = only_fault("--progress-pattern", pattern)
    assert fault.startswith(f"--progress-pattern: expected {expected[:40]}")
    assert fault.endswith(f", found '{pattern}'")


@pytest.mark.parametrize("text", ["", "-1", "inf", "nan", "1d", "1_0", "5 m s", "٣", "9" * 400])
def test_what_is_no_duration_is_refused_with_the_forms_there_are(text: str) -> None:
    fault = only_fault(f"--grace={text}")
    assert fault.startswith(
        "--grace: expected seconds, or a number with its unit such as 250ms, 90s, 5m, 1h, found "
    )


def test_a_restart_period_of_nothing_would_be_no_limit_and_is_refused() -> None:
    assert "more than 0" in only_fault("--restart-period=0")


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("64KiB", 65536), ("64k", 65536), ("20 MiB", 20 << 20), ("1G", 1 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert settings("--log-max-size", text).log_max_size == size


@pytest.mark.parametrize("text", ["4095", "0", "1GB", "1.5GiB", "-1", "999999999TiB", "KiB"])
def test_a_size_is_at_least_a_page_and_has_a_unit_that_is_clear(text: str) -> None:
    fault = only_fault(f"--log-max-size={text}")
    assert "expected bytes, or a number with its unit such as 64KiB" in fault
    assert "at least 4096 bytes" in fault


@pytest.mark.parametrize("text", ["true", "True", "yes", "1"])
def test_flags_that_are_on(text: str) -> None:
    assert settings(env={"ASCEND_SUPERVISOR_CHECK": text}).check is True


@pytest.mark.parametrize("toml", ["check = false", "check = 'no'", "check = 0"])
def test_flags_that_are_off(toml: str) -> None:
    assert settings(toml=toml).check is False


def test_a_flag_that_is_neither_is_a_fault() -> None:
    assert only_fault("--check=maybe") == "--check: expected true or false, found 'maybe'"


@pytest.mark.parametrize(
    ("given", "devices"),
    [
        ({"env": {"ASCEND_SUPERVISOR_STANDALONE": "true"}}, 0),
        ({"env": {"ASCEND_SUPERVISOR_STANDALONE": "2"}}, 2),
        ({"toml": "standalone = true"}, 0),
        ({"toml": "standalone = 1"}, 1),
        ({"toml": "standalone = false"}, None),
    ],
)
def test_standalone_elsewhere_is_a_number_or_true(
    given: dict[str, Any], devices: int | None
) -> None:
    assert settings(**given).standalone == devices


@pytest.mark.parametrize("text", ["0", "", "-1", "yes", "x"])
def test_standalone_with_no_device_is_a_fault(text: str) -> None:
    assert "1 to 16 devices, or no number for those present" in only_fault(f"--standalone={text}")


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        ({"toml": "no_restart_on = [1, 2]"}, {1, 2}),
        ({"toml": "no_restart_on = '1, 2'"}, {1, 2}),
        ({"toml": "no_restart_on = 3"}, {3}),
        ({"toml": "no_restart_on = []"}, set()),
        ({"env": {"ASCEND_SUPERVISOR_NO_RESTART_ON": "0,255"}}, {0, 255}),
    ],
)
def test_exit_statuses(given: dict[str, Any], codes: set[int]) -> None:
    assert settings(**given).no_restart_on == codes


def test_an_empty_list_of_exit_statuses_holds_none() -> None:
    assert settings("--no-restart-on", "").no_restart_on == frozenset()


@pytest.mark.parametrize("text", ["256", "1,,2", "-1", "1-3", "a"])
def test_what_is_no_exit_status_is_a_fault(text: str) -> None:
    assert "expected exit statuses from 0 to 255" in only_fault(f"--no-restart-on={text}")


@pytest.mark.parametrize(
    ("text", "inside", "outside", "again"),
    [
        ("all", {0, 10**9}, set(), "all"),
        ("none", set(), {0, 1}, "none"),
        ("0,8-15", {0, 8, 15}, {1, 7, 16}, "0,8-15"),
        (" 3 , 5-5 ", {3, 5}, {4}, "3,5"),
        ("0-999999999", {0, 999_999_999}, {10**9}, "0-999999999"),
    ],
)
def test_lists_of_ranks(text: str, inside: set[int], outside: set[int], again: str) -> None:
    ranks = settings("--console-ranks", text).console_ranks
    assert all(rank in ranks for rank in inside)
    assert all(rank not in ranks for rank in outside)
    assert str(ranks) == again


@pytest.mark.parametrize("toml", ["[0, 2]", "['0', '2']", "'0,2'", "['0-0', 2]"])
def test_lists_of_ranks_in_a_file(toml: str) -> None:
    assert str(settings(toml=f"console_ranks = {toml}").console_ranks) == "0,2"


def test_the_words_for_ranks_are_values() -> None:
    assert settings("--console-ranks=none").console_ranks == NO_RANKS
    assert settings("--console-ranks=ALL").console_ranks == ALL_RANKS


@pytest.mark.parametrize("text", ["", ",", "8-", "9-8", "-1", "some", "0;1"])
def test_what_is_no_list_of_ranks_is_a_fault(text: str) -> None:
    assert "all, none, or ranks and ranges" in only_fault(f"--console-ranks={text}")


@pytest.mark.parametrize("toml", ["[]", "[[0]]", "[true]", "{}", "1.0", "true"])
def test_what_is_no_list_of_ranks_in_a_file_is_a_fault(toml: str) -> None:
    assert "all, none, or ranks and ranges" in only_fault(toml=f"console_ranks = {toml}")


@pytest.mark.parametrize(
    ("word", "fault"),
    [
        ("--console=xml", "--console: expected one of auto, json, text, raw, none, found 'xml'"),
        ("--log-level=loud", "--log-level: expected one of debug, info, warning, error"),
        ("--restarts=-1", "--restarts: expected a whole number, at least 0, found '-1'"),
        ("--restarts=1.5", "--restarts: expected a whole number, at least 0, found '1.5'"),
        ("--node-rank=first", "--node-rank: expected a whole number, at least 0, found 'first'"),
        (f"--restarts={'9' * 5000}", "found '999"),
        ("--rank-table=", "--rank-table: expected a path that is not empty, found ''"),
        ("--pod-name= ", "--pod-name: expected a text that is not empty, found ' '"),
        ("--pod-name=a\udcff", r"--pod-name: expected a text that is not empty, found 'a\udcff'"),
    ],
)
def test_a_value_that_cannot_be_is_a_fault_with_what_was_expected_and_found(
    word: str, fault: str
) -> None:
    assert fault in only_fault(word)


def test_a_fault_is_never_long() -> None:
    assert len(only_fault(f"--grace={'x' * 10_000}")) < 200
    assert len(only_fault(f"--{'x' * 10_000}")) < 200


def test_paths_and_names_are_taken_as_they_stand() -> None:
    read = settings("--log-dir", "~/a b", "--pod-name", "任务-0", "--server-id", "10.0.0.1")
    assert (read.log_dir, read.pod_name, read.server_id) == (Path("~/a b"), "任务-0", "10.0.0.1")


@pytest.mark.parametrize(
    ("text", "host", "port", "told"),
    [
        ("127.0.0.1:9400", "127.0.0.1", 9400, "127.0.0.1:9400"),
        ("[::1]:9400", "::1", 9400, "[::1]:9400"),
        ("[0:0::1]:80", "::1", 80, "[::1]:80"),
        (" :65535 ", "", 65535, ":65535"),
    ],
)
def test_addresses_to_listen_at(text: str, host: str, port: int, told: str) -> None:
    found = settings("--metrics-address", text).metrics_address
    assert found == ListenAddress(host, port)
    assert str(found) == told


@pytest.mark.parametrize(
    "text",
    [
        *("9400", ":", ":0", ":65536", "::1:9400", "localhost:9400", "[127.0.0.1]:9400"),
        *("[::1]", "[::1]9400", "[]:9400", "http://127.0.0.1:9400", "127.0.0.1:9400/metrics"),
    ],
)
def test_what_is_no_address_to_listen_at_is_refused(text: str) -> None:
    assert only_fault(f"--metrics-address={text}").startswith(
        "--metrics-address: expected an IP address and a port, such as 127.0.0.1:9400 or "
    )
