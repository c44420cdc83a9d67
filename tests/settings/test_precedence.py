"""Settings: their defaults, which source wins, and how one depends on another."""

import ast
import subprocess
import sys

import pytest
from msgspec.structs import fields

from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.precedence import Settings, read_settings
from ascend_supervisor.settings.readers import ALL_RANKS
from tests.job_settings import COMMAND, faults, of_command_line, only_fault, settings

SETTABLE = [option for option in OPTIONS if "environment" in option.places]

# The table and the order of the sources


def test_settings_have_one_field_for_each_option_that_can_be_set() -> None:
    names = [field.name for field in fields(Settings)]
    assert names == [
        *(option.key for option in SETTABLE),
        *("command", "is_marked", "sources", "variables"),
    ]


def test_names_of_options_are_unique() -> None:
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)


def test_without_anything_every_value_is_its_default_and_has_no_source() -> None:
    read = settings()
    assert {name: getattr(read, name) for name in (o.key for o in SETTABLE)} == {
        option.key: option.default_value for option in SETTABLE
    }
    assert read.sources == {}
    assert read.command == COMMAND


def test_the_defaults_are_those_of_the_interface() -> None:
    read = settings()
    assert read.rank_table_timeout == 1800
    assert (read.restarts, read.restart_period) == (0, None)
    assert (read.restart_delay, read.restart_delay_max, read.min_uptime) == (1, 60, 10)
    assert read.no_restart_on == {125, 126, 127}
    assert (read.grace, read.drain, read.release_delay) == (20, 0, None)
    assert (read.console, read.console_ranks, read.log_level) == ("auto", ALL_RANKS, "info")
    assert (read.log_max_size, read.log_keep) == (256 * 1024**2, 3)
    assert read.standalone is None
    assert read.method == "ranktable"


def test_the_command_line_beats_the_environment_which_beats_the_file() -> None:
    read = settings(
        "--grace=1",
        env={"ASCEND_SUPERVISOR_GRACE": "2", "ASCEND_SUPERVISOR_RESTARTS": "2"},
        toml="grace = 3\nrestarts = 3\nlog_keep = 3",
    )
    assert (read.grace, read.restarts, read.log_keep) == (1, 2, 3)
    assert read.sources == {
        "config": "command line",
        "grace": "command line",
        "restarts": "environment",
        "log-keep": "file",
    }


def test_the_faults_of_all_three_sources_are_reported_together() -> None:
    found = faults(
        "--grace=x", "--nonsense", env={"ASCEND_SUPERVISOR_GRACE": "y"}, toml="grace = 'z'"
    )
    assert [fault.split(" ", 1)[0] for fault in found] == [
        "--nonsense",
        "ASCEND_SUPERVISOR_GRACE:",
        "--grace:",
        "job.toml:",
    ]


@pytest.mark.parametrize(
    ("word", "option"),
    [
        ("source", "--env-from FILE"),
        (".", "--env-from FILE"),
        ("export", "--rank-env NAME=VALUE"),
        ("cd", "--rank-dir"),
    ],
)
def test_a_builtin_of_the_shell_is_no_command(word: str, option: str) -> None:
    with pytest.raises(SettingsRefused) as refused:
        read_settings(("--", word, "x", "&&", "python", "train.py"), {}, lambda _: b"")
    (fault,) = refused.value.faults
    assert fault.startswith(f"{word} is a word of the shell, and the command runs without one; ")
    assert option in fault


def test_a_builtin_may_follow() -> None:
    assert of_command_line("--", "bash", "-c", "cd /x").command == ("bash", "-c", "cd /x")
    assert of_command_line("--", "./source").command == ("./source",)


# How values depend on each other and on the platform


@pytest.mark.parametrize(
    ("options", "first", "longest"),
    [
        ((), 1, 60),
        (("--restart-delay=100",), 100, 100),
        (("--restart-delay-max=0",), 0, 0),
        (("--restart-delay=5", "--restart-delay-max=5"), 5, 5),
    ],
)
def test_of_two_delays_the_default_gives_way(
    options: tuple[str, ...], first: float, longest: float
) -> None:
    read = settings(*options)
    assert (read.restart_delay, read.restart_delay_max) == (first, longest)


@pytest.mark.parametrize("method", ["torchrun", "mpirun", "once"])
@pytest.mark.parametrize("says", ["option", "platform"])
def test_one_silent_rank_is_not_looked_for_where_all_write_to_one_pipe(
    method: str, says: str
) -> None:
    options = ("--method", method) if says == "option" else ()
    environ = {"MA_RUN_METHOD": method} if says == "platform" else {}
    assert only_fault("--rank-hang-timeout=60", *options, env=environ) == (
        f"--rank-hang-timeout: with --method {method} all ranks write to one pipe, so that one "
        "silent rank cannot be noticed; use --hang-timeout or --watchdog"
    )


@pytest.mark.parametrize("method", ["ranktable", "msrun", "mindspore", "torch-ddp", "tensorflow"])
def test_one_silent_rank_is_looked_for_where_it_can_be_heard(method: str) -> None:
    assert settings("--rank-hang-timeout=60", "--method", method).rank_hang_timeout == 60


def test_a_delay_above_the_longest_is_a_fault_if_both_were_given() -> None:
    assert only_fault("--restart-delay=1m", toml="restart_delay_max = 5") == (
        "--restart-delay is 60 seconds, more than the 5 of job.toml: restart_delay_max; "
        "lower the first or raise the second"
    )


def test_standalone_and_a_rank_table_exclude_each_other() -> None:
    fault = only_fault("--standalone", env={"ASCEND_SUPERVISOR_RANK_TABLE": "/x"})
    assert fault.startswith("--standalone and ASCEND_SUPERVISOR_RANK_TABLE exclude each other")
    assert settings("--rank-table=/x", toml="standalone = false").standalone is None


def test_the_platforms_method_is_checked_like_ours() -> None:
    assert only_fault(env={"MA_RUN_METHOD": "smoke"}).startswith("MA_RUN_METHOD: expected one of ")
    assert settings(env={"MA_RUN_METHOD": "ranktable"}).sources == {"method": "environment"}


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"MA_RUN_METHOD": "msrun"}, "method=msrun (environment: MA_RUN_METHOD)"),
        (
            {"MS_ROLE": "MS_WORKER", "MS_SCHED_HOST": "h"},
            "method=mindspore (environment: MS_ROLE)",
        ),
        (
            {"ASCEND_SUPERVISOR_GRACE": "3"},
            "grace=3.0 (environment: ASCEND_SUPERVISOR_GRACE)",
        ),
        (
            {"TTP_OT": "360", "HIGH_AVAILABILITY": "dump"},
            "drain=360.0 (environment: TTP_OT and HIGH_AVAILABILITY)",
        ),
    ],
)
def test_the_variable_that_a_setting_comes_from_is_named(env: dict[str, str], told: str) -> None:
    assert settings(env=env).non_defaults == (told,)


def test_our_method_beats_the_platforms() -> None:
    assert settings("--method=ranktable", env={"MA_RUN_METHOD": "msrun"}).method == "ranktable"
    assert settings(toml="method = 'ranktable'", env={"MA_RUN_METHOD": "?"}).method == "ranktable"


@pytest.mark.parametrize(
    ("env", "drain"),
    [
        ({"TTP_OT": "360"}, 360),
        ({"TTP_OT": "long"}, 190),
        ({"TTP_OT": ""}, 0),
        ({"TTP_NORMAL_ACTION_TIME_LIMIT": "200"}, 210),
        ({"TTP_NORMAL_ACTION_TIME_LIMIT": "?"}, 190),
        ({"TTP_OT": "360", "TTP_NORMAL_ACTION_TIME_LIMIT": "180"}, 360),
        ({"HIGH_AVAILABILITY": "dump"}, 190),
        ({"HIGH_AVAILABILITY": "False"}, 0),
        ({"MS_ENABLE_TFT": "{TTP:1,UCE:1}"}, 190),
        ({"MS_ENABLE_TFT": "0"}, 0),
        ({"MS_ENABLE_TFT": "{RSC:1}"}, 0),
        ({"MS_ENABLE_TFT": "{TTP:0, RSC:1}"}, 0),
        ({"MS_ENABLE_TFT": "{TTP:1, RSC:1}"}, 190),
        ({"MINDIO_FOR_MINDSPORE": "1"}, 190),
        ({"ELASTIC_PROCESS_RECOVER_ENABLE": "1", "TTP_OT": "100"}, 100),
    ],
)
def test_the_drain_is_as_long_as_a_dying_gasp_checkpoint_needs(
    env: dict[str, str], drain: float
) -> None:
    read = settings(env=env)
    assert read.drain == drain
    assert read.sources == ({"drain": "environment"} if drain else {})


def test_a_drain_of_ours_beats_the_platforms() -> None:
    assert settings("--drain=0", env={"TTP_OT": "360"}).drain == 0


# What it costs


def test_reading_settings_without_a_file_loads_no_parser() -> None:
    script = (
        "import sys\n"
        "from ascend_supervisor.settings.precedence import read_settings\n"
        "read_settings(['python'], {}, open)\n"
        "print([m for m in ('argparse', 'tomllib', 'tomli', 'difflib', 'anyio',"
        " 'asyncio', 'socket') if m in sys.modules])\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    assert ast.literal_eval(said.stdout) == []


@pytest.mark.parametrize("role", ["MS_WORKER", "MS_SCHED"])
def test_a_mindspore_pod_of_the_operator_starts_mindspore(role: str) -> None:
    environ = {"MS_ROLE": role, "MS_SCHED_HOST": "10.0.5.9"}
    assert settings(env=environ).method == "mindspore"
    assert settings(env={**environ, "MA_RUN_METHOD": "msrun"}).method == "msrun"
    assert settings("--method", "ranktable", env=environ).method == "ranktable"


@pytest.mark.parametrize(
    "environ",
    [
        {"MS_ROLE": "MS_WORKER"},
        {"MS_SCHED_HOST": "10.0.5.9"},
        {"MS_ROLE": "MS_PSERVER", "MS_SCHED_HOST": "10.0.5.9"},
    ],
)
def test_without_a_role_and_a_scheduler_a_pod_starts_ranks_as_usual(environ) -> None:
    assert settings(env=environ).method == "ranktable"


@pytest.mark.parametrize(
    ("words", "env", "method"),
    [
        ((), {}, "ranktable"),
        (("--method", "mindspore"), {"MA_RUN_METHOD": "once"}, "mindspore"),
        ((), {"MA_RUN_METHOD": "torchrun"}, "torchrun"),
    ],
)
def test_a_launcher_as_the_command_is_refused_with_the_other_faults(words, env, method):
    argv = (*words, "--grace", "x", "--", "torchrun", "train.py")
    with pytest.raises(SettingsRefused) as refused:
        read_settings(argv, env, lambda _: b"")
    grace, nested = refused.value.faults
    assert grace.startswith("--grace: ")
    assert nested.startswith(f"COMMAND: --method {method} expected the program of a rank")
