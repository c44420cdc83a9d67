"""The logs that a state file names, printed and followed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ascend_supervisor.ctl.logs import RankLogsShown, Wanted, WholeLog, follow_logs
from ascend_supervisor.ctl.state import State, StateUnknown, read_state_file
from ascend_supervisor.settings.readers import RankSet
from tests.ctl.calling import ENVIRON, PROGRAM, ctl, own_state, rank_of, refused


class Following:
    """``logs -f`` of a rank while others act: each look at the state comes after a step."""

    def __init__(self, state_file: Path, *steps: Callable[[], object]) -> None:
        self.put = bytearray()
        self.told: list[str] = []
        self._state_file = state_file
        self._steps = iter(steps)

    def run(self, rank: int) -> None:
        wanted = Wanted((RankSet((range(rank, rank + 1),)),))
        logs = RankLogsShown(wanted, self.put.extend, None, partial(WholeLog, last_lines=None))
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


def six_lines(tmp_path: Path, ranks: int = 1) -> Path:
    """A state file whose ranks have each printed six lines."""
    listed = []
    for rank in range(ranks):
        log = tmp_path / f"log-{rank}"
        log.write_text("".join(f"{rank}.{number}\n" for number in range(6)))
        listed.append(rank_of(log, rank))
    return own_state(tmp_path / "state", ranks=listed)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["0"], "0.4\n0.5\n"),
        (["0-0"], "0.4\n0.5\n"),
        (["0,2"], "[rank 0] 0.4\n[rank 0] 0.5\n[rank 2] 2.4\n[rank 2] 2.5\n"),
    ],
)
def test_the_last_lines_of_the_ranks_that_are_named(tmp_path, words, expected):
    path = six_lines(tmp_path, 3)
    found = ctl("logs", "--tail", "2", *words, "--state-file", str(path))
    assert (found.returncode, found.stdout, found.stderr) == (0, expected, "")


def test_the_part_of_a_range_that_is_not_here_is_told(tmp_path):
    path = six_lines(tmp_path, 3)
    found = ctl("logs", "--tail", "1", "0", "2-9", "--state-file", str(path))
    assert (found.returncode, found.stdout) == (0, "[rank 0] 0.5\n[rank 2] 2.5\n")
    told = "ranks 3-9 are none of the ranks of pod-0, which are 0-2"
    assert found.stderr == f"ascend-supervisorctl: {told}\n"


def test_without_ranks_the_last_lines_of_all(tmp_path):
    found = ctl("logs", "--tail", "1", "--state-file", str(six_lines(tmp_path, 2)))
    assert found.stdout == "[rank 0] 0.5\n[rank 1] 1.5\n"


def test_no_last_line_is_none(tmp_path):
    assert ctl("logs", "--tail", "0", "--state-file", str(six_lines(tmp_path))) == (0, "", "")


def test_ranks_that_are_not_here_are_told_after_those_that_are(tmp_path):
    path = six_lines(tmp_path, 2)
    found = ctl("logs", "--tail", "1", "1", "5", "7-9", "--state-file", str(path))
    assert (found.returncode, found.stdout) == (1, "[rank 1] 1.5\n")
    assert "ranks 5,7-9 are none of the ranks of pod-0, which are 0-1" in found.stderr


def test_following_from_the_last_line_gives_all_that_comes(tmp_path):
    path = six_lines(tmp_path)
    with subprocess.Popen(
        [*PROGRAM, "logs", "-f", "--tail", "1", "0", "--state-file", str(path)],
        env=ENVIRON,
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout
        assert following.stdout.readline() == "0.5\n"
        with (tmp_path / "log-0").open("a") as more:
            more.write("0.6\n0.7\n")
        assert following.stdout.readline() == "0.6\n"
        assert following.stdout.readline() == "0.7\n"
        following.kill()
