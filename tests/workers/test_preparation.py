"""What a generation needs before its first process: who is in the way of it, and what is told."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

import orjson
import pytest

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.errors import CannotExecute, CannotWrite, Unavailable
from ascend_supervisor.launchers.mindspore import MindSporeWords
from ascend_supervisor.launchers.msrun import MsrunTestimony
from ascend_supervisor.process_spec import ProcessSpec, WorkerLog
from ascend_supervisor.workers.preparation import keep_copy, prepare_all

EARLIER = b"a failure of yesterday\n"


def test_what_a_launchers_workers_left_at_an_earlier_start_is_set_aside(tmp_path: Path):
    """It would be shown, and believed, as if it were of this start."""
    logs = tuple(WorkerLog(tmp_path / f"worker_{rank}.log", rank, rank) for rank in range(2))
    for name in ("worker_0.log", "scheduler.log"):
        (tmp_path / name).write_bytes(EARLIER)
    testimony = MsrunTestimony(tmp_path, logs, MindSporeWords((), ""))
    spec = ProcessSpec(
        *(("true",), tmp_path, tmp_path / "log"), testimony=testimony, worker_logs=logs
    )
    prepare_all([spec], os.environ)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "worker_0.log.1": EARLIER,
        "scheduler.log.1": EARLIER,
    }


def test_a_command_that_cannot_be_looked_at_cannot_be_executed(tmp_path: Path):
    spec = ProcessSpec((f"./{'a' * 300}",), tmp_path, tmp_path / "log")
    with pytest.raises(CannotExecute, match="File name too long"):
        prepare_all([spec], os.environ)


@contextmanager
def no_file_left() -> Iterator[None]:
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)


def test_without_room_for_a_file_nothing_of_a_directory_is_blamed(tmp_path: Path):
    """What the machine lacks now it may have again: that is no end of the job."""
    (tmp_path / "bin").mkdir()
    files: dict[PurePath, bytes] = {tmp_path / "hosts": b"node-0\n"}
    specs = [ProcessSpec(("/bin/true",), tmp_path, tmp_path / "log", files=files)]
    with no_file_left(), pytest.raises(Unavailable, match=r"cannot write .*hosts: .*ulimit -n"):
        prepare_all(specs, os.environ)
    with no_file_left(), pytest.raises(Unavailable, match=r"the rank table: .*ulimit -n"):
        keep_copy(b"{}", tmp_path / "table.json")


def test_our_copy_is_replaced_whole(tmp_path):
    path = tmp_path / "rank_table" / "jobstart_hccl.json"
    for devices in (8, 1):
        keep_copy(standalone_table(devices).table.document, path)
        table = orjson.loads(path.read_bytes())
        assert len(table["server_list"][0]["device"]) == devices
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_copy_that_cannot_be_written_leaves_nothing(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(CannotWrite, match="File too large"):
            keep_copy(standalone_table(8).table.document, tmp_path / "copy.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_has_no_room_for_the_copy(small_disk):
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(CannotWrite, match=r"No space left on device; make room there, or choose "):
        keep_copy(standalone_table(8).table.document, small_disk / "copy.json")
    assert list(small_disk.iterdir()) == [ballast]
