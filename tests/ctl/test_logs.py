"""The logs that a state file names, printed and followed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_supervisor.ctl.logs import RankTails, follow_logs
from ascend_supervisor.ctl.state import State, StateUnknown, read_state_file
from tests.ctl.calling import ctl, own_state, rank_of, refused


class Following:
    """``logs -f`` of a rank while others act: each look at the state comes after a step."""

    def __init__(self, state_file: Path, *steps: Callable[[], object]) -> None:
        self.put = bytearray()
        self.told: list[str] = []
        self._state_file = state_file
        self._steps = iter(steps)

    def run(self, rank: int) -> None:
        logs = RankTails(rank, self.put.extend, None)
        follow_logs(logs, read_state_file(self._state_file), self._read, self.told.append)

    def _read(self) -> State:
        next(self._steps)()
        return read_state_file(self._state_file)


def test_logs_of_a_rank_that_is_not_here_names_those_that_are(tmp_path):
    ranks = [rank_of(tmp_path / "log", rank) for rank in (8, 9, 10, 12)]
    path = own_state(tmp_path / "state", ranks=ranks)
    assert "8-10,12" in refused(1, "logs", "0", "--state-file", str(path))


def test_logs_before_any_rank_has_started_says_why_there_are_none(tmp_path):
    path = own_state(tmp_path / "state", phase="waiting", why="waiting for the table")
    assert "waiting for the table" in refused(1, "logs", "--state-file", str(path))


@pytest.mark.parametrize("make", [lambda _: None, os.mkdir, os.mkfifo])
def test_a_log_that_cannot_be_read_is_told_and_does_not_hide_the_others(tmp_path, make):
    make(tmp_path / "bad")
    (tmp_path / "good").write_text("fine, without an end")
    ranks = [rank_of(tmp_path / "bad", 0), rank_of(tmp_path / "good", None)]
    path = own_state(tmp_path / "state", ranks=ranks)
    found = ctl("logs", "--state-file", str(path))
    assert (found.returncode, found.stdout) == (1, "[good] fine, without an end\n")
    assert str(tmp_path / "bad") in found.stderr


def test_following_waits_for_a_rank_that_has_not_started(tmp_path):
    log = tmp_path / "log"
    path = own_state(tmp_path / "state", phase="waiting", why="no table yet")

    def start() -> None:
        own_state(path, ranks=[rank_of(log)], phase="ended", exit_code=0)
        log.write_text("here\n")

    following = Following(path, lambda: None, start, lambda: None)
    following.run(0)
    assert "no table yet; waiting for it" in following.told[0]
    assert following.put == b"here\n"


def test_following_a_rank_that_never_was_is_refused_in_the_end(tmp_path):
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log")])

    def end() -> None:
        own_state(path, ranks=[rank_of(tmp_path / "log")], phase="ended", exit_code=0)

    following = Following(path, lambda: None, end)
    with pytest.raises(StateUnknown, match="rank 5"):
        following.run(5)
    assert "rank 5" in following.told[0]


def test_following_outlives_a_state_file_that_is_gone(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\n")
    path = own_state(tmp_path / "state", ranks=[rank_of(log)])

    def remove() -> None:
        path.unlink()
        with log.open("a") as more:
            more.write("two\n")

    def end() -> None:
        assert following.put == b"one\ntwo\n"
        own_state(path, ranks=[rank_of(log)], phase="ended", exit_code=0)

    following = Following(path, lambda: None, remove, end)
    following.run(0)
    assert following.put == b"one\ntwo\n"
