"""The simulated cluster itself: its files, its clock, its networks."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.rank_table import NotReady, RankTable
from tests.recovery.diary import seconds
from tests.recovery.pods import network
from tests.recovery.supervisors import NEW_SECONDS, started
from tests.recovery.tables import members, super_pod, template_1, template_2, withdrawn
from tests.recovery.writers import ConfigMap, HostDirectory, reset_file, tear


@pytest.mark.parametrize("form", [template_2, template_1, super_pod])
def test_the_tables_are_good_ones(form):
    table = parse(form(members(3, cards=2)))
    assert isinstance(table, RankTable)
    assert table.world_size == 6
    missing = parse(withdrawn(form))
    assert isinstance(missing, NotReady)
    assert missing.is_said


def test_a_host_directory_is_written_in_place(tmp_path: Path):
    directory = HostDirectory(tmp_path / "config")
    directory.write({"reset.json": reset_file()})
    file = directory.path / "reset.json"
    before = file.stat().st_ino
    tear(file, reset_file(retry_time=1))
    with pytest.raises(ValueError, match="utf-8"):
        json.loads(file.read_bytes())
    directory.write({"reset.json": reset_file(retry_time=1)})
    assert json.loads(file.read_bytes())["RetryTime"] == 1
    assert file.stat().st_ino == before


def test_a_config_map_changes_as_a_whole(tmp_path: Path):
    directory = ConfigMap(tmp_path / "config")
    directory.write({"hccl.json": b"old", "version": b"1"})
    opened = (directory.path / "hccl.json").open("rb")
    directory.write({"hccl.json": b"new", "version": None})
    with opened:
        assert opened.read() == b"old"
    assert (directory.path / "hccl.json").read_bytes() == b"new"
    names = {path.name for path in directory.path.iterdir()}
    assert names == {"..data", "..moment_1", "hccl.json"}


def test_waits_of_hours_are_over_when_the_clock_is_moved(cluster):
    (pod,) = started(cluster, members(1), "--restarts", "1", "--release-delay", "7200")
    pod.signal(0, signal.SIGKILL)
    pod.then("restart.scheduled")
    cluster.move(7000)
    assert not pod.job.all("wait.ended")
    cluster.move(250)
    pod.up(1)
    cluster.stop()


def test_a_held_clock_lets_no_time_pass(cluster):
    (pod,) = started(cluster, members(1), "--restarts", "1", "--release-delay", "0.2")
    with cluster.held():
        pod.signal(0, signal.SIGKILL)
        pod.then("restart.scheduled")
        for _ in range(50):
            cluster.move(0.001)
        assert not pod.job.all("wait.ended")
    pod.up(1)
    cluster.stop()


def test_what_happened_is_kept_in_the_time_of_the_moved_clock(cluster, tmp_path: Path):
    (pod,) = started(cluster, members(1))
    with cluster.held():
        cluster.withdraw_table()
        cluster.move_until(lambda: pod.job.all("cluster.incident"))
    cluster.stop()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "9-of-an-earlier-run.jsonl").touch()
    cluster.keep_events(tmp_path / "kept")
    acts, told = kept = [
        [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted((tmp_path / "kept").iterdir())
    ]
    stamps = [[seconds(event["ts"]) for event in events] for events in kept]
    assert all(one == sorted(one) for one in stamps)
    assert [act["act"] for act in acts] == ["withdrawn"]
    (up,) = (event for event in told if event["event"] == "generation.started")
    (incident,) = (event for event in told if event["event"] == "cluster.incident")
    # When the machine is busy, the clock is moved further before the supervisor has looked.
    assert 5 <= seconds(incident["ts"]) - seconds(acts[0]["ts"]) <= 20
    assert seconds(incident["ts"]) - seconds(up["ts"]) > NEW_SECONDS + 5
    assert [event["path"] for event in told if event["event"] == "rank_table.ready"] == [
        "/user/serverid/devindex/config/hccl.json"
    ]


def test_each_supervisor_has_a_network_of_its_own(cluster):
    if not network():
        pytest.skip("a network for each supervisor needs root and unshare (Debian's util-linux)")
    pods = started(cluster, members(2))
    pids = ["self", *(str(pod.job.pid) for pod in pods)]
    assert len({Path(f"/proc/{pid}/ns/net").readlink() for pid in pids}) == 3
    cluster.stop()
