"""A line of the table that is switched off is missed: the search says what then breaks."""

from __future__ import annotations

import pytest

from ascend_supervisor.coordination.agreement.decision_table import NAMES
from tests.coordination.agreement.search import explore
from tests.coordination.agreement.world import FORBID, Model

MOST = 6_000

MISSED = {
    "fence": ("running", ("cut",), (), "ending"),
    "job_ended": ("running", (), (), "ending"),
    "first_epoch": ("cold", (), (), "ending"),
    "keep_own_keys": ("running", ("stall",), (), "budget"),
    "next_job": ("running", (), ("other",), "ending"),
    "take_index": ("cold", (), (), "ending"),
    "end_ranks": ("running", ("fail",), (), "overlap"),
    "leave": ("running", ("term",), (), "ending"),
    "get_ready": ("cold", (), (), "ending"),
    "take_back": ("running", ("fail", FORBID), (), "forbidden"),
    "run": ("cold", (), (), "success"),
    "give_up": ("running", ("kill",), (), "ending"),
    "success": ("running", (), (), "ending"),
    "say_done": ("running", (), (), "ending"),
    "stop_running": ("running", ("fail",), (), "ending"),
    "start_ranks": ("cold", (), (), "ending"),
    "stop_without_index": ("cold", ("term",), (), "stopped"),
}
"""The start, the faults, the newcomers, and what breaks."""

NOT_MISSED = {
    "stop_without_contact": "ends sooner; without it the fence ends the server, with the same code",
    "look_first": "the model never decides on what was read in an earlier tick",
    "restore_epoch": "ends the job at the fence, which no invariant forbids (test_bad_days.py)",
    "displaced": "needs two losses of data; two servers that differ then overlap",
    "has_left": "the farewell itself ends the server, unless its answer is lost",
    "ended_here": "a promise to a newcomer, which no invariant of the search mentions",
    "refuse_ourselves": "the model has no settings that differ",
    "cannot_go_on": "the model has no obstacles",
    "come": "without it a job begins after a TTL",
    "move": "in the model every server keeps its index (test_moves.py)",
    "is_the_clusters": "no cluster is followed in the model (test_pending.py)",
    "confirm": "no cluster is followed in the model (test_one_incident.py)",
    "correct_cause": "the failures of the model have no words (test_causes.py)",
    "lost_first": "without it a machine that dies counts seldom (test_histories.py)",
    "charge": "no cluster is followed in the model (test_pending.py)",
    "leave_unneeded": "ends sooner",
    "leave_done": "ends sooner",
    "offer": "without it no server leaves, which no invariant forbids (test_leaving.py)",
    "leave_place": "the same",
    "leave_unable": "needs a spare (test_search.py)",
    "end_left": "who has left then waits until the job ends (test_leaving.py)",
    "forget_place": "needs a lost answer (test_leaving.py)",
    "not_to_blame": "the words of a failure of the model are known at once (test_leaving.py)",
}
"""Lines whose absence the search does not notice, and why; tests of decisions cover them."""


@pytest.mark.parametrize("line", MISSED)
def test_a_line_that_is_switched_off_is_missed(line):
    start, faults, newcomers, breaks = MISSED[line]
    prepared = Model(2) if start == "running" else None
    model = Model(2, without=frozenset({line}))
    world = getattr(prepared or model, start)(faults, newcomers)
    found = explore(model, world, MOST)
    assert found.violation is not None, str(found)
    assert found.violation.name == breaks


@pytest.mark.long
def test_the_same_worlds_without_a_line_switched_off_are_sound():
    for start, faults, newcomers, _ in set(MISSED.values()):
        model = Model(2)
        assert explore(model, getattr(model, start)(faults, newcomers), MOST).violation is None


def test_every_line_is_missed_or_told_why_not():
    assert {*MISSED, *NOT_MISSED} == set(NAMES)
    assert not MISSED.keys() & NOT_MISSED.keys()
