"""What is kept on a machine of the failures that were first there."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ascend_supervisor.coordination.agreement.history import DAY_SECONDS, MOST_KEPT, FirstFailure
from ascend_supervisor.coordination.agreement.records import About, Cause
from ascend_supervisor.coordination.peers.kept_failures import (
    failure_on,
    keep_failure,
    kept_failures,
)

NOW = 1_764_000_000.0


def failure(generation: int, machine: str = "n1", at: float = NOW) -> FirstFailure:
    return FirstFailure(1, machine, "i1", generation, at, "rank 1 exited with status 7")


def test_a_supervisor_that_starts_again_here_knows_them(tmp_path: Path):
    state = tmp_path / "state.json"
    assert kept_failures(state, "n1", NOW) == ()
    for generation in (0, 1, 1):
        keep_failure(state, "n1", failure(generation), NOW)
    assert kept_failures(state, "n1", NOW) == (failure(0), failure(1))
    assert (tmp_path / "state.json.failures").stat().st_mode & 0o777 == 0o600


def test_those_of_another_machine_and_of_another_day_do_not_count(tmp_path: Path):
    """The directory may be shared, and a clock may be wrong."""
    state = tmp_path / "state.json"
    known = [failure(0, "n2"), failure(1, at=NOW - DAY_SECONDS), failure(2, at=NOW + DAY_SECONDS)]
    (tmp_path / "state.json.failures").write_bytes(msgspec.json.encode([*known, failure(3)]))
    assert kept_failures(state, "n1", NOW) == (failure(3),)


@pytest.mark.parametrize("found", [b"", b"{}", b'[{"server":-1}]', b"[" * 2000, b"\xff" * 70_000])
def test_a_file_that_is_damaged_counts_for_nothing(tmp_path: Path, found):
    state = tmp_path / "state.json"
    (tmp_path / "state.json.failures").write_bytes(found)
    assert kept_failures(state, "n1", NOW) == ()
    keep_failure(state, "n1", failure(0), NOW)
    assert kept_failures(state, "n1", NOW) == (failure(0),)


def test_the_last_ones_are_kept_and_a_directory_that_cannot_be_written_is_no_error(tmp_path: Path):
    for generation in range(MOST_KEPT + 2):
        keep_failure(tmp_path / "state.json", "n1", failure(generation), NOW)
    found = kept_failures(tmp_path / "state.json", "n1", NOW)
    assert [one.generation for one in found] == list(range(2, MOST_KEPT + 2))
    (tmp_path / "file").touch()
    keep_failure(tmp_path / "file" / "state.json", "n1", failure(0), NOW)


def test_only_the_first_failure_that_was_on_this_machine_is_kept():
    first = failure(0)
    about = About("s", "", cause=Cause(1, 7, first.reason, first=first))
    assert failure_on("n1", about) == first
    assert failure_on("n2", about) is None
    assert failure_on("n1", About("s", "", cause=Cause(1, 7, "a consequence"))) is None
    assert failure_on("n1", None) is None
