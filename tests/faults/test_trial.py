"""A trial on a bad day."""

from __future__ import annotations

import os

from tests.faults.facilities import small_disk
from tests.trial.interpreters import interpreter
from tests.trial.trying import Tried


def test_where_the_disk_is_full_there_is_one_sentence_and_nothing_is_left(tmp_path):
    with small_disk(tmp_path / "disk", os.geteuid()) as disk:
        with (disk / "filler").open("wb") as filler:
            filler.write(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
        archive = disk / "x.tar.gz"
        tried = Tried(tmp_path, interpreter(tmp_path), "--limit", "1s", archive=archive)
        code, _, err = tried.ended()
        assert code == 73
        assert err == (
            f"ascend-supervisorctl: {archive} cannot be written: No space left on device; give "
            "another place with -o, or write to stdout with -o -\n"
        )
        assert [one.name for one in disk.iterdir()] == ["filler"]
