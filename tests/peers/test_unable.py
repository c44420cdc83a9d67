"""A server of several that cannot start its ranks, or end them, for a reason of its own."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor.processes.descriptors import holders
from tests.faults.facilities import cgroup, failing_disk, inside
from tests.peers.servers import RANK, TTL, Job, with_shorter
from tests.peers.test_leaving import fail, on, started
from tests.peers.test_without_rank_table import rank_of, succeed, waits_as_a_spare
from tests.running import Running, wait_until

Obstacle = Callable[[], object]
CANNOT_START = "this server cannot start its ranks: "


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
    assert end["reason"].startswith(CANNOT_START), end["reason"]
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
        assert reason.startswith(CANNOT_START)
        assert "raise the container's limit of pids" in reason
        succeed(2, good, spare)
    assert good.wait_for("generation.started", generation=2)["restarts_left"] == 2  # of three
    charged, *others = good.all("restart.scheduled")
    assert [charged["free"], *(one["free"] for one in others)] == [False, *([True] * len(others))]


@contextmanager
def a_server_without_threads(
    spared: Job, number: int, *options: str
) -> Iterator[tuple[Running, Path]]:
    """One that waits, and can start no thread and no process from then on; and its cgroup."""
    with cgroup("pids") as group:
        waits = spared.start(number, *options, **on(f"n{number}"), before=inside(group))
        waits.wait_for("peers.waiting")
        (group / "pids.max").write_text("1")
        yield waits, group


def test_a_server_waits_for_the_others_although_it_can_start_no_thread(spared: Job):
    with a_server_without_threads(spared, 1) as (waits, group):
        time.sleep(3 * TTL)
        assert waits.events[-1]["event"] == "peers.waiting", waits.events[-1]
        (group / "pids.max").write_text("max")
        good = spared.start(0, **on("n0"))
        succeed(0, good, waits)
    assert good.wait_for("generation.started", generation=0)["restarts_left"] == 3


def test_a_server_that_waits_for_the_others_and_can_start_no_thread_is_told_to_stop(spared: Job):
    with a_server_without_threads(spared, 1) as (waits, _):
        waits.send(signal.SIGTERM)
        assert waits.end() == 143
    good, other = spared.start(0, **on("n0")), spared.start(2, **on("n2"))
    succeed(0, good, other)


def test_a_spare_that_can_start_no_thread_takes_its_turn_and_starts_when_it_can(spared: Job):
    """A server without a spare: each try is charged."""
    slowly = ("--restart-delay", "5", "--restart-delay-max", "5")
    good, bad = pair(spared, *slowly)
    with a_server_without_threads(spared, 2, *slowly) as (spare, group):
        waits_as_a_spare(spare)
        bad.send(signal.SIGTERM)
        assert bad.end() == 143
        failed = spare.wait_for("restart.scheduled", free=False)
        (group / "pids.max").write_text("max")
        assert "no room for another" in failed["cause"]
        last = spare.wait_for("process.started")["generation"]
        succeed(last, good, spare)


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


HELD = """
cd "$1"
touch null davinci{number}
mount --bind /dev/null null
mount --rbind . /dev
mkdir etc
echo address_{number}=192.168.0.9 > etc/hccn.conf
mount -t overlay overlay -o lowerdir="$1/etc:/etc" /etc
hold='until [ -e hold ]; do sleep 0.1; done; exec sleep 600 < /dev/davinci{number}'
(setsid sh -c "$hold" > null 2>&1 &)
shift
exec "$@"
"""
"""A machine with an NPU, and a process of another job that opens it when the file says so."""
SOON = 4
"""The seconds for which an NPU is waited for here; in truth 600."""


@contextmanager
def another_job(place: Path, number: int) -> Iterator[tuple[dict[str, Any], Obstacle]]:
    """How to start a server whose NPU has this number, and what makes the other job take it."""
    if os.geteuid():
        pytest.skip("a /dev of our own needs root")
    devices = place / "devices"
    devices.mkdir()
    words = HELD.format(number=number)
    how = {
        "before": ("unshare", "--mount", "sh", "-e", "-c", words, "sh", str(devices)),
        "program": with_shorter(f"probes.devices.MOST_SECONDS={SOON}"),
    }

    def hold() -> None:
        (devices / "hold").touch()
        wait_until(lambda: holders(frozenset({f"/dev/davinci{number}"})))

    try:
        yield how, hold
    finally:
        for held_by in holders(frozenset({f"/dev/davinci{number}"})):
            os.kill(int(held_by.split()[0]), signal.SIGKILL)


def test_a_server_whose_npu_another_job_holds_leaves_to_a_spare_at_no_charge(
    spared: Job, tmp_path: Path
):
    with another_job(tmp_path, 11) as (how, hold):
        good, bad = spared.start(0, **on("n0")), spared.start(1, **on("n1"), **how)
        for server in (good, bad):
            server.wait_for("output", generation=0)
        spare = spared.start(2, **on("n2"))
        waits_as_a_spare(spare)
        hold()
        fail(good, 0)
        assert bad.end() == 69
        reason = bad.events[-1]["reason"]
        assert reason.startswith(
            "this server cannot start its ranks: the devices were not released"
        )
        assert reason.endswith("; we have left our place to a spare")
        assert bad.all("release.waiting")
        last = spare.wait_for("process.started")["generation"]
        succeed(last, good, spare)
    charged, *others = good.all("restart.scheduled")
    assert [charged["free"], *(one["free"] for one in others)] == [False, *([True] * len(others))]
    assert good.wait_for("generation.started", generation=last)["restarts_left"] == 2  # of three


def test_a_spare_takes_the_place_of_a_server_whose_npu_was_held_before_it_has_come(
    spared: Job, tmp_path: Path
):
    with another_job(tmp_path, 12) as (how, hold):
        bad = spared.start(1, "--node-rank", "1", **on("n1"), **how)
        hold()
        good = spared.start(0, "--node-rank", "0", **on("n0"))
        assert bad.end() == 69
        assert bad.events[-1]["reason"].startswith("the devices were not released within")
        spare = spared.start(2, "--node-rank", "1", **on("n2"))
        succeed(0, good, spare)
    assert good.wait_for("generation.started", generation=0)["restarts_left"] == 3


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


def pair(spared: Job, *options: str) -> list[Running]:
    servers = [spared.start(number, *options, **on(f"n{number}")) for number in range(2)]
    for server in servers:
        server.wait_for("output", generation=0)
    return servers
