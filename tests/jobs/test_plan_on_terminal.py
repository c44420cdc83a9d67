"""What --check prints on a terminal: the plan in short, or all of it with --json."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.terminals import Terminal

PLAN = (sys.executable, "-m", "ascend_supervisor", "--standalone", "2", "--check")
COMMAND = ("--", "python3", "-c", "pass # two words")


@pytest.fixture
def shown(tmp_path: Path):
    """``shown(*options)``: the rows of a terminal in which --check has ended with 0."""
    terminals: list[Terminal] = []

    def show(*options: str) -> list[str]:
        environ = {"PATH": os.environ["PATH"], "TERM": "xterm", "MA_MOUNT_PATH": str(tmp_path)}
        words = (*PLAN, *options, *COMMAND)
        terminals.append(Terminal(*words, columns=250, lines=200, environ=environ))
        assert terminals[-1].end() == 0
        return terminals[-1].until(lambda rows: "}" in rows or any("state file" in r for r in rows))

    yield show
    for terminal in terminals:
        terminal.close()


def test_a_terminal_shows_the_plan_in_short(shown):
    rows = shown("--restarts", "3")
    assert rows[0].startswith("A run would start 2 processes here; nothing was started.")
    text = "\n".join(rows)
    for told in ("python3 -c 'pass # two words'", "0, 1 of 2", "127.0.0.1:29500", "restarts=3"):
        assert told in text


def test_with_json_it_shows_all_of_it(shown):
    rows = shown("--json")
    plan = json.loads("".join(rows[: rows.index("}") + 1]))
    assert [one["rank"] for one in plan["processes"]] == [0, 1]
