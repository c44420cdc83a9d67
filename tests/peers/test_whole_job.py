"""What each server tells of the whole job: while it runs, and at its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from typing import Any

from tests.running import Running, wait_until


def status(server: Running, *words: str) -> str:
    (state_file,) = (server.root / "modelarts").rglob("*-supervisor-*.json")
    command = (sys.executable, "-m", "ascend_supervisor.ctl", "status", *words)
    return subprocess.run(
        (*command, "--state-file", str(state_file)),
        check=True,
        timeout=30,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def peers(server: Running) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(status(server, "--json"))["live"]["peers"]
    return found


def phases(server: Running) -> list[str]:
    return [row["phase"] for row in peers(server)["servers"]]


def all_run(server: Running) -> bool:
    return phases(server) == ["running"] * 3


def test_every_server_shows_the_whole_job_and_names_its_first_failure_with_its_server(job):
    servers = job.start_all("--restarts", "0", "--termination-log", "modelarts/end.txt")
    for index, server in enumerate(servers):
        wait_until(partial(all_run, server))
        told = peers(server)
        assert (told["job"], told["server"]) == ("test", index)
        assert [row["server"] for row in told["servers"]] == [0, 1, 2]
        assert [row["host"] for row in told["servers"]] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
        assert {row["last_word"] for row in told["servers"]} == {"runs generation 0"}
    assert "1*      10.0.0.2  running" in status(servers[1])
    job.signal_rank(1, signal.SIGUSR2)
    wait_until(lambda: phases(servers[0]) == ["running", "done", "running"])

    job.signal_rank(2, signal.SIGUSR1)
    assert [server.end() for server in servers] == [7, 7, 7]
    for server in servers:
        last = server.events[-1]
        first = "rank 2 failed first, in generation 0: it exited with status 7"
        assert last["peers_server"] == 2
        assert last["reason"].startswith(first)
        assert "the cause is on server 2" in last["reason"]
        head = last["root_cause"].splitlines()[0]
        assert head.startswith(first)
        assert head.endswith(", on server 2")
        assert head in (server.root / "modelarts" / "end.txt").read_text()
        assert head in status(server)


def test_a_server_that_is_lost_is_shown_and_its_loss_is_the_cause(job):
    servers = job.start_all()
    servers[1].process.kill()
    restart = servers[0].wait_for("restart.scheduled")
    assert restart["peers_server"] == 1
    wait_until(lambda: phases(servers[0])[1] == "lost")
    (row,) = [row for row in peers(servers[2])["servers"] if row["server"] == 1]
    assert row["last_word"].startswith("server 1 was lost (pod ")
