"""A command that is run for events of real jobs."""

from __future__ import annotations

import json
import shlex
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.running import Running, python, wait_until

FAILS_ONCE = """
import os, sys
sys.exit(3 if os.environ["LIFE"] == "0" else 0)
"""
AGAIN = ("--standalone", "1", "--restarts", "1", "--restart-delay", "0.01", "--min-uptime", "0")
LIFE = ("--rank-env", "LIFE={generation}")


def appending(path: Path) -> str:
    return shlex.join(("sh", "-c", 'cat >> "$1"', "sh", str(path)))


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def events(job: Running, *names: str) -> list[dict[str, Any]]:
    """Those of stdout, without what each place counts."""
    found = [event for event in job.events if event["event"] in names]
    return [{key: one[key] for key in one if key not in {"seq", "ts"}} for one in found]


def complaints(job: Running) -> list[str]:
    return [event["message"] for event in job.all("diagnostic", source="--on-event")]


def test_each_event_is_a_line_on_its_stdin(supervised, tmp_path):
    out = tmp_path / "told"
    job = supervised(*AGAIN, "--on-event", appending(out), *LIFE, *python(FAILS_ONCE))
    assert job.end() == 0
    found = [{key: one[key] for key in one if key != "ts"} for one in told(out)]
    assert found == events(job, "restart.scheduled", "supervisor.exited")
    assert len(found) == 2
    assert complaints(job) == []


def test_a_restart_has_the_last_lines_of_the_rank_that_failed(supervised, tmp_path):
    out = tmp_path / "told"
    job = supervised(
        *AGAIN, "--on-event", appending(out), *LIFE, *python("print('loss is nan')" + FAILS_ONCE)
    )
    assert job.end() == 0
    cause, *lines = told(out)[0]["root_cause"].splitlines()
    assert cause.startswith("rank 0 failed first, in generation 0: it exited with status 3 after ")
    assert lines == [f"the last lines of {job.log(0)}:", "  loss is nan"]


def test_only_the_chosen_events_are_told(supervised, tmp_path):
    out = tmp_path / "told"
    chosen = ("--notify-on", "failed,hang", "--on-event", appending(out))
    assert supervised(*AGAIN, *chosen, *python("raise SystemExit(3)")).end() == 3
    assert [(one["event"], one["exit_code"]) for one in told(out)] == [("supervisor.exited", 3)]


def test_what_it_prints_is_told_only_if_it_fails(supervised):
    job = supervised(*AGAIN, "--on-event", "sh -c 'echo fine'", *python(""))
    assert job.end() == 0
    assert complaints(job) == []
    fails = "sh -c 'echo first; echo no such group --token=abc >&2; exit 4'"
    job = supervised(*AGAIN, "--on-event", fails, *python(""))
    assert job.end() == 0
    expected = "sh exited with status 4; its last output: no such group --token=***"
    assert complaints(job) == [expected]


@pytest.mark.parametrize("how", [(), ("--check",)], ids=["run", "check"])
@pytest.mark.parametrize(
    ("command", "status", "expected"),
    [
        ("nosuchcmd --token=abc", 127, "--on-event: 'nosuchcmd' was not found in PATH ("),
        ("/nowhere/tell", 127, "--on-event: there is no '/nowhere/tell' ("),
        ("/etc/passwd", 126, "--on-event: '/etc/passwd' is not executable ("),
    ],
)
def test_a_command_that_cannot_be_executed_is_refused(supervised, how, command, status, expected):
    job = supervised("--standalone", "1", *how, "--on-event", command, *python(""))
    assert job.end() == status
    assert job.all("process.started") == []
    told = job.stderr if how else job.events[-1]["reason"]
    assert expected in told
    assert "abc" not in told


def test_ranks_do_not_inherit_the_variable_with_its_arguments(supervised):
    environ = {"ASCEND_SUPERVISOR_ON_EVENT": "sh -c 'exit 4' --token=abc"}
    source = "import os; print(sorted(os.environ))"
    job = supervised("--standalone", "1", *python(source), environ=environ)
    assert job.end() == 0
    assert complaints(job) == ["sh exited with status 4"]
    assert "ON_EVENT" not in job.said(0)[0]


FAILS_LATER = """
import os, sys, time
life = os.environ["LIFE"]
while life != "0" and not os.path.exists("ROOT/started" if life == "1" else "ROOT/lived"):
    time.sleep(0.005)
sys.exit(3 if life in "01" else 0)
"""
SLOW = """
read -r line
case $line in *'"restart.scheduled"'*)
    [ -e "$0/started" ] || { : >"$0/started"; sleep 1; : >"$0/lived"; } ;;
esac
"""


def test_it_and_its_children_outlive_the_generation_in_which_they_were_started(
    supervised, tmp_path
):
    """The second generation ends, and is swept, while the command waits for its own child."""
    command = shlex.join(("sh", "-c", SLOW, str(tmp_path)))
    source = FAILS_LATER.replace("ROOT", str(tmp_path))
    again = ("--standalone", "1", "--restarts", "2", "--restart-delay", "0.01")
    job = supervised(*again, "--on-event", command, *LIFE, *python(source))
    assert job.end() == 0
    assert (tmp_path / "lived").exists()
    assert complaints(job) == []
    assert job.all("orphans.killed") == []


def test_it_ends_with_a_supervisor_that_is_killed(supervised, tmp_path):
    out = tmp_path / "started"
    command = shlex.join(("sh", "-c", 'echo $$ > "$1"; sleep 600', "sh", str(out)))
    job = supervised(*AGAIN, "--on-event", command, *LIFE, *python("raise SystemExit(3)"))
    wait_until(lambda: out.exists() and out.read_text().strip())
    job.send(signal.SIGKILL)
    assert job.end() == 137
    wait_until(lambda: not job.survivors())


def test_a_second_start_that_is_refused_tells_nobody(supervised, tmp_path):
    out = tmp_path / "told"
    first = supervised("--standalone", "1", *python("import time; time.sleep(600)"))
    first.wait_for("process.started")
    second = supervised("--standalone", "1", "--on-event", appending(out), *python(""))
    assert second.end() != 0
    first.send(signal.SIGTERM)
    assert first.end() == 143
    assert not out.exists()


def test_the_end_has_its_time_though_the_command_still_runs_for_an_older_event(
    supervised, tmp_path
):
    out = tmp_path / "told"
    slow = shlex.join(("sh", "-c", 'sleep 1.5; cat >> "$1"', "sh", str(out)))
    job = supervised(*AGAIN, "--on-event", slow, *python("raise SystemExit(3)"))
    assert job.end() == 3
    assert [one["event"] for one in told(out)] == ["supervisor.exited"]
    expected = "sh was still running after the end of the job, and was killed"
    assert complaints(job) == [expected]


def test_a_port_that_is_taken_is_told(supervised, tmp_path):
    out = tmp_path / "told"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        options = ("--metrics-address", address, "--on-event", appending(out))
        assert supervised("--standalone", "1", *options, *python("")).end() == 69
    (one,) = told(out)
    assert one["exit_code"] == 69
    assert address in one["msg"]
