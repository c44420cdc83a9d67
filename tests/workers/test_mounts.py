"""What is mounted where, and whether a directory is on the root of a container."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import PurePath

import pytest

from ascend_supervisor.workers.plog_removal import (
    Mount,
    is_mounted_within,
    is_own_file_system,
    mounts,
)

ROOT = Mount(PurePath("/"), "overlay")
ODD = "a b\\c\td"


def test_the_root_and_proc_are_mounted():
    found = {str(one.point): one.kind for one in mounts()}
    assert found["/proc"] == "proc"
    assert "/" in found


def test_names_are_those_of_the_directories(tmp_path):
    place = tmp_path / ODD
    place.mkdir()
    ask = (
        "from ascend_supervisor.workers.plog_removal import mounts\n"
        "import sys\n"
        "print([one.kind for one in mounts() if str(one.point) == sys.argv[1]])"
    )
    script = 'mount -t tmpfs none "$1" && exec "$2" -c "$3" "$1"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", str(place), sys.executable, ask]
    if os.geteuid():
        pytest.skip("only root may mount")
    assert subprocess.run(words, check=True, capture_output=True, text=True).stdout == "['tmpfs']\n"


@pytest.mark.parametrize(
    ("place", "is_within"),
    [("/", True), ("/a", True), ("/a/b", True), ("/a/b/c", False), ("/a/bc", False), ("/c", False)],
)
def test_what_is_mounted_at_a_place_or_below_is_within(place, is_within):
    mounted = [ROOT, Mount(PurePath("/a/b"), "ext4")]
    assert is_mounted_within(PurePath(place), mounted) == is_within


@pytest.mark.parametrize(
    "mounted",
    [
        [],
        [Mount(PurePath("/"), "ext4")],
        [ROOT, Mount(PurePath("/"), "nfs4")],
        [ROOT, Mount(PurePath("/logs"), "ext4")],
        [ROOT, Mount(PurePath("/logs/a"), "overlay")],
        [ROOT, Mount(PurePath("/logs/a/debug"), "ext4")],
        [Mount(PurePath("/logs"), "overlay")],
    ],
)
def test_what_others_may_have_mounted_is_not_the_containers_own(mounted):
    assert not is_own_file_system(PurePath("/logs/a"), mounted)
