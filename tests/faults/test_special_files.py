"""Devices, pipes, sockets and links where we write: none is ever replaced, as root neither.

The nodes are made in the test's own directory. /dev/null itself would be gone for the machine.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.test_planted import EVENTS, JOB, LOG, ROTATED, STATE, TALK
from tests.running import Running

ORDINARY = pytest.mark.parametrize("way", ["ordinary"], indirect=True)
"""Only root can make a device, and it may write to all of them."""

NULL, FULL = os.makedev(1, 3), os.makedev(1, 7)
RAM = os.makedev(241, 99)
"""A block device that no driver has."""


def node(kind: int, device: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        if os.geteuid():
            pytest.skip("to make a device needs root")
        os.mknod(path, kind | 0o600, device)

    return make


def listening(path: Path) -> None:
    folder = os.open(path.parent, os.O_PATH)
    made = socket.socket(socket.AF_UNIX)
    made.bind(f"/proc/self/fd/{folder}/{path.name}")  # the path itself may be too long
    made.close()
    os.close(folder)


KINDS: dict[str, Callable[[Path], None]] = {
    "null": node(stat.S_IFCHR, NULL),
    "full": node(stat.S_IFCHR, FULL),
    "block device": node(stat.S_IFBLK, RAM),
    "pipe": os.mkfifo,
    "socket": listening,
    "directory": Path.mkdir,
    "link to a device": lambda path: path.symlink_to(os.devnull),
    "link to a file": lambda path: path.symlink_to(path.parent / "precious"),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


class Node:
    """What lies at ``path``, and that it still does."""

    def __init__(self, path: Path, kind: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "precious").write_text("precious")
        KINDS[kind](path)
        self.path = path
        self._before = self._identity()

    @property
    def is_untouched(self) -> bool:
        is_same = self._identity() == self._before
        return is_same and (self.path.parent / "precious").read_text() == "precious"

    def _identity(self) -> tuple[int, int, int]:
        found = self.path.lstat()
        return found.st_ino, found.st_mode, found.st_rdev


@pytest.fixture
def start(bad_day: Callable[..., Running], place: Path) -> Callable[..., Running]:
    def start(*words: str) -> Running:
        return bad_day(
            *("--standalone", "1", "--work-dir", str(place / "work")),
            *words,
            environ={"MA_MOUNT_PATH": ""},
        )

    return start


def told(job: Running) -> str:
    return job.stderr + "".join(f"{event['msg']}\n" for event in job.events)


@ORDINARY
@EACH_KIND
def test_a_state_file_that_is_no_file_is_refused(start, place, kind):
    found = Node(place / "here" / "state", kind)
    beside = sorted(found.path.parent.iterdir())
    words = ("--log-dir", str(place / "log"), "--state-file", str(found.path))
    job = start(*words, "--", "true")
    assert job.end() == 73
    assert f"--state-file {found.path}: expected a regular file" in told(job)
    assert found.is_untouched
    assert sorted(found.path.parent.iterdir()) == beside
    assert not (place / "log").exists()


@ORDINARY
def test_a_state_file_below_a_device_is_refused(start, place):
    found = Node(place / "here" / "null", "null")
    words = ("--log-dir", str(place / "log"), "--state-file", str(found.path / "state.json"))
    job = start(*words, "--", "true")
    assert job.end() == 73
    assert f"{found.path} is not one" in told(job)
    assert found.is_untouched


@ORDINARY
@EACH_KIND
@pytest.mark.parametrize(
    "name", [STATE, f"{STATE}.lock", f"{STATE}.sock", f"{STATE}.notify", EVENTS]
)
def test_what_lies_where_our_files_go_stays_and_the_job_runs(start, place, kind, name):
    if name.endswith((".sock", ".notify")) and kind == "socket":
        pytest.skip("a socket that nobody listens at is one of an earlier start")
    found = Node(place / "log" / name, kind)
    job = start("--log-dir", str(place / "log"), "--", "true")
    assert job.end() == 0
    assert found.is_untouched
    assert not job.all("supervisor.defect")
    if not name.endswith((".sock", ".notify")) and (name, kind) != (EVENTS, "null"):
        assert str(found.path) in told(job)


@ORDINARY
@EACH_KIND
def test_the_copy_of_the_table_replaces_files_only(start, place, kind):
    found = Node(place / "log" / JOB / "rank_table" / "jobstart_hccl.json", kind)
    job = start("--log-dir", str(place / "log"), "--", "true")
    assert job.end() == 73
    assert str(found.path) in told(job)
    assert found.is_untouched


@ORDINARY
@EACH_KIND
@pytest.mark.parametrize("number", [1, 2])
def test_rotation_replaces_files_only_and_loses_no_line(start, place, kind, number):
    log = place / "log" / LOG
    found = Node(log.with_name(f"{LOG}.{number}"), kind)
    options = ("--log-max-size", "32KiB", "--log-keep", str(number))
    job = start("--log-dir", str(place / "log"), *options, "--", "sh", "-c", TALK, str(log))
    assert job.end() == 0
    assert found.is_untouched


@ORDINARY
@pytest.mark.parametrize("kind", ["null", "full", "pipe"])
def test_a_log_goes_into_a_device_as_it_is(start, place, kind):
    found = Node(place / "log" / LOG, kind)
    reader = os.open(found.path, os.O_RDONLY | os.O_NONBLOCK)
    job = start("--log-dir", str(place / "log"), *ROTATED, "--", "echo", "hello")
    assert job.end() == (73 if kind == "full" else 0)
    assert found.is_untouched
    if kind == "pipe":
        assert b"hello\n" in os.read(reader, 1 << 16)
    os.close(reader)


@ORDINARY
@pytest.mark.parametrize("kind", ["block device", "socket", "directory", "link to a device"])
def test_a_log_that_nobody_means_is_refused(start, place, kind):
    found = Node(place / "log" / LOG, kind)
    job = start("--log-dir", str(place / "log"), "--", "true")
    assert job.end() == 73
    why = "Is a directory" if kind == "directory" else "it is "
    assert f"cannot write its log {found.path}: {why}" in told(job)
    assert found.is_untouched


@ORDINARY
@EACH_KIND
def test_the_termination_log_is_written_in_place_or_refused(start, place, kind):
    found = Node(place / "here" / "end", kind)
    is_pipe = kind == "pipe"
    reader = os.open(found.path, os.O_RDONLY | os.O_NONBLOCK) if is_pipe else -1
    log = ("--log-dir", str(place / "log"))
    job = start(*log, "--termination-log", str(found.path), "--", "sh", "-c", "exit 3")
    assert job.end() == 3
    assert found.is_untouched
    complains = f"the termination log: {found.path} cannot be written" in job.stderr
    assert complains == (kind not in {"null", "pipe"})
    if is_pipe:
        assert b"exited with status 3" in os.read(reader, 1 << 16)
        os.close(reader)


@EACH_KIND
def test_a_converted_table_replaces_files_only(tmp_path, kind):
    found = Node(tmp_path / "here" / "out", kind)
    table = tmp_path / "table.json"
    device = {"device_id": "0", "device_ip": "192.168.100.1", "rank_id": "0"}
    servers = [{"server_id": "10.0.0.1", "device": [device]}]
    keys = {"version": "1.0", "server_count": "1", "status": "completed", "server_list": servers}
    table.write_text(json.dumps(keys))
    done = subprocess.run(
        [sys.executable, "-m", "ascend_supervisor.ctl", "convert", str(table), "-o", found.path],
        check=False,
        capture_output=True,
        text=True,
    )
    if kind == "link to a file":  # which is what the operator has named
        assert done.returncode == 0
        assert found.path.is_symlink()
        return
    assert done.returncode == 73, done.stderr
    assert f"{found.path} cannot be written: it is" in done.stderr
    assert found.is_untouched
