"""The command line of a supervisor, with --check."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ascend_supervisor.collection.running import RunningProcess, checking


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("python -m ascend_supervisor --restarts 3 -- run -m x", "--restarts 3 -- run -m x"),
        ("python -I -m ascend_supervisor run", "run"),
        ("/usr/bin/python3 /usr/local/bin/ascend-supervisor run", "run"),
        ("ascend-supervisor --standalone 2 run", "--standalone 2 run"),
    ],
)
def test_it_comes_first_among_the_options(words, found):
    before = words.removesuffix(found)
    assert checking(shlex.split(words)) == shlex.split(f"{before} --check --json {found}")


@pytest.mark.parametrize("words", ["", "sh -c run", "python ascend_supervisor run", "-m x"])
def test_another_command_line_is_left_alone(words):
    assert checking(shlex.split(words)) is None


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("x --event-log a.jsonl -- run", "/d/a.jsonl"),
        ("x --event-log=/b run", "/b"),
        ("x -- run --event-log c", "/d/e"),
        ("x run", "/d/e"),
    ],
)
def test_a_path_is_that_of_the_option_else_of_the_variable(words, found):
    process = RunningProcess(tuple(words.split()), {"ASCEND_SUPERVISOR_EVENT_LOG": "e"}, Path("/d"))
    assert str(process.option("event-log")) == found
    assert RunningProcess().option("event-log") is None
