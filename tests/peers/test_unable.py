"""A server of several that cannot start its ranks, or end them, for a reason of its own."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.facilities import cgroup, failing_disk, inside
from tests.peers.servers import RANK, Job
from tests.peers.test_leaving import fail, on, started
from tests.peers.test_without_rank_table import rank_of, succeed, waits_as_a_spare
from tests.running import Running, wait_until

Obstacle = Callable[[], object]


@contextmanager
def a_missing_program(place: Path, options: dict[str, Any]) -> Iterator[Obstacle]:
    program = place / "python"
    program.symlink_to(sys.executable)
    options["command"] = (str(program), "-c", RANK)
    yield program.unlink


@contextmanager
def a_read_only_disk(place: Path, options: dict[str, Any]) -> Iterator[Obstacle]:
    with failing_disk(place / "disk", os.geteuid()) as fail:
        options["words"] = ("--log-dir", str(place / "disk" / "logs"))
        yield fail


@contextmanager
def a_lost_directory(place: Path, options: dict[str, Any]) -> Iterator[Obstacle]:
    work = place / "work"
    options["words"] = ("--work-dir", str(work))

    def lose() -> None:
        shutil.rmtree(work, ignore_errors=True)
        work.touch()

    yield lose


@contextmanager
def no_more_processes(place: Path, options: dict[str, Any]) -> Iterator[Obstacle]:
    with cgroup("pids") as group:
        options["before"] = inside(group)
        yield lambda: (group / "pids.max").write_text("1")


OBSTACLES = {
    "there is no": a_missing_program,
    "Read-only file system": a_read_only_disk,
    "cannot make the directory": a_lost_directory,
    "the machine has no room for another": no_more_processes,
}
"""What its last sentence says."""


@pytest.fixture(params=OBSTACLES)
def obstacle(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[str, dict[str, Any], Obstacle]]:
    """The words, how its server is to be started, and what makes it fail from then on."""
    options: dict[str, Any] = {}
    with OBSTACLES[request.param](tmp_path, options) as begin:
        yield request.param, options, begin


def test_a_server_that_cannot_start_its_ranks_leaves_to_a_spare_at_no_charge(
    spared: Job, obstacle: tuple[str, dict[str, Any], Obstacle]
):
    """Before the first generation, in which a server that waits for its place is there."""
    words, how, begin = obstacle
    place = ("--node-rank", "1", *how.pop("words", ()))
    bad = spared.start(1, *place, **on("n1"), **how)
    bad.wait_for("peers.waiting", missing=[0])
    spare = spared.start(2, "--node-rank", "1", **on("n2"))
    spare.wait_for("peers.waiting", missing=[])
    begin()
    good = spared.start(0, "--node-rank", "0", **on("n0"))
    assert bad.end() == 69
    end = bad.events[-1]
    assert end["reason"].startswith("this server cannot start its ranks: "), end["reason"]
    assert words in end["reason"]
    assert end["reason"].endswith("; we have left our place to a spare")
    succeed(1, good, spare)
    for server in (good, spare):
        assert server.wait_for("generation.started", generation=1)["restarts_left"] == 3
        assert all(one["free"] for one in server.all("restart.scheduled"))
        (told,) = server.all("peers.replaced")
        assert told["server"] == 1
        assert told["reason"].startswith("cannot start its ranks: ")


def test_a_server_that_has_no_room_for_a_restart_leaves_at_no_charge(spared: Job):
    with cgroup("pids") as group:
        good = spared.start(0, **on("n0"))
        good.wait_for("peers.joined")
        bad = spared.start(1, **on("n1"), before=inside(group))
        for server in (good, bad):
            server.wait_for("output", generation=0)
        spare = spared.start(2, **on("n2"))
        waits_as_a_spare(spare)
        (group / "pids.max").write_text("1")
        fail(good, 0)
        assert bad.end() == 69
        reason = bad.events[-1]["reason"]
        assert reason.startswith("this server cannot start its ranks: ")
        assert "raise the container's limit of pids" in reason
        succeed(2, good, spare)
    assert good.wait_for("generation.started", generation=2)["restarts_left"] == 2  # of three
    charged, *others = good.all("restart.scheduled")
    assert [charged["free"], *(one["free"] for one in others)] == [False, *([True] * len(others))]


def test_without_a_spare_it_tries_again_as_long_as_restarts_are_left(spared: Job):
    with cgroup("pids") as group:
        good = spared.start(0, **on("n0"))
        bad = spared.start(1, **on("n1"), before=inside(group))
        for server in (good, bad):
            server.wait_for("output", generation=0)
        (group / "pids.max").write_text("1")
        fail(good, 0)
        bad.wait_for("restart.scheduled", free=False, restarts_left=1)
        (group / "pids.max").write_text("max")
        last = bad.wait_for("process.started", generation=2)["generation"]
        succeed(last, good, bad)


def test_where_all_servers_lack_the_program_the_job_ends_although_a_spare_waits(
    spared: Job, tmp_path: Path
):
    program = tmp_path / "python"
    program.symlink_to(sys.executable)
    servers = started(spared, command=(str(program), "-c", RANK))
    program.unlink()
    fail(servers[0], 0)
    assert sorted(server.end() for server in servers) == [69, 127, 127]
    for server in servers:
        assert f"there is no '{program}'" in server.events[-1]["reason"]


@contextmanager
def frozen(rank: int) -> Iterator[None]:
    """As in a driver: state D, and SIGKILL waits until it is let go."""
    group = Path("/sys/fs/cgroup/freezer")
    if not group.is_dir():
        pytest.skip("this machine has no freezer of cgroup v1, in which SIGKILL waits")
    with cgroup("freezer") as made:
        (made / "cgroup.procs").write_text(str(rank))
        (made / "freezer.state").write_text("FROZEN")
        wait_until(lambda: (made / "freezer.state").read_text() == "FROZEN\n")
        try:
            yield
        finally:
            (made / "freezer.state").write_text("THAWED")


@pytest.mark.long
@pytest.mark.parametrize("has_spare", [True, False])
def test_a_server_whose_rank_waits_in_the_kernel_leaves_to_a_spare(spared: Job, has_spare: bool):
    good, bad, *spares = started(spared) if has_spare else pair(spared)
    place = rank_of(bad)
    child = bad.wait_for("process.started", generation=0)["child_pid"]
    with frozen(child):
        fail(good, 0)
        assert bad.end() == 69
        reason = bad.events[-1]["reason"]
        assert f"what is left cannot be ended: {child} (state D" in reason
        if has_spare:
            assert reason.endswith("; we have left our place to a spare")
            succeed(1, good, *spares)
            (restart,) = good.all("restart.scheduled")
            assert (restart["free"], restart["restarts_left"]) == (False, 2)
            (told,) = good.all("peers.replaced")
            assert told["server"] == place
            assert told["reason"].startswith("cannot go on: what is left cannot be ended: ")
        else:
            assert good.end() == 69


def pair(spared: Job) -> list[Running]:
    servers = [spared.start(number, **on(f"n{number}")) for number in range(2)]
    for server in servers:
        server.wait_for("output", generation=0)
    return servers
