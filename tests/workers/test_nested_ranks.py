"""Which ranks have started ranks, as /proc shows it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ascend_supervisor.workers.descendants import starting_ranks
from tests.processes import fake_proc

RANK, CHILDREN = 10, tuple(range(11, 23))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A rank with children, each of which has a rank of its own."""
    fake_proc.make(tmp_path, {RANK: 1, **dict.fromkeys(CHILDREN, RANK)}, {})
    for pid in CHILDREN:
        (tmp_path / str(pid) / "environ").write_bytes(b"RANK=%d\0" % pid)
    return tmp_path


def test_a_rank_whose_children_have_ranks_of_their_own_has_started_them(root):
    assert starting_ranks((RANK, *CHILDREN), {RANK}, root) == {RANK}


def test_processes_that_do_not_answer_cost_a_second_together(root):
    """Nobody writes to the pipes in place of their environments."""
    for pid in CHILDREN:
        (root / str(pid) / "environ").unlink()
        os.mkfifo(root / str(pid) / "environ")
    began = time.monotonic()
    assert starting_ranks((RANK, *CHILDREN), {RANK}, root) == set()
    assert time.monotonic() - began < len(CHILDREN) / 2
