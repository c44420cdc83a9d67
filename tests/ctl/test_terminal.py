"""What a rank wrote to steer the terminal, or to forge lines, as ctl shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ctl.calling import ctl, own_state, process, rank_of
from tests.terminals import FORGED, WORDS, Screen, steering

COLOURED = "\x1b[31mred\x1b[0m"


def steered(tmp_path: Path) -> Path:
    """A state file whose rank has tried; its log is below ``tmp_path``."""
    text = "\n".join([COLOURED, *WORDS, FORGED])
    (tmp_path / "log").write_text(text + "\n", newline="")
    cause = f"rank 0 failed first\nit raised: x\n{text}"
    return own_state(
        tmp_path / "state", ranks=[rank_of(tmp_path / "log")], root_cause=cause, why=text
    )


def on_screen(path: Path, *words: str, before: tuple[str, ...] = ()) -> str:
    screen = Screen()
    process(*words, "--state-file", str(path), before=before, stdout=screen.stdout)
    return screen.text()


def test_logs_of_all_ranks_steer_no_terminal_and_forge_no_line(tmp_path):
    path = steered(tmp_path)
    text = ctl("logs", "--state-file", str(path)).stdout
    assert not steering(text)
    assert "\x1b" not in text
    assert all(line.startswith("[rank 0] ") for line in text.split("\n")[:-1])
    assert text.count(FORGED) == "\n".join([*WORDS, FORGED]).count(FORGED)


@pytest.mark.parametrize("rank", [[], ["0"]])
def test_on_a_terminal_only_colours_survive(tmp_path, rank):
    text = on_screen(steered(tmp_path), "logs", *rank)
    assert not steering(text)
    assert COLOURED in text
    assert FORGED in text


def test_a_terminal_that_follows_one_rank_is_not_steered_either(tmp_path):
    path = steered(tmp_path)
    own_state(path, ranks=[rank_of(tmp_path / "log")], phase="ended", exit_code=0)
    text = on_screen(path, "logs", "-f", "0")
    assert not steering(text)
    assert COLOURED in text


def test_the_log_of_one_rank_is_raw_where_stdout_is_no_terminal(tmp_path):
    path = steered(tmp_path)
    printed = ctl("logs", "0", "--state-file", str(path)).stdout
    assert printed == (tmp_path / "log").read_bytes().decode()


def test_status_steers_no_terminal_and_shows_a_ranks_lines_indented(tmp_path):
    text = ctl("status", "--state-file", str(steered(tmp_path))).stdout
    assert not steering(text)
    assert "\x1b" not in text
    assert FORGED in text
    assert not [line for line in text.splitlines() if line.startswith(FORGED)]


@pytest.mark.parametrize("words", [["status"], ["status", "--watch"]])
def test_a_failed_rank_is_red_where_a_terminal_has_colours(tmp_path, words):
    failed = {**rank_of(tmp_path / "log"), "status": 1}
    path = own_state(tmp_path / "state", ranks=[failed], phase="ended", exit_code=1)
    assert "\x1b[31m0 " in on_screen(path, *words)
    plain = on_screen(path, *words, before=("env", "NO_COLOR=1"))
    assert "exit code" in plain
    assert "\x1b[31m" not in plain


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ((), "\x1b[32m[rank  2]\x1b[0m up\n"),
        (("--color", "never"), "[rank  2] up\n"),
        (("--color", "auto"), "\x1b[32m[rank  2]\x1b[0m up\n"),
    ],
)
def test_labels_on_a_terminal_are_aligned_and_coloured(tmp_path, options, label):
    path = tmp_path / "state.json"
    for rank in (2, 10):
        (tmp_path / f"log-{rank}").write_bytes(b" 10%\rup\n")
    ranks = [{**rank_of(tmp_path / f"log-{rank}"), "rank": rank} for rank in (2, 10)]
    own_state(path, ranks=ranks)
    text = on_screen(path, "logs", *options)
    assert text.startswith(label)
    assert "[rank 10]" in text
