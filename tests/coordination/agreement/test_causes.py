"""A consequence is not the cause of the job's end, whoever was the first to tell of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import Act, RecordChange, WaitUntil
from ascend_supervisor.coordination.agreement.decision_table import decide
from ascend_supervisor.coordination.agreement.memory import remember
from ascend_supervisor.coordination.agreement.records import Cause, Phase
from ascend_supervisor.coordination.agreement.situation import Clocks, Ranks, Situation
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.coordination.peers.ends import with_own_failure
from ascend_supervisor.outcome import Crashed, Ended, ExitStatus, Failure, Fault, Remedy
from ascend_supervisor.restart_policy import Stop
from tests.coordination.agreement.process import LOSS
from tests.coordination.agreement.store import put_by
from tests.coordination.agreement.test_decision import (
    ABOUT,
    ROSTER,
    RULES,
    RUN,
    about_of,
    epoch_of,
    known,
    view,
)

BARE = Failure("rank 0", 0, 0, ExitStatus(1), 1.0)
CONSEQUENCE = replace(BARE, last_lines=(LOSS,))
OWN = Failure("rank 0", 0, 0, ExitStatus(7), 1.0, last_lines=("ValueError: bad batch 17",))
UNKNOWN = replace(OWN, last_lines=())
GATHER = replace(RUN, phase=Phase.GATHER, generation=1)


def after(failure: Failure, *faults: Fault) -> Situation:
    """This server, whose ranks have failed so, and have ended."""
    return Situation(Ranks.NONE, 0, Ended(Crashed(failure), 1.0, faults=faults), table="t")


def gathering(cause: Cause) -> View:
    return view(GATHER, replace(ABOUT, roster=ROSTER, cause=cause, stamp="w1"))


def act(seen: View, situation: Situation, *, had_gap: bool = False) -> Act:
    """``had_gap``: etcd was away, and has just come back."""
    memory = replace(known(seen), cautious_until=110.0 if had_gap else 0.0, started=0)
    memory = remember(memory, seen, 101.0, 101.0, RULES)
    return decide(seen, memory, Clocks(101.0, "new"), situation, RULES)


@pytest.mark.parametrize("own", [OWN, UNKNOWN])
def test_a_failure_takes_the_place_of_its_consequence(own):
    told = Cause(1, 1, "rank 1 exited with status 1", CONSEQUENCE)
    # The others have ended our ranks since, with the cause that they know.
    theirs = Fault("server 1: it has failed", 1, Remedy.FREE, cause=CONSEQUENCE)
    written = act(gathering(told), after(own, theirs))
    assert (epoch_of(written).phase, epoch_of(written).generation) == (Phase.GATHER, 1)
    cause = about_of(written).cause
    assert cause is not None
    assert (cause.server, cause.exit_code, cause.failure) == (0, 7, own)


@pytest.mark.parametrize(
    ("told", "ours"),
    [
        (Cause(1, 7, "rank 1 exited with status 7", OWN), CONSEQUENCE),
        (Cause(1, 7, "rank 1 exited with status 7", OWN), replace(OWN, status=ExitStatus(9))),
        (Cause(1, 1, "rank 1 exited with status 1", CONSEQUENCE), CONSEQUENCE),
        (Cause(1, 1, "rank 1 exited with status 1", CONSEQUENCE), replace(OWN, generation=3)),
        (Cause(1, 69, "server 1 was lost"), OWN),
        (Cause(0, 7, "rank 0 exited with status 7", OWN), OWN),
        (Cause(0, 1, "rank 0 exited with status 1", CONSEQUENCE), CONSEQUENCE),
    ],
)
def test_no_other_cause_is_replaced(told, ours):
    written = act(gathering(told), after(ours))
    assert not isinstance(written, RecordChange) or "epoch" not in put_by(written)


def test_who_told_its_failure_before_its_words_were_known_tells_that_it_is_a_consequence():
    told = Cause(0, 1, "rank 0 exited with status 1", BARE)
    cause = about_of(act(gathering(told), after(CONSEQUENCE))).cause
    assert cause is not None
    assert (cause.server, cause.failure) == (0, CONSEQUENCE)


def test_after_etcd_was_away_a_consequence_lets_the_others_tell_first():
    seen = view(RUN, replace(ABOUT, roster=ROSTER))
    assert isinstance(act(seen, after(CONSEQUENCE), had_gap=True), WaitUntil)
    for failure, had_gap in ((OWN, True), (UNKNOWN, True), (CONSEQUENCE, False)):
        cause = about_of(act(seen, after(failure), had_gap=had_gap)).cause
        assert cause is not None
        assert cause.failure == failure


@pytest.mark.parametrize(
    ("cause", "own", "beside"),
    [
        (CONSEQUENCE, OWN, "; on this server rank 0 exited with status 7"),
        (OWN, UNKNOWN, ""),
        (CONSEQUENCE, CONSEQUENCE, ""),
        ("server 1 was lost", OWN, ""),
    ],
)
def test_an_end_by_a_consequence_tells_the_failure_on_this_server_too(cause, own, beside):
    stop = Stop(1, "the restart budget of 0 is used up", cause, server=1)
    told = with_own_failure(stop, Ended(Crashed(own), 1.0))
    assert told.reason == f"the restart budget of 0 is used up{beside}"
