"""Directories without room, on real file systems."""

from __future__ import annotations

import os
import subprocess

import pytest

from ascend_supervisor.doctor.disks import room_on_disks
from tests.doctor.servers import server, verdicts

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")


@pytest.fixture
def disk(tmp_path):
    """``disk(options)``: a tmpfs."""
    place = tmp_path / "disk"
    place.mkdir()

    def mounted(options):
        mount = ("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place))
        subprocess.run(mount, check=True)
        return place

    yield mounted
    subprocess.run(("umount", str(place)), check=True)


def test_a_disk_that_is_nearly_full_is_told_once(disk, tmp_path):
    place = disk("size=70m")
    found = server(tmp_path, log_dir=place / "log", work_dir=place / "work")
    assert verdicts(room_on_disks(found)) == {"log directory": "fit", "work directory": "fit"}
    (place / "checkpoint").write_bytes(bytes(10 << 20))
    log, work = room_on_disks(found)
    assert (log.verdict, work.verdict) == ("warning", "fit")
    assert log.sentence == (
        f"log directory: found 60 MiB free for {place}/log, expected at least 64 MiB; remove old "
        "logs, or name another directory"
    )


def test_a_disk_without_inodes_is_told(disk, tmp_path):
    place = disk("size=70m,nr_inodes=20")
    log, _ = room_on_disks(server(tmp_path, log_dir=place))
    assert log.verdict == "warning"
    assert log.found == f"room for 19 more files (inodes) for {place}"
