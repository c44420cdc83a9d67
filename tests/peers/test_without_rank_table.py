"""Servers of a job for which nobody writes a rank table, and spares beside them."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.peers.servers import RANK, Job
from tests.running import Running

MEETS = """
import os, re, signal, sys, time
signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))
told = re.search("tcp://(.*):", " ".join(sys.argv))
os.write(1, f"meets at {told[1] if told else os.environ['MASTER_ADDR']}\\n".encode())
while True: time.sleep(0.1)
"""
"""Says where the ranks meet, by its arguments (torch-ddp) or its environment."""


def test_two_servers_make_one_table_and_meet_at_the_address_of_the_first(spared: Job):
    spared.servers = [spared.start(0, "--node-rank", "1"), spared.start(1, "--node-rank", "0")]
    ready = [server.wait_for("rank_table.ready") for server in spared.servers]
    assert [one["local_ranks"] for one in ready] == [[1], [0]]
    assert ready[0]["sha256"] == ready[1]["sha256"]
    assert [one["warnings"] for one in ready] == [[], []]
    for server, rank in zip(spared.servers, (1, 0), strict=True):
        server.wait_for("output", msg=f"{rank} of 2 meets the others at 127.0.0.1")
        (file,) = Path(server.root).rglob("jobstart_hccl.json")
        table = json.loads(file.read_bytes())
        assert [one["host_ip"] for one in table["server_list"]] == ["127.0.0.1"] * 2
    third = spared.start(2, "--node-rank", "1")
    waiting = third.wait_for("peers.waiting", missing=[])
    assert "the place of server 1 is held by another supervisor, on" in waiting["msg"]


def test_a_spare_takes_the_place_of_a_supervisor_that_was_killed(spared: Job):
    first, second, spare = started(spared)
    lost = rank_of(second)
    second.process.kill()
    (here,) = spare.wait_for("rank_table.ready")["local_ranks"]
    assert here == lost
    spare.wait_for("output", generation=1, msg=f"rank {lost} runs")
    (restart,) = first.all("restart.scheduled")
    assert restart["cause"].startswith(f"server {lost} was lost (")
    assert restart["restarts_left"] == 2
    succeed(1, first, spare)


@pytest.mark.parametrize("method", ["ranktable", "torch-ddp"])
def test_ranks_meet_at_the_spare_that_takes_the_place_of_the_first_server(spared: Job, method):
    """The platform goes on to name the one that was lost."""
    environ = {"VC_WORKER_HOSTS": "w-0.job,w-1.job", "VC_TASK_INDEX": "", "MASTER_ADDR": "w-0.job"}
    command = (sys.executable, "-c", MEETS)

    def start(number: int, *words: str) -> Running:
        options = ("--method", method, "--server-id", f"127.0.0.{number + 11}", *words)
        return spared.start(number, *options, environ=environ, command=command)

    first, second = start(0, "--node-rank", "0"), start(1, "--node-rank", "1")
    for server in (first, second):
        server.wait_for("output", msg="meets at 127.0.0.11")
    spare = start(2)
    waits_as_a_spare(spare)
    first.process.kill()
    for server in (second, spare):
        server.wait_for("output", generation=1, msg="meets at 127.0.0.13")
    succeed(1, second, spare)


def test_a_spare_takes_the_place_of_a_server_that_has_left_and_ends_with_the_job(spared: Job):
    first, second, spare = started(spared)
    second.send(signal.SIGTERM)
    assert second.end() == 143
    spare.wait_for("generation.started", generation=1)
    (restart,) = first.all("restart.scheduled")
    assert restart["free"]
    later = spared.start(1, place="-later")
    waits_as_a_spare(later)
    succeed(1, first, spare)
    assert later.end() == 0
    assert not later.all("generation.started")


def test_a_spare_that_is_told_to_stop_ends_and_writes_nothing(spared: Job):
    first, second, spare = started(spared)
    before = records(spared)
    spare.send(signal.SIGTERM)
    assert spare.end() == 143
    assert records(spared) == before
    succeed(0, first, second)


def records(spared: Job) -> list[str]:
    """All of the job but those of spares, which go with their leases."""
    found = spared.etcd.control("get", "--prefix", "/").splitlines()
    pairs = zip(found[::2], found[1::2], strict=True)
    return [f"{key}: {value}" for key, value in pairs if "/spare/" not in key]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """What ranks run, in a file: without one there is no standby."""
    (tmp_path / "train.py").write_text(RANK)
    return tmp_path / "train.py"


def test_a_spare_that_has_made_its_imports_takes_a_place_warm(spared: Job, script):
    first, second, spare = started(spared, "--warm", command=(sys.executable, str(script)))
    assert spare.wait_for("standbys.ready")["standbys"] == 1
    lost = rank_of(second)
    second.process.kill()
    spare.wait_for("output", generation=1, msg=f"rank {lost} runs")
    assert spare.wait_for("process.started", generation=1)["warm"]
    spare.wait_for("output", msg=f"{lost} of 2 meets the others at 127.0.0.1")
    succeed(1, first, spare)
    assert not spare.all("diagnostic", source="--warm")
    assert not spare.survivors()


@pytest.mark.parametrize("status", [0, 143])
def test_standbys_of_a_spare_that_is_not_needed_end_with_it(spared: Job, script, status):
    first, second, spare = started(spared, "--warm", command=(sys.executable, str(script)))
    spare.wait_for("standbys.ready")
    assert any("warm_rank.py" in one for one in spare.survivors())
    if status:
        spare.send(signal.SIGTERM)
        assert spare.end() == status
    succeed(0, first, second)
    assert spare.end() == status
    assert not spare.survivors()


def started(spared: Job, *options: str, **how: Any) -> list[Running]:
    """Two servers whose ranks run, and a spare."""
    two = [spared.start(number, *options, **how) for number in range(2)]
    for server in two:
        server.wait_for("output")
    spare = spared.start(2, *options, **how)
    waits_as_a_spare(spare)
    return [*two, spare]


def waits_as_a_spare(server: Running) -> None:
    waiting = server.wait_for("peers.waiting", missing=[])
    while "this is a spare" not in waiting["msg"]:
        waiting = server.wait_for("peers.waiting", missing=[], seq=waiting["seq"] + 1)
    assert "2 servers run; this one takes the place of one that is lost" in waiting["msg"]


def rank_of(server: Running) -> int:
    (rank,) = server.wait_for("rank_table.ready")["local_ranks"]
    return int(rank)


def succeed(generation: int, *servers: Running) -> None:
    """Their ranks end with 0, and so do they."""
    for server in servers:
        server.wait_for("output", generation=generation)
        rank = server.wait_for("process.started", generation=generation)["child_pid"]
        os.kill(rank, signal.SIGUSR2)
    assert [server.end() for server in servers] == [0] * len(servers)
