"""``--method once``: a script that starts the ranks itself is run as it is, and supervised."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rank_tables import TEMPLATE_1, data
from tests.running import Running, python, wait_until

TRAIN_START = """\
#!/bin/bash
# Starts a rank for each of two devices in the background, and ends as the first of them does.
source "$1/set_env.sh"
started=()
for ((local_rank = 0; local_rank < 2; local_rank++)); do
    export DEVICE_ID=$local_rank RANK_ID=$local_rank RANK_SIZE=2
    "$PYTHON" "$1/train.py" "$1" &
    started+=($!)
done
wait "${started[0]}"
"""
SET_ENV = f"export PYTHON={shlex.quote(sys.executable)} TOOLKIT=/usr/local/toolkit\n"
RANK = """\
import os, signal, sys, time

rank, directory = int(os.environ["RANK_ID"]), sys.argv[1]


def say(*words):
    os.write(1, (" ".join(map(str, (rank, *words))) + "\\n").encode())


def save(*_):
    say("saves")
    time.sleep(0.3)
    say("has saved")
    sys.exit(0)


signal.signal(signal.SIGTERM, save)
say("has", os.environ["TOOLKIT"])
"""
STAY = "while True: time.sleep(0.05)\n"

AS_PID_1 = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")

TrainStart = Callable[..., Running]


@pytest.fixture
def train_start(supervised: Callable[..., Running], tmp_path: Path) -> TrainStart:
    """``train_start(source, *options)`` runs ranks that end with ``source``."""
    (tmp_path / "train_start.sh").write_text(TRAIN_START)
    (tmp_path / "set_env.sh").write_text(SET_ENV)

    def start(source: str, *options: str, **more: Any) -> Running:
        (tmp_path / "train.py").write_text(RANK + source)
        words = ("--method", "once", "--release-delay", "0", "--restart-delay", "0", *options)
        return supervised(*words, "--", "bash", "train_start.sh", str(tmp_path), **more)

    return start


def lines(job: Running) -> list[str]:
    return [event["msg"] for event in job.all("output")]


def test_a_script_that_starts_its_ranks_ends_well(train_start):
    """The script is named by a relative path: it starts where the supervisor was started."""
    job = train_start("")
    assert job.end() == 0
    assert "0 has /usr/local/toolkit" in lines(job)
    (log,) = {event["log"] for event in job.all("process.started")}
    assert Path(log) == job.log_dir / "modelarts-job-test-proc-command-job-test-0.txt"
    assert "0 has /usr/local/toolkit\n" in Path(log).read_text()
    assert not job.survivors()


FAILS_BESIDE_ANOTHER = f"""\
other = directory + "/other"
if rank == 1: open(other, "w").close()
while not os.path.exists(other): time.sleep(0.05)
if rank == 0: print("bad shape"); sys.exit(7)
{STAY}"""


def test_a_rank_that_fails_ends_the_others_within_the_grace(train_start, tmp_path):
    told = tmp_path / "termination-log"
    told.touch()
    job = train_start(FAILS_BESIDE_ANOTHER, "--termination-log", str(told))
    assert job.end() == 7
    assert "1 has saved" in lines(job)
    cause = job.events[-1]["root_cause"]
    assert cause.startswith("the command failed first, in generation 0: it exited with status 7")
    assert "\n  bad shape" in cause
    assert told.read_text() == f"{cause}\n"
    assert not job.survivors()


LEAVES_ANOTHER = """\
signal.signal(signal.SIGTERM, signal.SIG_DFL)
other = directory + "/other"
if rank == 1: open(other, "w").close()
while not os.path.exists(other): time.sleep(0.05)
if rank == 0: sys.exit(7)
time.sleep(1)
say("has dumped")
"""


def test_a_rank_that_the_script_leaves_has_the_drain(train_start):
    """It would be ended by SIGTERM."""
    job = train_start(LEAVES_ANOTHER, "--drain", "600")
    assert job.end() == 7
    assert "1 has dumped" in lines(job)


def test_told_to_stop_all_ranks_have_the_grace(train_start):
    """The shell has no trap, so it is gone at once."""
    job = train_start(f"say('is ready')\n{STAY}")
    for rank in range(2):
        job.wait_for("output", msg=f"{rank} is ready")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert {"0 has saved", "1 has saved"} <= set(lines(job))
    assert not job.survivors()


FAILS_ONCE = """\
first = f"{directory}/{rank}"
if not os.path.exists(first): open(first, "w").close(); sys.exit(3)
"""


def test_the_script_is_restarted_where_nothing_tells_of_other_servers(train_start):
    job = train_start(FAILS_ONCE, "--restarts", "1")
    assert job.end() == 0
    assert lines(job).count("0 has /usr/local/toolkit") == 2
    ends = [(event["outcome"], event["next"]) for event in job.all("generation.ended")]
    assert ends == [("crashed", "restart"), ("completed", "stop")]


@pytest.mark.parametrize(
    "told",
    [
        {"MA_NUM_HOSTS": "2"},
        {"VC_WORKER_HOSTS": "w-0,w-1"},
        {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"},
        {"VC_TASK_INDEX": "1"},
    ],
    ids=str,
)
def test_one_server_of_several_is_not_restarted(train_start, told):
    job = train_start(FAILS_ONCE, "--restarts", "1", environ=told)
    assert job.end() == 3
    assert [event["next"] for event in job.all("generation.ended")] == ["stop"]


ENVIRONMENT = """\
import json, os
def of(pid):
    words = open(f"/proc/{pid}/environ").read().split(chr(0))
    return {word for word in words if word}
ours, its = of(os.getppid()), of("self")
told = [sorted(its - ours), sorted(ours - its), os.environ["RANK"]]
os.write(1, (json.dumps(told) + "\\n").encode())
"""
PLATFORM = {
    "RANK": "4",
    "WORLD_SIZE": "8",
    "MASTER_ADDR": "service",
    "RANK_TABLE_FILE": "/no/such/file",
    "MS_ROLE": "MS_SCHED",
    "JOB_ID": "mine",
    "LC_ALL": "C.UTF-8",  # else Python itself may set LC_CTYPE
}


def test_the_environment_is_that_of_the_supervisor_but_for_its_mark(supervised):
    """A table that nobody names with --rank-table is not waited for."""
    job = supervised("--method", "once", *python(ENVIRONMENT), environ=PLATFORM)
    assert job.end() == 0
    added, missing, rank = json.loads(lines(job)[0])
    assert [word.partition("=")[0] for word in added] == ["ASCEND_SUPERVISOR_OWNER"]
    assert (missing, rank) == ([], PLATFORM["RANK"])


def test_only_a_table_that_is_named_is_waited_for(supervised, tmp_path):
    table = tmp_path / "hccl.json"
    options = ("--method", "once", "--rank-table", str(table), "--node-rank", "1")
    job = supervised(*options, *python("print('begins')"))
    job.wait_for("rank_table.waiting")
    assert not job.all("process.started")
    (tmp_path / "new").write_bytes(data(TEMPLATE_1))
    (tmp_path / "new").rename(table)
    assert job.end() == 0
    assert lines(job) == ["begins"]
    assert job.wait_for("process.started")["log"].endswith("-proc-command-job-test-0.txt")


def test_what_left_the_session_of_the_script_is_ended(supervised):
    job = supervised("--method", "once", "--", "bash", "-c", "setsid sleep 600 & exit 4")
    assert job.end() == 4
    wait_until(lambda: not job.survivors())


IN_A_SESSION_OF_ITS_OWN = """\
import os, signal, subprocess, sys, time


def save(*_):
    os.write(1, b"saves\\n")
    time.sleep(0.5)
    os.write(1, b"has saved\\n")
    os._exit(0)


signal.signal(signal.SIGTERM, save)
os.write(1, b"is ready\\n")
while True: time.sleep(0.05)
"""


def away(source: str, then: str) -> tuple[str, ...]:
    """The words for a shell that starts ``source`` in a session of its own, and ``then``."""
    script = f'setsid "$1" -c "$2" & {then}'
    return ("--", "bash", "-c", script, "bash", sys.executable, source)


@pytest.mark.parametrize("before", [(), AS_PID_1], ids=["", "as PID 1"])
def test_a_rank_in_a_session_of_its_own_has_the_grace(supervised, before):
    """The workers of msrun have one, and msrun ends at once."""
    if before and os.geteuid():
        pytest.skip("a PID namespace needs root")
    job = supervised("--method", "once", *away(IN_A_SESSION_OF_ITS_OWN, "wait"), before=before)
    job.wait_for("output", msg="is ready")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert lines(job) == ["is ready", "saves", "has saved"]
    assert not job.survivors()


DUMPS_ALONE = """\
import os, sys, time
open("up", "w").close()
while os.path.exists(f"/proc/{sys.argv[1]}"): time.sleep(0.05)
time.sleep(1)
print("has dumped")
"""


def test_a_rank_in_a_session_of_its_own_has_the_drain(supervised, tmp_path):
    """It would be ended by SIGTERM, and the command is gone."""
    (tmp_path / "train.py").write_text(DUMPS_ALONE)
    script = (
        f"setsid {shlex.quote(sys.executable)} train.py $$ & "
        "until [ -e up ]; do sleep 0.05; done; exit 3"
    )
    job = supervised("--method", "once", "--drain", "600", "--", "bash", "-c", script)
    assert job.end() == 3
    assert lines(job) == ["has dumped"]


def test_a_signal_for_the_command_does_not_reach_other_sessions(supervised):
    """A process without a handler would die of it."""
    asks = 'trap "echo asked" USR1; while :; do sleep 0.05; done'
    job = supervised("--method", "once", *away(IN_A_SESSION_OF_ITS_OWN, asks))
    job.wait_for("output", msg="is ready")
    job.send(signal.SIGUSR1)
    job.wait_for("output", msg="asked")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert lines(job)[-1] == "has saved"


BACKGROUND = "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(600)"


def test_a_command_that_leaves_processes_behind_is_told(supervised):
    """They are ended, as at the end of a container."""
    both = '"$0" -c "$1" first & setsid "$0" -c "$1" second & '
    script = both + "until [ -e first -a -e second ]; do sleep 0.05; done"
    words = ("--", "bash", "-c", script, sys.executable, BACKGROUND)
    job = supervised("--method", "once", *words)
    assert job.end() == 0
    (told,) = job.all("diagnostic")
    assert told["msg"].startswith("once: the command ended with 0 and left 2 processes, which are ")
    assert {each.split()[-1] for each in told["msg"].split("; ")} >= {"first", "second"}
    assert job.events[-1]["reason"] == "the command ended with 0"
    assert not job.survivors()


def test_a_command_that_leaves_nothing_is_not_told(supervised):
    job = supervised("--method", "once", "--", "bash", "-c", "setsid true & wait")
    assert job.end() == 0
    assert not job.all("diagnostic")
