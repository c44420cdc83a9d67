"""Ranks that really fail, each in another way, and the cause that the events of their job tell."""

from __future__ import annotations

import os

import pytest

from tests.jobs.failing_ranks import OF_PYTHON, OF_THE_HOST, OF_THE_MACHINE, mistold


@pytest.mark.parametrize(
    ("failing", "before"),
    [
        (OF_PYTHON, ()),
        (OF_THE_HOST, ()),
        pytest.param(
            *(OF_THE_MACHINE, ("unshare", "--mount")),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="a bad machine is made by root"),
        ),
    ],
    ids=["python", "host", "machine"],
)
def test_a_rank_that_really_fails_has_its_cause(supervised, tmp_path, failing, before):
    assert mistold(supervised, tmp_path, failing, *before) == []
