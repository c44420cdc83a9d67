"""By which word a server is known to be at the same place again."""

from __future__ import annotations

from pathlib import Path

from ascend_supervisor.coordination.peers.tables import place_beside


def test_the_next_supervisor_with_the_same_state_file_is_at_the_same_place(tmp_path: Path):
    state_file = tmp_path / "state.json"
    assert place_beside(state_file) == place_beside(state_file)
    assert place_beside(state_file) != place_beside(tmp_path / "other.json")


def test_another_machine_is_another_place_although_it_has_the_same_files(tmp_path: Path):
    boots = [tmp_path / "here", tmp_path / "there"]
    for boot in boots:
        boot.write_text(f"{boot.name}\n")
    here, there = (place_beside(tmp_path / "state.json", boot) for boot in boots)
    assert here != there


def test_a_word_that_was_damaged_is_replaced(tmp_path: Path):
    state_file = tmp_path / "state.json"
    (tmp_path / "state.json.place").write_bytes(b"\xff" * 16)
    assert place_beside(state_file) == place_beside(state_file)
