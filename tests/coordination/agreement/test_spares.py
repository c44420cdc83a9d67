"""Two servers and a spare, C, event by event."""

from __future__ import annotations

import pytest

from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.gathering import reason
from ascend_supervisor.coordination.agreement.situation import Clocks
from tests.coordination.agreement.process import FENCE, TTL, rules_of
from tests.coordination.agreement.stage import Stage


def with_spare(start: str = "running") -> Stage:
    return Stage(start, spares=1)


def test_more_servers_than_the_job_has_wait_and_end_with_it():
    stage = with_spare()
    assert stage["C"].memory.index is None
    assert stage["C"].ranks is None
    assert stage.codes() == {"A": 0, "B": 0, "C": 0}


@pytest.mark.parametrize("lost", ["A", "B"])
def test_a_spare_takes_the_place_of_a_server_that_is_gone_for_good(lost):
    stage = with_spare()
    index = stage[lost].memory.index
    stage.play(f"kill {lost}")
    stage.usually_until(lambda: stage["C"].ranks is not None)
    assert (stage["C"].memory.index, stage.epoch) == (index, "run 1")
    assert stage.codes() == {"A": 0, "B": 0, "C": 0, lost: None}


def test_it_takes_no_place_before_the_fence_of_its_holder_has_fallen():
    stage = with_spare()
    stage.play("cut B")
    ticks = 0
    while stage["C"].memory.index is None:
        stage.settle()
        if stage["A"].situation.ranks.value == "ending":
            stage.play("released A")
        elif stage["C"].memory.index is None:
            stage.play("tick")
            ticks += 1
    assert ticks >= TTL + FENCE
    assert stage["B"].ranks is None


def test_meanwhile_it_names_the_server_that_is_lost_and_how_long_it_waits():
    stage = with_spare()
    assert "2 servers run" in what_waits(stage)
    stage.play("cut B")
    stage.usually_until(lambda: stage.epoch == "gather 1")
    assert what_waits(stage) == (
        f"this is a spare; lost: server {stage['B'].memory.index}; a place is free after an "
        f"absence of {FENCE + TTL} s"
    )


def what_waits(stage: Stage) -> str:
    """What the spare says it waits for."""
    spare = stage["C"]
    rules, clocks = rules_of(spare, servers=2, limit=5), Clocks(0, "word", 0.0)
    return reason(Case(spare.memory, clocks, spare.situation, rules, stage.view))


def test_the_place_of_a_server_that_has_left_is_taken_at_once():
    stage = with_spare()
    stage.play("term B")
    stage.settle()
    stage.play("released B")
    stage.settle()
    stage.play("released A")
    stage.settle()
    assert stage["B"].code == 143
    assert stage.epoch == "run 1"
    assert stage["C"].ranks is not None
    assert stage.codes() == {"A": 0, "B": 143, "C": 0}


def test_a_spare_that_is_told_to_stop_writes_nothing():
    stage = with_spare()
    before = stage.world.store
    stage.play("term C")
    stage.settle("C")
    assert (stage["C"].code, stage.world.store) == (143, before)
    assert stage.codes() == {"A": 0, "B": 0, "C": 143}


def test_a_spare_ends_a_generation_whose_servers_are_all_lost_and_waits_for_others():
    stage = with_spare()
    stage.play("kill A", "kill B")
    stage.usually_until(lambda: stage["C"].memory.index is not None)
    assert stage.epoch == "gather 1"
    stage.play("come other place 3")
    assert stage.codes() == {"A": None, "B": None, "C": 0, "X": 0}


def test_a_server_that_comes_back_to_a_place_that_is_taken_is_a_spare_itself():
    stage = with_spare()
    stage.play("kill B")
    stage.usually_until(lambda: stage["C"].ranks is not None)
    stage.play("come same b")
    stage.settle()
    assert (stage["X"].memory.index, stage["X"].memory.jobs) == (None, stage["A"].memory.jobs)
    assert stage.codes() == {"A": 0, "B": None, "C": 0, "X": 0}
