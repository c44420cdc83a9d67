"""What broke earlier rules, event by event; the table holds in each case.

Not here, because the decision has no part in it: a place that two machines share, a heartbeat
instead of a lease, and an etcd that ends with the first server before the others have read the end.
"""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import RecordChange
from ascend_supervisor.coordination.agreement.decision_table import decide
from ascend_supervisor.coordination.agreement.situation import Clocks, Ranks
from tests.coordination.agreement.process import FENCE, SOON, TIMEOUT, TTL, Reach, rules_of
from tests.coordination.agreement.stage import Stage
from tests.coordination.agreement.store import put_by


def test_the_writer_of_a_restart_dies_and_the_others_go_on():
    stage = Stage("running")
    stage.play("fail A", "look A", "do A", "kill A", "look B", "released B")
    stage.settle()
    stage.play("come same a")
    stage.settle()
    assert stage.epoch == "run 1"
    assert stage.codes() == {"A": None, "B": 0, "X": 0}


def test_a_server_that_is_done_and_dies_is_no_loss():
    stage = Stage("running")
    stage.play("succeed A")
    stage.settle()
    stage.play("kill A")
    stage.ticks(TTL + FENCE)
    assert stage.epoch == "run 0"
    assert stage.codes()["B"] == 0


def loss_of_a_decided_by_b(stage: Stage) -> None:
    """B has decided that A is lost, and has not written it."""
    while stage["B"].pending is None:
        stage.settle("A")
        stage.play("look B") if stage["B"].memory.read else stage.play("tick")


def test_a_loss_is_not_written_over_a_done_that_came_meanwhile():
    stage = Stage("running")
    stage.play("succeed A", "freeze A")
    loss_of_a_decided_by_b(stage)
    stage.play("heal A", "look A", "do A")
    assert 0 in stage.view.done
    stage.play("do B")
    assert stage.epoch == "run 0"
    assert set(stage.codes().values()) == {0}


def test_no_index_changes_hands_while_ranks_run():
    stage = Stage("running")
    stage.play("succeed A")
    stage.settle()
    stage.play("kill A", "come same a")
    stage.ticks(FENCE + TTL + 2)
    assert stage.view.done[0].incarnation == "A"
    assert stage.view.members[0].incarnation == "A"


def one_leaves_between_ready_and_run(stage: Stage) -> None:
    """A has decided to run with B, and B leaves before A writes it."""
    stage.ticks(SOON - 1)
    stage.play("tick")
    stage.until(lambda: len(stage.view.prepared) == 2)
    stage.until(lambda: stage["A"].pending is not None)
    stage.play("term B", "look B", "do B")


def test_who_leaves_between_ready_and_run_stands_in_no_roster():
    stage = Stage("cold")
    one_leaves_between_ready_and_run(stage)
    stage.play("do A")
    assert stage.epoch == "gather 0"
    stage.ticks(TTL + 1)
    assert (stage.epoch, stage.about.roster) == ("gather 0", ())


def test_a_new_incarnation_between_ready_and_run_starts_with_the_others():
    stage = Stage("cold")
    one_leaves_between_ready_and_run(stage)
    stage.play("come same b")
    stage.play("look X", "do X")
    assert stage.view.members[1].incarnation == "X"
    stage.play("do A")
    stage.until(lambda: stage.epoch == "run 0")
    assert [seat.incarnation for seat in stage.about.roster] == ["A", "X"]


def test_a_decision_from_before_a_loss_of_data_fails_after_it():
    stage = Stage("running")
    stage.play("fail A", "look A", "wipe", "look B", "do B")
    assert stage.epoch == "run 0"
    stage.play("do A")
    assert stage.epoch == "run 0"


def test_a_farewell_is_not_written_before_the_ranks_are_gone():
    stage = Stage("running")
    stage.play("term B")
    stage.settle()
    assert not stage.view.members[1].has_left
    assert stage["B"].is_here
    stage.play("released B")
    stage.settle("B")
    assert stage.view.members[1].has_left
    assert stage["B"].code == 143


def test_the_others_are_told_before_the_own_ranks():
    stage = Stage("running")
    stage.play("term A", "look A")
    assert isinstance(stage["A"].pending, RecordChange)
    assert stage["A"].situation.ranks.value == "running"
    stage.play("do A", "look A")
    assert stage["A"].situation.ranks.value == "ending"
    assert stage.about.charges.spent == ()


def test_nobody_is_lost_after_etcd_stood_still():
    stage = Stage("running")
    stage.play("stall")
    stage.settle("B")
    stage.ticks(TTL + 2)
    assert stage.epoch == "run 0"


def test_a_newcomer_sees_no_loss_either_after_etcd_stood_still():
    stage = Stage("running")
    stage.play("come other place 2")
    stage.ticks(TTL + 1)
    stage.play("stall")
    stage.settle("X")
    stage.ticks(TTL + 2)
    assert stage.epoch == "run 0"


def test_the_index_of_a_server_that_is_cut_off_is_taken_after_its_fence():
    stage = Stage("running")
    stage.play("cut A", "come other place 2")
    while stage.view.members[0].incarnation == "A":
        assert stage["A"].is_here or stage["A"].ranks is None
        stage.settle("B", "X")
        if stage["B"].situation.ranks is Ranks.ENDING:
            stage.play("released B")
        stage.ticks(1)
    assert not stage["A"].is_here
    assert stage["A"].code == 69


def test_a_newcomer_after_a_loss_of_data_starts_no_job_of_its_own():
    stage = Stage("running")
    job = stage.written.job
    stage.play("wipe", "come other place 2")
    stage.settle("X")
    assert stage.epoch == "none"
    stage.settle()
    stage.ticks(TTL + 1)
    assert stage.written.job == job
    assert stage["X"].memory.jobs == (job,)


def test_of_two_memories_after_a_loss_of_data_the_higher_one_stays():
    stage = Stage("running")
    stage.play("fail A", "look A", "do A", "look A", "wipe", "look B", "do B")
    assert stage.epoch == "run 0"
    stage.settle()
    assert stage.epoch == "gather 1"
    assert set(stage.codes().values()) == {0}


def test_a_thawed_server_ends_its_ranks_before_it_reads():
    stage = Stage("running")
    stage.play("freeze A")
    stage.ticks(FENCE - 1)
    assert stage["A"].ranks is not None
    stage.play("heal A", "look A")
    assert (stage["A"].reach, stage["A"].code) == (Reach.GONE, 69)


def test_a_newcomer_is_not_told_the_end_of_a_job_that_it_never_knew():
    stage = Stage("running")
    stage.play("kill A", "kill B")
    stage.play("come same a")
    stage.ticks(FENCE + TTL + TIMEOUT + TTL)
    assert stage["X"].code == 69
    stage.play("come other place 3")
    stage.settle()
    assert stage["Y"].is_here
    stage.ticks(FENCE + TTL + 1)
    assert stage.epoch == "gather 0"


def test_a_server_that_was_done_and_starts_again_after_the_end_has_succeeded():
    stage = Stage("running")
    stage.play("succeed A")
    stage.settle()
    stage.play("kill A")
    assert stage.codes()["B"] == 0
    stage.play("come same a")
    assert stage.codes()["X"] == 0


def test_a_read_without_ones_own_alive_is_no_contact():
    stage = Stage("running")
    stage.play("cut A")
    stage.ticks(TTL)
    stage.play("heal A", "look A", "cut A")
    assert stage["A"].memory.contact == -TTL
    stage.ticks(1)
    assert stage["A"].code == 69


def test_an_absence_is_not_counted_across_a_gap():
    stage = Stage("running")
    stage.play("kill A", "come other place 2")
    stage.ticks(TTL + 1)
    before = stage["X"].memory.absence(0)
    assert before is not None
    assert before.since < 0
    stage.play("freeze X")
    stage.ticks(2)
    stage.play("heal X", "look X")
    after = stage["X"].memory.absence(0)
    assert after is not None
    assert after.since == 0


def test_after_a_loss_of_data_before_the_first_run_no_index_is_free_at_once():
    stage = Stage("cold")
    stage.ticks(SOON - 1)
    stage.play("tick")
    stage.until(lambda: 0 in stage.view.ready)
    stage.play("look B", "freeze A", "wipe", "do B", "look B", "do B")
    assert stage.about.again
    stage.play("come other place 2")
    stage.ticks(TTL)
    assert 0 not in stage.view.members


def test_the_wait_before_a_loss_ends_although_keys_are_missing_again():
    stage = Stage("running")
    stage.play("kill A", "stall")
    stage.ticks(TTL + 1)
    assert stage.epoch == "gather 1"


def test_a_done_server_that_leaves_is_counted():
    stage = Stage("running")
    stage.play("succeed A")
    stage.settle()
    stage.play("term A")
    stage.settle()
    assert stage["A"].code == 143
    stage.play("succeed B", "term B")
    assert stage.codes() == {"A": 143, "B": 0}


def test_a_farewell_keeps_the_done():
    stage = Stage("running")
    stage.play("succeed A")
    stage.settle()
    stage.play("term A")
    stage.settle()
    assert 0 in stage.view.done
    assert not stage.view.members[0].has_left
    assert 0 not in stage.view.alive


def both_leave(stage: Stage) -> None:
    stage.play("fail A")
    stage.settle()
    stage.play("released B")
    stage.play("term A", "term B", "look A", "look B")


def test_of_two_that_leave_the_last_one_writes_the_end():
    stage = Stage("running")
    both_leave(stage)
    stage.play("do A", "do B")
    assert stage["B"].is_here
    stage.settle()
    assert (stage.epoch, stage.written.exit_code) == ("end 1", 143)


def test_a_farewell_after_etcd_stood_still_does_not_end_the_others():
    stage = Stage("running")
    stage.play("fail A")
    stage.settle()
    stage.play("released B", "stall", "term A")
    stage.settle("A")
    assert stage.epoch == "gather 1"
    stage.settle()
    assert stage.epoch == "gather 1"
    assert stage["A"].code == 143


def test_the_timeout_does_not_run_while_a_server_ends_its_ranks():
    stage = Stage("running")
    stage.play("fail A")
    stage.settle()
    assert stage["B"].situation.ranks is Ranks.ENDING
    stage.ticks(TIMEOUT + 2)
    assert stage.epoch == "gather 1"
    stage.play("released B")
    stage.settle()
    assert stage.epoch == "run 1"


def test_a_server_whose_answer_was_lost_takes_no_second_index():
    stage = Stage("cold")
    stage.ticks(SOON - 1)
    stage.play("tick")
    stage.until(lambda: stage["A"].pending is not None and stage.epoch == "gather 0")
    stage.play("cut A after its request", "heal A")
    stage.settle("A")
    assert [one.incarnation for one in stage.view.members.values()].count("A") == 1
    assert stage["A"].memory.index == 0


def test_a_server_that_has_read_the_end_and_is_cut_off_ends_like_the_others():
    stage = Stage("running")
    stage.play("succeed A", "succeed B")
    stage.until(lambda: stage.epoch == "end 0")
    stage.play("look B", "cut B")
    stage.ticks(FENCE)
    assert stage["B"].code == 0


def test_keys_are_put_again_without_contact_if_etcd_was_just_read():
    stage = Stage("running")
    stage.play("stall")
    one = stage["A"]
    memory = replace(one.memory, contact=-TTL - 0.5, read=0)
    rules = rules_of(one, 2, 1)
    act = decide(stage.view, memory, Clocks(0, "w"), one.situation, rules)
    assert isinstance(act, RecordChange)
    assert records.alive_key(0) in put_by(act)


def test_a_newcomer_that_is_told_to_stop_writes_no_end():
    stage = Stage("running")
    assert set(stage.codes().values()) == {0}
    stage.play("come other place 2", "term X")
    stage.settle()
    assert stage["X"].code == 143
    assert (stage.epoch, stage.written.exit_code) == ("end 0", 0)


def test_after_a_loss_of_data_the_roster_gives_no_index_to_a_newcomer_from_the_same_place():
    stage = Stage("running")
    stage.play("kill A", "wipe", "fail B")
    stage.settle("B")
    assert stage.about.again
    stage.play("come same a")
    stage.ticks(TTL)
    assert stage.epoch == "gather 1"
    assert 0 not in stage.view.members


def test_the_last_one_leaves_no_end_over_a_server_that_came_back_done():
    stage = Stage("running")
    stage.play("succeed A", "freeze A", "tick", "succeed B", "look B", "do B", "tick")
    stage.play("term B", "look B", "heal A", "look A", "do A", "do B")
    assert stage.codes() == {"A": 0, "B": 0}


def test_a_done_server_that_leaves_after_etcd_stood_still_restarts_nobody():
    stage = Stage("running")
    stage.play("succeed A", "succeed B", "term A", "stall")
    stage.play("look A", "do A", "look A", "look B", "do B")
    stage.settle()
    assert (stage.epoch, stage.written.exit_code) == ("end 0", 0)


def test_who_only_waits_to_say_farewell_is_not_ready():
    stage = Stage("running")
    stage.play("fail A")
    stage.settle()
    stage.play("term B", "released B", "stall")
    stage.settle("B")
    assert 1 not in stage.view.ready


def test_a_newcomer_writes_the_loss_of_everybody():
    stage = Stage("running")
    stage.play("kill A", "kill B", "come same a")
    stage.ticks(2 * TTL + 1)
    assert stage.epoch == "gather 1"
    assert stage.view.members[0].incarnation == "X"


def test_the_index_of_a_server_that_has_left_is_taken_at_once():
    stage = Stage("running")
    stage.play("term B")
    stage.settle()
    stage.play("released B")
    stage.settle()
    stage.play("come other place 2")
    stage.settle()
    assert stage.view.members[1].incarnation == "X"
    stage.play("released A")
    stage.settle()
    assert stage.epoch == "run 1"


def test_two_newcomers_never_take_the_same_index():
    stage = Stage("cold")
    stage.ticks(SOON - 1)
    stage.play("tick", "look A", "do A")
    stage.play("look A", "look B", "do A", "do B")
    assert {index: one.incarnation for index, one in stage.view.members.items()} == {0: "A"}


def test_no_generation_starts_with_a_server_that_is_gone():
    stage = Stage("running")
    stage.play("fail B")
    stage.settle("B")
    stage.play("kill B", "look A")
    stage.ticks(TTL)
    assert stage.view.ready[1].incarnation == "B"
    stage.play("released A")
    stage.settle()
    assert stage.epoch == "gather 1"
