"""A command that starts ranks itself, run as a rank, and no word of it tells: the end does."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from tests.ports import free_port
from tests.running import python

ASIDE = ("--drain", "0", "--grace", "2")
START = """\
#!/bin/bash
# As the published train_start.sh does: a loop, so that nothing of it is certain.
count=$1; shift
for ((rank = 0; rank < count; rank++)); do
    RANK=$rank RANK_ID=$rank LOCAL_RANK=$rank "$@" &
done
wait -n
"""
FAILS = """
import os, pathlib, sys, time
mark = f"{os.getppid()}-{os.environ['RANK']}"
pathlib.Path(mark).touch()
while len(list(pathlib.Path().glob("*-[0-9]"))) < 6: time.sleep(0.01)
sys.exit(3 if os.environ["RANK"] == "2" else time.sleep(600))
"""


def test_ranks_that_start_ranks_are_told_with_the_method_that_does(supervised, tmp_path):
    (tmp_path / "start.sh").write_text(START)
    command = ("bash", "start.sh", "3", *python(FAILS)[1:])
    job = supervised("--standalone", "2", *ASIDE, "--", *command)
    assert job.end() == 3
    last = job.events[-1]
    assert "has started ranks itself, so the command is a launcher" in last["reason"]
    assert "start it once, with --method once -- bash start.sh ..." in last["reason"]
    assert "--method once" in last["root_cause"]


def test_ranks_that_start_ranks_and_hang_are_told_so(supervised, tmp_path):
    (tmp_path / "start.sh").write_text(START)
    command = ("bash", "start.sh", "2", "sleep", "600")
    limits = ("--hang-timeout", "3", "--startup-timeout", "3", "--hang-dump", "none")
    job = supervised("--standalone", "2", *ASIDE, *limits, "--", *command)
    assert job.end() == 124
    assert "start it once, with --method once -- bash start.sh ..." in job.events[-1]["reason"]


WAITS = {
    "bash": """\
for ((rank = 0; rank < 2; rank++)); do
    WORLD_SIZE=2 RANK=$rank LOCAL_RANK=$rank sleep 7 &
done
wait
exit 3
""",
    sys.executable: """\
import os, subprocess, sys
places = [{"RANK": str(rank)} for rank in range(2)]
ranks = [subprocess.Popen(["sleep", "7"], env={**os.environ, **place}) for place in places]
for rank in ranks:
    rank.wait()
sys.exit(3)
""",
}
"""Their ranks have ended, all of them, when they end themselves."""


@pytest.mark.parametrize("program", WAITS, ids=["bash", "python"])
def test_ranks_that_start_ranks_are_told_where_these_are_gone_at_the_end(
    supervised, tmp_path, program
):
    (tmp_path / "start").write_text(WAITS[program])
    job = supervised("--standalone", "2", *ASIDE, "--", program, "start")
    assert job.end() == 3
    said = f"start it once, with --method once -- {program} start ..."
    assert said in job.events[-1]["reason"]


WORKERS = """
import os, subprocess, sys
shown = {name: os.environ[name] for name in os.environ if name not in sys.argv}
children = [subprocess.Popen(["sleep", "60"], env=env) for env in (None, None, shown)]
sys.exit(5)
"""


@pytest.mark.parametrize("hidden", ["", "LOCAL_RANK", "RANK"])
def test_helpers_of_a_rank_are_no_ranks(supervised, hidden):
    """Some overwrite variables when they give themselves a title, as those of Ray do."""
    job = supervised("--standalone", "2", *ASIDE, *python(WORKERS), hidden)
    assert job.end() == 5
    assert "--method once" not in job.events[-1]["reason"]


IS_TAKEN = """
import os
if os.environ["RANK"] != "0":
    os.read(os.pipe()[0], 1)
raise RuntimeError(
    "The server socket has failed to listen on any local network address. port: "
    f"{os.environ['MASTER_PORT']}, useIpv6: false, code: -98, name: EADDRINUSE, message: address "
    "already in use"
)
"""


@pytest.mark.parametrize("held", [True, False])
def test_a_port_that_is_in_use_is_told_with_its_holder(supervised, held):
    port = free_port()
    with socket.socket() as holder:
        if held:
            holder.bind(("127.0.0.1", port))
            holder.listen()
        options = ("--standalone", "2", "--master-port", str(port), *ASIDE)
        job = supervised(*options, *python(IS_TAKEN))
        assert job.end() == 1
    reason = job.events[-1]["reason"]
    if held:
        assert f"port {port} is in use by another process, " in reason
        assert f"another process, {os.getpid()} (state " in reason
        assert "end it, or give this job another port with --master-port" in reason
    else:
        assert f"port {port} was in use, and is free again: if the command is a launcher" in reason
        assert "start it once, with --method once; if another job uses the port, " in reason
