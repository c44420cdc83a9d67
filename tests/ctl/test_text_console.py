"""What ``explain`` reads in a supervisor's console for people, as ``--console text`` shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ctl.test_json_console import FULL, console, explained


def text(tmp_path: Path, of_rank_1: str, *options: str) -> list[str]:
    return console(tmp_path, of_rank_1, *options, "--console", "text")


def test_the_rank_is_told_whose_label_the_lines_have(tmp_path):
    lines = text(tmp_path, FULL)
    head, place, line = explained(tmp_path, lines)
    assert head.endswith(" [disk-full]")
    assert place == "  rank 1; see docs/causes.md#disk-full"
    assert line == "  OSError: [Errno 28] No space left on device: 'ckpt.pt'"


def test_a_part_of_it_with_nothing_but_labelled_lines_is_enough(tmp_path):
    labelled = [line for line in text(tmp_path, FULL) if line.startswith("[rank ")]
    assert explained(tmp_path, labelled)[1].startswith("  rank 1; see ")


@pytest.mark.parametrize("label", ["[rank    1] ", "[torchrun] [rank1]: "])
def test_a_label_may_be_aligned_or_that_of_a_launcher(tmp_path, label):
    lines = text(tmp_path, FULL)
    other = [line.replace("[rank 1] ", label) for line in lines]
    assert explained(tmp_path, other)[1].startswith("  rank 1; see ")


def test_of_several_generations_the_last_one_counts(tmp_path):
    lines = text(tmp_path, FULL, "--restarts", "1", "--restart-delay", "0.1")
    second = max(at for at, line in enumerate(lines) if "generation 1 starts" in line)
    assert explained(tmp_path, lines[: second + 1], 1)[0].startswith("-: no known cause")


def test_without_a_cause_it_shows_what_the_supervisor_says_of_the_end(tmp_path):
    (told,) = explained(tmp_path, text(tmp_path, "raise SystemExit(3)"), 1)
    assert told.startswith("-: no known cause; it ended with: rank 1 failed first, ")
