"""Variables for ranks: what can be written, and what becomes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.settings.user_variables import NAMES, RankVariable, read_rank_variables
from tests.job_settings import faults, only_fault, settings

FACTS = {name: f"<{name}>" for name in NAMES}


def value(template: str) -> str:
    (variable,) = read_rank_variables(f"X={template}")
    return variable.value(FACTS)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a=b, c", "a=b, c"),
        ("{rank}", "<rank>"),
        ("{rank_dir}/group_info.pb", "<rank_dir>/group_info.pb"),
        ("{node_rank}{local_rank}", "<node_rank><local_rank>"),
        ("{{rank}}", "{rank}"),
        ("{{{rank}}}", "{<rank>}"),
        ('{{"a": {{}}}}', '{"a": {}}'),
        ("one\ntwo", "one\ntwo"),
    ],
)
def test_names_in_braces_are_replaced(template, expected):
    assert value(template) == expected


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_known(name):
    assert value(f"{{{name}}}") == FACTS[name]
    assert read_rank_variables(f"X={{{name}}}")[0].names == {name}


def test_a_value_is_not_read_twice():
    (variable,) = read_rank_variables("X={rank_dir}")
    assert variable.value({**FACTS, "rank_dir": "/a/{rank}"}) == "/a/{rank}"


@given(st.text(alphabet="{}abc=\n", max_size=12))
def test_doubled_braces_are_the_text_itself(text):
    assert value(text.replace("{", "{{").replace("}", "}}")) == text


@pytest.mark.parametrize(
    "wrong", ["X={rnak}", "X={", "X=}", "X={}", "X={rank", "X={{rank}", "X={ rank }"]
)
def test_other_names_and_lone_braces_are_refused(wrong):
    fault = only_fault("--rank-env", wrong)
    assert fault.startswith("--rank-env: expected only rank, local_rank, ")
    assert fault.endswith(", and {{ or }} for a brace itself, found 'X=...'")
    piece = wrong.removeprefix("X=")
    meant = f" in braces (did you mean {{rank}} by {piece}?), "
    assert (meant in fault) == (wrong in {"X={rnak}", "X={ rank }"})


@pytest.mark.parametrize(
    "wrong",
    [
        'T={"key": "s3cret"}',
        "T=a{s3cret}b",
        "T-T=s3cret",
        "s3cret",
        "s3cret/+==",
        "ASCEND_SUPERVISOR_OWNER=s3cret",
        ["s3cret"],
    ],
)
def test_a_value_that_may_be_secret_is_not_told(wrong):
    if isinstance(wrong, str):
        assert "s3cret" not in only_fault("--rank-env", wrong)
    assert "s3cret" not in only_fault(toml=f"rank_env = ['A=1', {wrong!r}]")


def test_no_line_of_a_value_is_told():
    fault = only_fault(env={"ASCEND_SUPERVISOR_RANK_ENV": "KEY=-----BEGIN\ns3cret"})
    assert fault.endswith(
        ", and in ASCEND_SUPERVISOR_RANK_ENV one variable on each line, found a text that is not "
        "shown, because it may be a secret"
    )


@pytest.mark.parametrize(
    "wrong", ["X", "=1", "1X=1", "A-B=1", "A B=1", "\N{LATIN SMALL LETTER E WITH ACUTE}=1", "X=\0"]
)
def test_what_is_no_variable_is_refused(wrong):
    assert only_fault("--rank-env", wrong).startswith("--rank-env: expected NAME=VALUE ")


def test_the_mark_of_our_processes_is_refused():
    fault = only_fault("--rank-env", "ASCEND_SUPERVISOR_OWNER=1")
    assert "another name than ASCEND_SUPERVISOR_OWNER" in fault


# The three sources


def test_a_repeated_option_adds_up():
    read = settings("--rank-env", "A=1", "--rank-env=B={rank}")
    assert read.rank_env == (RankVariable("A", "1"), RankVariable("B", "{rank}"))
    assert settings().rank_env == ()


def test_a_variable_holds_one_on_each_line():
    read = settings(env={"ASCEND_SUPERVISOR_RANK_ENV": "A=1\n\nB=2 = two\n"})
    assert read.rank_env == (RankVariable("A", "1"), RankVariable("B", "2 = two"))


def test_a_file_holds_a_list_or_one():
    assert settings(toml="rank_env = ['A=1', 'B=2']").rank_env == (
        RankVariable("A", "1"),
        RankVariable("B", "2"),
    )
    assert settings(toml="rank_env = 'A=1'").rank_env == (RankVariable("A", "1"),)
    assert only_fault(toml="rank_env = ['A=1', 2]").startswith("job.toml: rank_env: expected NAME")


def test_a_source_replaces_the_list_of_a_weaker_one():
    env, toml = {"ASCEND_SUPERVISOR_RANK_ENV": "B=2\nC=3"}, "rank_env = ['D=4']"
    assert [v.name for v in settings("--rank-env=A=1", env=env, toml=toml).rank_env] == ["A"]
    assert [v.name for v in settings(env=env, toml=toml).rank_env] == ["B", "C"]
    assert settings("--rank-env=A=1", env=env).sources == {"rank-env": "command line"}


def test_each_wrong_value_is_a_fault_of_its_own():
    assert (
        len(faults("--rank-env=A", "--rank-env=B", env={"ASCEND_SUPERVISOR_RANK_ENV": "C\nD"})) == 4
    )


def test_the_log_shows_names_and_no_value():
    read = settings("--rank-env", "TOKEN=secret", "--rank-env", "B=2")
    assert read.non_defaults == ("rank-env=TOKEN,B (command line)",)


# Launchers


@pytest.mark.parametrize("method", ["torchrun", "msrun", "mpirun", "once"])
@pytest.mark.parametrize("name", ["rank", "local_rank", "device_id"])
def test_a_rank_is_not_known_where_a_launcher_starts_it(method, name):
    fault = only_fault(
        "--method", method, "--rank-env", f"A={{{name}}}", "--rank-env", "B={world_size}"
    )
    assert fault.startswith(f"--rank-env: A: {{{name}}} cannot be used with --method {method}: ")


@pytest.mark.parametrize("name", ["node_rank", "rank_dir"])
def test_a_server_is_not_known_where_mpirun_starts_ranks_on_all(name):
    """The ranks of other servers would get the value of node 0."""
    fault = only_fault("--method=mpirun", f"--rank-env=A={{{name}}}")
    assert fault.startswith(f"--rank-env: A: {{{name}}} cannot be used with --method mpirun: ")
    assert "its environment of node 0, on all servers; " in fault
    for method in ("torchrun", "msrun", "ranktable"):
        assert settings(f"--method={method}", f"--rank-env=A={{{name}}}").rank_env


@pytest.mark.parametrize("method", ["torch-ddp", "tensorflow"])
def test_a_process_for_all_devices_of_a_server_has_no_device_of_its_own(method):
    fault = only_fault(f"--method={method}", "--rank-env=A={device_id}")
    assert fault.startswith(f"--rank-env: A: {{device_id}} cannot be used with --method {method}: ")
    assert settings(f"--method={method}", "--rank-env=A={rank}{local_rank}").rank_env


def test_a_launcher_that_the_platform_names_counts_too():
    env = {"MA_RUN_METHOD": "torchrun", "ASCEND_SUPERVISOR_RANK_ENV": "A={rank}"}
    assert only_fault(env=env).startswith("ASCEND_SUPERVISOR_RANK_ENV: A: {rank} cannot be used")
    assert settings("--method=ranktable", env=env).rank_env
