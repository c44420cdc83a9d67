"""Options of ours that stand behind the command, and what is said of them."""

from __future__ import annotations

import sys

import pytest

from ascend_supervisor.settings.precedence import Settings, read_settings, swallowed_options


def told(*argv: str) -> str:
    read = read_settings(argv, {}, lambda _: b"")
    assert isinstance(read, Settings)
    return swallowed_options(read) or ""


def test_an_option_that_went_to_the_command_is_named_with_where_it_belongs() -> None:
    words = "--standalone", "2", "python3", "train.py", "--restarts", "3", "--grace=5", "--grace=6"
    assert told(*words) == (
        "--restarts, --grace: the supervisor reads no options in COMMAND; write this before "
        "COMMAND, or, if COMMAND takes it, write -- before COMMAND"
    )


@pytest.mark.parametrize(
    "words",
    [
        "--restarts 3 python3 train.py",
        "--restarts 3 -- python3 train.py --restarts 3",
        "--restarts=3 -- python3 train.py --restarts 3",
        "python3 train.py --lr 1 --log-dir logs --config c.yaml --master-port 1 --version",
        "--method once torchrun --standalone --nproc-per-node 2 train.py",
        "python3 wrapper.py -- other.py --restarts 3",
        "python3 train.py restarts restarts=3 --max-restarts=3",
    ],
)
def test_what_the_command_may_have_itself_is_not_named(words: str) -> None:
    assert told(*words.split()) == ""


def test_it_is_told_once_at_the_start(supervised) -> None:
    job = supervised("--standalone", "2", sys.executable, "-c", "", "--restarts", "3")
    assert job.end() == 0
    (event,) = job.all("diagnostic")
    assert event["msg"].startswith("settings: --restarts: the supervisor reads no options in ")
    assert event["level"] == "warning"
