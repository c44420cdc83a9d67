"""What a writer that was killed left is removed, and nothing else."""

from __future__ import annotations

import os
import tempfile
import threading

from ascend_supervisor.files.regular_file import remove_remnants, write_atomically


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path):
    path = tmp_path / "state.json"
    others = [
        tmp_path / name
        for name in ("state.json", ".state.json", ".state.json.bak", ".other.json.abcdefgh")
    ]
    for other in others:
        other.touch()
    tempfile.mkstemp(prefix=".state.json.", dir=tmp_path)
    remove_remnants(path)
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_a_directory_that_is_not_there_holds_no_remnants(tmp_path):
    remove_remnants(tmp_path / "none" / "state.json")


def test_a_writer_whose_work_is_taken_for_a_remnant_writes_again(tmp_path):
    path = tmp_path / "state.json"
    for _ in range(200):
        remover = threading.Thread(target=remove_remnants, args=(path,))
        remover.start()
        write_atomically(path, b"{}", 0o644)
        remover.join()
    assert [left.name for left in tmp_path.iterdir()] == ["state.json"]


def test_a_remnant_that_is_no_file_stays_and_hides_no_other(tmp_path):
    path = tmp_path / "state.json"
    os.mkfifo(tmp_path / ".state.json.aaaaaaaa")
    (tmp_path / ".state.json.bbbbbbbb").touch()
    (tmp_path / ".state.json.cccccccc").symlink_to(path)
    remove_remnants(path)
    left = sorted(left.name for left in tmp_path.iterdir())
    assert left == [".state.json.aaaaaaaa", ".state.json.cccccccc"]
