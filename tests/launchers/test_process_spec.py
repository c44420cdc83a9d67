"""What to start: its name for people, and that two specs never share their defaults."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from msgspec.structs import replace

from ascend_supervisor.process_spec import ProcessSpec

SPEC = ProcessSpec(argv=("/opt/bin/torchrun", "train.py"), cwd=PurePath("/w"), log=PurePath("/l"))


@pytest.mark.parametrize(("rank", "name"), [(None, "torchrun"), (0, "rank 0"), (4095, "rank 4095")])
def test_its_name_is_the_rank_or_the_program(rank: int | None, name: str) -> None:
    assert replace(SPEC, rank=rank).name == name


def test_what_is_not_said_changes_nothing_and_counts_for_completion() -> None:
    assert (SPEC.environ, SPEC.directories, SPEC.error_file) == ({}, (), None)
    assert SPEC.significant


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        SPEC.rank = 1  # type: ignore[misc]
    assert ProcessSpec(("a",), PurePath(), PurePath()).environ is not SPEC.environ
