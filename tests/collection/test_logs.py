"""Logs of ranks and of CANN: the ends and the newest first, within the room that there is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ascend_supervisor.collection.archive import NO_ROOM
from ascend_supervisor.collection.plogs import PlogRoot, add_plogs, find_plogs, job_roots
from ascend_supervisor.collection.rank_logs import add_rank_logs
from tests.collection.collecting import Collecting


def written(path: Path, content: bytes, age: float = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def test_where_there_is_room_a_log_is_taken_with_all_its_files(tmp_path):
    log = written(tmp_path / "rank-0.txt", b"new\n")
    written(tmp_path / "rank-0.txt.1", b"old\n", 1)
    written(tmp_path / "rank-0.txt.s1-p1", b"earlier\n", 2)
    written(tmp_path / "rank-0.txt-not-ours", b"other\n")
    case = Collecting()
    add_rank_logs(case.collector, [log], 0, 1000)
    assert case.end() == {
        "logs/rank-0.txt": b"new\n",
        "logs/rank-0.txt.1": b"old\n",
        "logs/rank-0.txt.s1-p1": b"earlier\n",
    }
    assert case.left_out == {}


def test_where_there_is_none_the_ends_are_taken_and_most_of_who_failed_first(tmp_path):
    failed = written(tmp_path / "rank-1.txt", b"x" * 90 + b"the error\n")
    written(tmp_path / "rank-1.txt.1", b"y" * 100, 1)
    other = written(tmp_path / "rank-0.txt", b"z" * 90 + b"lost peer\n")
    written(tmp_path / "rank-0.txt.1", b"w" * 100, 1)
    case = Collecting()
    add_rank_logs(case.collector, [failed, other], 1, 240)
    found = case.end()
    assert found["logs/rank-1.txt"] == b"x" * 90 + b"the error\n"
    assert found["logs/rank-1.txt.1"] == b"y" * 20
    assert found["logs/rank-0.txt.1"] == b"w" * 20
    (cut,) = (one for one in case.collector.taken if one.name == "logs/rank-1.txt.1")
    assert (cut.bytes, cut.bytes_before) == (20, 80)


def test_what_does_not_fit_at_all_is_told(tmp_path):
    log = written(tmp_path / "rank-0.txt", b"x" * 100)
    older = written(tmp_path / "rank-0.txt.1", b"x" * 100, 1)
    case = Collecting()
    add_rank_logs(case.collector, [log], 0, 50)
    assert case.end() == {"logs/rank-0.txt": b"x" * 50}
    assert case.left_out == {str(older): NO_ROOM}


def test_logs_of_the_same_name_in_two_directories_are_both_there(tmp_path):
    logs = [written(tmp_path / one / "log.txt", one.encode()) for one in ("a", "b")]
    case = Collecting()
    add_rank_logs(case.collector, logs, 0, 1000)
    assert case.end() == {"logs/log.txt": b"a", "logs/2/log.txt": b"b"}


@pytest.mark.parametrize(("kind", "why"), [("fifo", "a named pipe"), ("none", "No such file")])
def test_a_log_that_is_none_is_told_and_the_others_are_taken(tmp_path, kind, why):
    bad, good = tmp_path / "rank-0.txt", written(tmp_path / "rank-1.txt", b"good\n")
    if kind == "fifo":
        os.mkfifo(bad)
    case = Collecting()
    add_rank_logs(case.collector, [bad, good], 1, 1000)
    assert case.end() == {"logs/rank-1.txt": b"good\n"}
    assert why in case.left_out[str(bad)]


def test_two_hundred_ranks_have_the_same_room(tmp_path):
    logs = [written(tmp_path / f"rank-{rank}.txt", b"x" * 1000) for rank in range(200)]
    case = Collecting()
    add_rank_logs(case.collector, logs, 0, 20_000)
    assert {len(content) for content in case.end().values()} == {100}


def test_logs_of_cann_are_merged_as_ascend_fd_reads_them_the_newest_first(tmp_path):
    roots = [tmp_path / "job" / "ascend" / "process_log" / f"rank_{rank}" for rank in range(2)]
    written(roots[0] / "debug/plog/plog-11_20261126.log", b"old", 9)
    written(roots[1] / "debug/plog/plog-12_20261126.log", b"new", 1)
    written(roots[1] / "run/device-3/device-12_20261126.log", b"device", 2)
    written(roots[1] / "plog/plog-12_20200101.log", b"of CANN 5", 10)
    written(roots[1] / "debug/plog/passwd", b"planted")
    (roots[1] / "debug/plog/plog-13_1.log").symlink_to("/etc/passwd")
    case = Collecting()
    found = job_roots(case.collector, [tmp_path, tmp_path], "job")
    assert [root.path for root in found] == roots
    add_plogs(case.collector, find_plogs(case.collector, found))
    assert list(case.end().items()) == [
        ("process_log/debug/plog/plog-12_20261126.log", b"new"),
        ("process_log/run/device-3/device-12_20261126.log", b"device"),
        ("process_log/debug/plog/plog-11_20261126.log", b"old"),
        ("process_log/plog/plog-12_20200101.log", b"of CANN 5"),
    ]


def test_logs_of_cann_that_do_not_fit_are_counted(tmp_path):
    for age in range(4):
        written(tmp_path / "debug/plog" / f"plog-{age + 1}_1.log", b"x" * 10, age)
    case = Collecting(room=15)
    add_plogs(case.collector, find_plogs(case.collector, [PlogRoot(tmp_path)]))
    assert {name: len(content) for name, content in case.end().items()} == {
        "process_log/debug/plog/plog-1_1.log": 10,
        "process_log/debug/plog/plog-2_1.log": 5,
    }
    assert case.left_out == {"2 older logs of CANN with 20 bytes": NO_ROOM}


def test_logs_of_cann_from_before_the_job_are_of_others(tmp_path):
    written(tmp_path / "debug/plog/plog-1_1.log", b"before", 100)
    written(tmp_path / "debug/plog/plog-2_1.log", b"after", 1)
    case = Collecting()
    roots = [PlogRoot(tmp_path, since=1_000_000 - 50)]
    add_plogs(case.collector, find_plogs(case.collector, roots))
    assert list(case.end().values()) == [b"after"]


def test_where_there_are_no_logs_of_cann_or_none_that_may_be_read_it_is_told(tmp_path):
    (tmp_path / "a" / "debug").mkdir(parents=True)
    (tmp_path / "a" / "debug" / "plog").symlink_to("/root")
    (tmp_path / "b").write_bytes(b"no directory")
    case = Collecting()
    roots = [PlogRoot(tmp_path / name) for name in ("a", "b", "absent")]
    assert find_plogs(case.collector, roots) == []
    assert case.left_out[str(tmp_path / "b")] == "Not a directory"
    assert case.left_out["the logs of CANN"] == (
        f"there are none in {', '.join(str(root.path) for root in roots)}"
    )
    case.end()
