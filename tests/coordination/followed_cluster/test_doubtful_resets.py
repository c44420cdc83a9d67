"""A reset file that cannot be read, or names ranks that this job does not have."""

from __future__ import annotations

from ascend_supervisor.cluster.reset_file import ListedRank, ResetFile
from ascend_supervisor.coordination.followed_cluster.memory import Sight
from ascend_supervisor.coordination.followed_cluster.monitor import (
    ResetDoubts,
    seen_for_job,
)

FOUR = 4


def listing(*ranks: int, status: str = "failed") -> ResetFile:
    return ResetFile(tuple(ListedRank(rank, status) for rank in ranks), retry_time=3)


def test_ranks_of_another_job_are_ignored_and_told_once():
    sight = Sight(reset=listing(3, 4, 7), reset_is_there=True)
    doubts, seen, told = seen_for_job(ResetDoubts(), sight, FOUR)
    assert seen.reset == listing(3)
    assert told is not None
    assert "names ranks 4, 7, but this job has ranks 0 to 3" in told
    _, seen, told = seen_for_job(doubts, sight, FOUR)
    assert (seen.reset, told) == (listing(3), None)
    unchanged = Sight(reset_is_there=True)
    assert seen_for_job(doubts, unchanged, FOUR)[1:] == (unchanged, None)


def test_ranks_of_this_job_are_seen_as_they_are():
    sight = Sight(reset=listing(0, 3), reset_is_there=True)
    assert seen_for_job(ResetDoubts(), sight, FOUR)[1:] == (sight, None)


def test_a_file_that_was_read_before_the_table_counts_again_without_them():
    sight = Sight(reset=listing(4), reset_is_there=True)
    doubts, seen, told = seen_for_job(ResetDoubts(), sight, 0)
    assert (seen, told) == (sight, None)
    _, seen, told = seen_for_job(doubts, Sight(reset_is_there=True), FOUR)
    assert seen.reset == listing()
    assert told is not None


def test_a_file_that_was_removed_is_no_news():
    doubts, *_ = seen_for_job(ResetDoubts(), Sight(reset=listing(4), reset_is_there=True), FOUR)
    missing = Sight(reset_is_missing=True)
    assert seen_for_job(doubts, missing, FOUR)[1:] == (missing, None)


def test_what_keeps_it_from_being_read_is_told_once_and_only_if_it_lasts():
    sight = Sight(reset_is_there=True, reset_trouble="Input/output error")
    doubts, *_, told = seen_for_job(ResetDoubts(), sight, FOUR)
    assert told is None
    doubts, *_, told = seen_for_job(doubts, sight, FOUR)
    assert told is not None
    assert "the reset file cannot be read: Input/output error; it is ignored" in told
    for again in (sight, Sight(reset_is_there=True), sight, sight):
        doubts, *_, told = seen_for_job(doubts, again, FOUR)
        assert told is None
