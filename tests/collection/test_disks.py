"""Files that others may have planted, and file systems that do not answer."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from ascend_supervisor.collection.disks import Disks


def content(disks: Disks, path: Path, size: int | None = None) -> bytes:
    with disks.opened(path) as file:
        return b"".join(disks.end_of(file, file.size if size is None else size))


def test_of_a_file_that_grows_it_is_the_end_that_it_had(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    disks = Disks()
    with disks.opened(path) as file:
        with path.open("ab") as more:
            more.write(b"more")
        assert b"".join(disks.end_of(file, 4)) == b"6789"
        os.truncate(path, 7)
        assert b"".join(disks.end_of(file, 4)) == b"6"


@pytest.mark.parametrize("kind", ["fifo", "socket", "link", "directory", "loop", "device"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path, kind):
    path = tmp_path / "log"
    bound = socket.socket(socket.AF_UNIX)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        bound.bind(str(path))
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to({"link": "/etc/passwd", "loop": path, "device": "/dev/zero"}[kind])
    began = time.monotonic()
    with pytest.raises(OSError, match="it is"):
        content(Disks(), path)
    bound.close()
    assert time.monotonic() - began < 30


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away needs root")
def test_a_file_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"secret")
    os.chown(path, 4711, -1)
    assert content(Disks(), path) == b"secret"
    assert content(Disks(frozenset({4711})), path) == b"secret"
    with pytest.raises(PermissionError, match="it belongs to user 4711"):
        content(Disks(frozenset({os.geteuid()})), path)


def test_what_is_late_once_is_not_asked_again_nor_what_is_below_it(tmp_path):
    disks = Disks(seconds=0.1)
    with pytest.raises(TimeoutError, match=r"has not answered within 0\.1 s"):
        disks.ask(tmp_path, lambda: time.sleep(1))
    for place in (tmp_path, tmp_path / "job" / "msrun"):
        with pytest.raises(TimeoutError):
            disks.ask(place, lambda: pytest.fail("it was asked again"))
    assert disks.ask(tmp_path.parent, lambda: 3) == 3


def test_a_directory_lists_its_regular_files_only(tmp_path):
    (tmp_path / "a").write_bytes(b"12")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    disks = Disks()
    assert [(one.path.name, one.size) for one in disks.files_in(tmp_path)] == [("a", 2)]
    assert disks.directories_in(tmp_path) == [tmp_path / "folder"]
    with pytest.raises(FileNotFoundError):
        disks.directories_in(tmp_path / "absent")
