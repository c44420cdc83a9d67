"""Which names command line, environment and file may hold, and what each mistake is called."""

import pytest

from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.precedence import Help, Settings, Version, read_settings
from tests.job_settings import answer, faults, of_command_line, only_fault, settings

# The command line


@pytest.mark.parametrize(
    "argv", [("--grace", "2.5"), ("--grace=2.5",), ("--grace=9", "--grace=2.5")]
)
def test_a_value_follows_as_a_word_or_after_equals_and_the_last_one_wins(
    argv: tuple[str, ...],
) -> None:
    assert settings(*argv).grace == 2.5


def test_everything_from_the_first_word_that_is_no_option_is_the_command() -> None:
    read = of_command_line("--restarts", "3", "python", "train.py", "--restarts", "--", "-h")
    assert read.restarts == 3
    assert read.command == ("python", "train.py", "--restarts", "--", "-h")


def test_two_dashes_end_the_options_once() -> None:
    assert of_command_line("--", "--odd-name", "--").command == ("--odd-name", "--")


def test_one_dash_is_no_option() -> None:
    assert of_command_line("-", "x").command == ("-", "x")


@pytest.mark.parametrize(
    ("argv", "devices", "command"),
    [
        (["--standalone", "python"], 0, ("python",)),
        (["--standalone", "--", "8"], 0, ("8",)),
        (["--standalone", "4", "python"], 4, ("python",)),
        (["--standalone=4", "python"], 4, ("python",)),
        (["--standalone", "-", "4"], 0, ("-", "4")),
        (["--standalone=false", "python"], None, ("python",)),
    ],
)
def test_standalone_takes_the_next_word_only_if_it_is_a_number(
    argv: list[str], devices: int | None, command: tuple[str, ...]
) -> None:
    read = of_command_line(*argv)
    assert (read.standalone, read.command) == (devices, command)


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_wins_over_every_fault(word: str) -> None:
    assert answer("--grace", "x", word) == Help()


def test_the_first_of_help_and_version_wins() -> None:
    assert answer("--version", "--help") == Version()


def test_help_after_the_command_is_the_commands() -> None:
    assert of_command_line("python", "--help").command == ("python", "--help")


@pytest.mark.parametrize(
    ("argv", "fault"),
    [
        (["--restart=1"], "--restart is not known; did you mean --restarts?"),
        (["--max-restarts=1"], "--max-restarts is not known; did you mean --restarts?"),
        (["--xyzzy"], "--xyzzy is not known; --help lists the options"),
        (["-x"], "-x is not known; --help lists the options"),
        (["--a\nb"], r"'--a\nb' is not known; --help lists the options"),
    ],
)
def test_an_unknown_option_is_a_fault_with_the_nearest_one_we_have(
    argv: list[str], fault: str
) -> None:
    assert only_fault(*argv) == fault


@pytest.mark.parametrize("rest", [[], ["--", "python"], ["--check", "python"]])
def test_an_option_without_its_value_is_a_fault_and_takes_no_other_option_for_it(
    rest: list[str],
) -> None:
    with pytest.raises(SettingsRefused) as refused:
        read_settings(["--rank-table", *rest], {}, lambda _: b"")
    assert "--rank-table needs a value: write --rank-table=PATH" in refused.value.faults


def test_one_mistake_does_not_hide_the_others() -> None:
    assert len(faults("--restart", "3", "--grase", "x", "--log-keep=no", "--rank-table")) == 5


@pytest.mark.parametrize("argv", [[], ["--check"], ["--grace", "1"], ["--"], [""]])
def test_without_a_command_the_fault_shows_an_example(argv: list[str]) -> None:
    with pytest.raises(SettingsRefused, match=r"no command .* -- python /code/train\.py"):
        read_settings(argv, {}, lambda _: b"")


# The environment


def test_a_variable_sets_its_option() -> None:
    read = settings(env={"ASCEND_SUPERVISOR_RESTART_DELAY": "2", "ASCEND_SUPERVISOR_CHECK": "1"})
    assert (read.restart_delay, read.check) == (2, True)
    assert read.sources == {"restart-delay": "environment", "check": "environment"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ASCEND_SUPERVISOR_GRACE", ""),
        ("ASCEND_SUPERVISOR_NONSENSE", ""),
        ("ASCEND_SUPERVISOR_OWNER", "1234"),
        ("ASCEND_SUPERVISOR_PORT", "tcp://10.0.0.1:80"),
        ("ASCEND_SUPERVISOR_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("ASCEND_SUPERVISOR_SERVICE_HOST", "10.0.0.1"),
        ("ASCEND_SUPERVISOR_PEERS_PORT", "tcp://10.0.0.1:2379"),
        ("ASCEND_SUPERVISOR_PEERS_PORT", "tcp://[fd00::1]:2379"),
        ("ASCEND_SUPERVISOR_MASTER_PORT", "udp://10.0.0.1:29500"),
        ("ASCEND_SUPERVISOR_PEERS_PORT_2379_TCP", "tcp://10.0.0.1:2379"),
        ("ASCEND_SUPERVISOR_SERVICE_PORT_HTTP", "80"),
        ("MA_RUN_METHOD", ""),
        ("GRACE", "7"),
    ],
)
def test_what_is_empty_ours_by_mark_or_kubernetes_own_is_no_setting(name: str, value: str) -> None:
    assert settings(env={name: value}) == settings()


def test_a_wrong_port_is_no_service() -> None:
    for value in ("10.0.0.1:2379", "http://10.0.0.1:2379", "tcp://"):
        fault = only_fault(env={"ASCEND_SUPERVISOR_MASTER_PORT": value})
        assert fault.startswith("ASCEND_SUPERVISOR_MASTER_PORT: expected a port")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ASCEND_SUPERVISOR_RESTART", "did you mean ASCEND_SUPERVISOR_RESTARTS?"),
        ("ASCEND_SUPERVISOR_PEER_PORT", "did you mean ASCEND_SUPERVISOR_PEERS_PORT?"),
        ("ASCEND_SUPERVISOR_HELP", "unset it, or see --help for the options"),
    ],
)
def test_an_unknown_variable_is_a_fault(name: str, near: str) -> None:
    assert only_fault(env={name: "1"}) == f"{name} is not known; {near}"


# The file


def test_the_file_is_named_by_the_command_line_or_else_by_the_environment() -> None:
    asked = []

    def read_file(path: str) -> bytes:
        asked.append(path)
        return b"grace = 3"

    env = {"ASCEND_SUPERVISOR_CONFIG": "/env.toml"}
    for argv in (["python"], ["--config", "/line.toml", "python"]):
        read = read_settings(argv, env, read_file)
        assert isinstance(read, Settings)
        assert read.grace == 3
    assert asked == ["/env.toml", "/line.toml"]


def test_no_file_is_read_unless_it_is_named() -> None:
    def read_file(path: str) -> bytes:
        raise AssertionError(path)

    assert isinstance(read_settings(["python"], {}, read_file), Settings)


def test_an_unreadable_file_is_a_fault_that_says_who_named_it() -> None:
    def read_file(path: str) -> bytes:
        raise FileNotFoundError(2, "No such file or directory", path)

    with pytest.raises(SettingsRefused) as refused:
        read_settings(["python"], {"ASCEND_SUPERVISOR_CONFIG": "/nope"}, read_file)
    assert refused.value.faults == (
        "ASCEND_SUPERVISOR_CONFIG: /nope cannot be read: No such file or directory",
    )


@pytest.mark.parametrize(
    ("toml", "place"),
    [
        ("grace = 1\ngrace = ", "line 2"),
        ("grace = 1\nlog_level = [\n", "line 3"),
        (b"# ok\n# ok\ngrace = \xff", "line 3"),
    ],
)
def test_a_syntax_error_names_the_file_and_the_line(toml: str | bytes, place: str) -> None:
    fault = only_fault(toml=toml)
    assert fault.startswith("job.toml is not TOML: ")
    assert place in fault


def test_a_byte_order_mark_does_no_harm() -> None:
    assert settings(toml=b"\xef\xbb\xbfgrace = 1").grace == 1


def test_a_file_nested_without_end_is_a_fault() -> None:
    assert "job.toml is not TOML" in only_fault(toml=f"grace = {'[' * 100_000}")


@pytest.mark.parametrize(
    ("toml", "fault"),
    [
        ("restart-delay = 1", "job.toml: restart-delay is not known; did you mean restart_delay?"),
        ("help = 1", "job.toml: help is not known; a key is an option of --help"),
        ("config = 'x'", "job.toml: config is not known; a key is an option of --help with _"),
        ("[supervisor]", "job.toml: supervisor is not known"),
        ("grace = 'long'", "job.toml: grace: expected seconds"),
        ("grace = true", "found true"),
        ("grace = nan", "found nan"),
        ("grace = [[1], 'a', {}]", "found [[1], 'a', a table]"),
        ("grace = 2020-01-01", "found a date or time"),
        (f"restarts = 0x{'f' * 5000}", "found a very large number"),
        ("pod_name = 3", "job.toml: pod_name: expected a text that is not empty, found 3"),
        (r"log_dir = 'a'" + "\n" + r'work_dir = "a\u0000"', r"found 'a\x00'"),
    ],
)
def test_a_fault_in_the_file_names_file_and_key(toml: str, fault: str) -> None:
    assert fault in only_fault(toml=toml)
