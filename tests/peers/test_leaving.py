"""A server that keeps failing leaves its place to a spare, and nobody else does."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.peers.servers import Job
from tests.peers.test_whole_job import peers
from tests.peers.test_without_rank_table import rank_of, succeed, waits_as_a_spare
from tests.running import Running, wait_until

CONNECTED = """
import os, signal, socket, sys, time
signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
place, other = os.path.join(sys.argv[1], os.environ["GENERATION"]), None
def succeed(*_):
    other.send(b"done")
    os._exit(0)
signal.signal(signal.SIGUSR2, succeed)
if os.environ["RANK"] == "0":
    server = socket.create_server(("127.0.0.1", 0))
    open(place + ".new", "w").write(str(server.getsockname()[1]))
    os.rename(place + ".new", place)
    other, _ = server.accept()
else:
    while not os.path.exists(place): time.sleep(0.05)
    other = socket.create_connection(("127.0.0.1", int(open(place).read())))
os.write(1, f"rank {os.environ['RANK']} runs\\n".encode())
if not other.recv(4):
    raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]")
"""
"""Two ranks with a connection: one that loses the other fails at once, and says so.

It ignores SIGTERM, which would often end it a moment earlier.
"""
TWICE = r"was the first to fail in 2 of the last 2 failures \(generation 0 at [0-9:]{5} UTC: (rank [01] exited with status 7); generation 1 at [0-9:]{5} UTC: \1\)"  # noqa: E501


def on(node: str) -> dict[str, Any]:
    """The node that Kubernetes names: each server is on a machine of its own."""
    return {"environ": {"NODE_NAME": node}}


def started(spared: Job, *options: str, **how: Any) -> list[Running]:
    """Two servers whose ranks run, on n0 and n1, and a spare on n2."""
    two = [spared.start(number, *options, **on(f"n{number}"), **how) for number in range(2)]
    for server in two:
        server.wait_for("output", generation=0)
    spare = spared.start(2, *options, **on("n2"), **how)
    waits_as_a_spare(spare)
    return [*two, spare]


def fail(server: Running, generation: int) -> None:
    """Its rank ends with 7."""
    server.wait_for("output", generation=generation)
    rank = server.wait_for("process.started", generation=generation)["child_pid"]
    os.kill(rank, signal.SIGUSR1)


def has_left(server: Running) -> None:
    assert server.end() == 69
    (end,) = server.all("supervisor.exited")
    assert re.search(f"; this server {TWICE}; a spare has taken its place$", end["reason"])


def test_a_server_that_is_the_first_to_fail_twice_is_out_and_the_job_goes_on(spared: Job):
    good, bad, spare = started(spared)
    place = rank_of(bad)
    fail(bad, 0)
    fail(bad, 1)
    has_left(bad)
    for server in (good, spare):
        told = server.wait_for("peers.replaced")
        assert told["server"] == place
        assert told["left"].endswith("node n1")
        assert told["by"].endswith("node n2")
        assert re.fullmatch(TWICE, told["reason"])
    assert spare.wait_for("rank_table.ready")["local_ranks"] == [place]
    wait_until(lambda: peers(good)["servers"][place]["phase"] == "running")
    word = peers(good)["servers"][place]["last_word"]
    first = "which was the first to fail in 2 of the last 2 failures"
    assert re.fullmatch(rf"runs generation 2 in place of .*node n1.*, {first}", word)
    assert [one["restarts_left"] for one in good.all("restart.scheduled")] == [2, 1]
    succeed(2, good, spare)


def test_a_server_whose_ranks_only_lose_those_of_the_bad_one_stays(spared: Job, tmp_path: Path):
    command = (sys.executable, "-c", CONNECTED, str(tmp_path))
    good, bad, spare = started(spared, "--rank-env", "GENERATION={generation}", command=command)
    fail(bad, 0)
    fail(bad, 1)
    has_left(bad)
    lost = [one["generation"] for one in good.all("process.exited") if one["status"] == 1]
    spare.wait_for("output", generation=2)
    last = good.wait_for("process.started", generation=2)["child_pid"]
    good.wait_for("output", generation=2)
    os.kill(last, signal.SIGUSR2)
    assert [good.end(), spare.end()] == [0, 0]
    assert lost, "no rank of the good server has failed with the bad one's"


def test_without_a_spare_nobody_leaves(spared: Job):
    good, bad = (spared.start(number, **on(f"n{number}")) for number in range(2))
    fail(bad, 0)
    fail(bad, 1)
    succeed(2, good, bad)


def test_where_it_is_switched_off_nobody_leaves(spared: Job):
    good, bad, spare = started(spared, "--peers-failures", "0")
    fail(bad, 0)
    fail(bad, 1)
    succeed(2, good, bad)
    assert spare.end() == 0


def test_a_server_that_comes_back_on_the_same_machine_takes_a_place_only_if_nobody_else_does(
    spared: Job,
):
    good, bad, spare = started(spared)
    fail(bad, 0)
    fail(bad, 1)
    has_left(bad)
    again = spared.start(1, place="-again", **on("n1"))
    waiting = again.wait_for("peers.waiting", missing=[])
    assert "it takes a place only if nobody else does" in waiting["msg"]
    other = spared.start(1, place="-other", **on("n3"))
    waits_as_a_spare(other)
    good.send(signal.SIGTERM)
    other.wait_for("output", generation=3)
    assert not again.all("generation.started")
    spare.send(signal.SIGTERM)
    succeed(4, other, again)
    assert [good.end(), spare.end()] == [143, 143]


@pytest.mark.parametrize("failures", ["2/3", "0"])
def test_a_server_that_is_not_fit_leaves_to_a_spare_at_no_charge(
    spared: Job, tmp_path: Path, failures: str
):
    check = f"sh -c 'test ! -e {tmp_path}/faulty-$NODE_NAME'"
    good, bad, spare = started(spared, "--server-check", check, "--peers-failures", failures)
    place = rank_of(bad)
    (tmp_path / "faulty-n1").touch()
    fail(good, 0)
    assert bad.end() == 69
    assert "this server is not fit for the job" in bad.events[-1]["reason"]
    succeed(2, good, spare)
    assert good.wait_for("generation.started", generation=2)["restarts_left"] == 2  # of three
    charged, *others = good.all("restart.scheduled")  # the next start may have been withdrawn
    assert [charged["free"], *(one["free"] for one in others)] == [False, *([True] * len(others))]
    for free in others:
        assert free["cause"].startswith(f"server {place} (")
        assert "this server is not fit for the job" in free["cause"]
    for server in (good, spare):
        (told,) = server.all("peers.replaced")
        assert told["server"] == place
        assert told["reason"].startswith("is not fit for the job: --server-check: found that sh")


def test_of_two_that_are_not_fit_one_leaves_for_one_spare_and_the_other_ends_the_job(
    spared: Job, tmp_path: Path
):
    check = f"sh -c 'test ! -e {tmp_path}/faulty-$NODE_NAME'"
    servers = started(spared, "--server-check", check)
    (tmp_path / "faulty-n0").touch()
    (tmp_path / "faulty-n1").touch()
    fail(servers[0], 0)
    assert [server.end() for server in servers] == [69, 69, 69]
    for server in servers:
        assert "this server is not fit for the job" in server.events[-1]["reason"]
        assert len(server.all("process.started")) <= 1
