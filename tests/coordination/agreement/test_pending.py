"""Where a cluster is followed, what a failure costs is known when the cluster has spoken."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import Act, RecordChange, WaitUntil
from ascend_supervisor.coordination.agreement.decision_table import decide
from ascend_supervisor.coordination.agreement.memory import PeerMemory, remember
from ascend_supervisor.coordination.agreement.records import (
    About,
    Cause,
    Charges,
    Member,
    Phase,
    PhaseMark,
)
from ascend_supervisor.coordination.agreement.situation import Clocks, Ranks, Situation
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.coordination.agreement.writing import budget_after
from ascend_supervisor.outcome import Crashed, Ended, Fault, Remedy
from ascend_supervisor.restart_policy import RestartBudget
from tests.coordination.agreement.test_decision import (
    ABOUT,
    CRASH,
    FAILURE,
    READY,
    ROSTER,
    RULES,
    RUN,
    RUNNING,
    about_of,
    epoch_of,
    known,
    view,
    without,
)

VERDICT = 5.0
FOLLOWING = replace(RULES, verdict=VERDICT)
GATHER = replace(RUN, phase=Phase.GATHER, generation=1)
CAUSE = Cause(0, 3, "rank 0 exited with status 3", FAILURE)
PENDING = replace(ABOUT, roster=ROSTER, cause=CAUSE, pending=100.0)
RECOVERS = Fault("the cluster recovers: it says so", 69, Remedy.FREE, by_cluster=True)
HERE = Situation(Ranks.NONE, 0, CRASH, table="t")
OWN = Ended(Crashed(replace(FAILURE, oom_killed=True)), 1.0)


def pending(about: About = PENDING) -> View:
    return view(GATHER, about, ready__1__0=PhaseMark("A", "t"), ready__1__1=PhaseMark("B", "t"))


def act(
    seen: View, situation: Situation = HERE, later: float = 0.0, memory: PeerMemory | None = None
) -> Act:
    known_so_far = memory or known(seen, rules=FOLLOWING)
    at = 100.0 + later
    read = remember(known_so_far, seen, at, at, FOLLOWING)
    return decide(seen, read, Clocks(at, "new"), situation, FOLLOWING)


def test_a_failure_ends_the_ranks_of_all_before_it_is_known_what_it_costs():
    failed = replace(RUNNING, ranks=Ranks.FAILED, verdict=CRASH)
    written = act(view(RUN, replace(ABOUT, roster=ROSTER)), failed)
    assert (epoch_of(written).phase, epoch_of(written).generation) == (Phase.GATHER, 1)
    about = about_of(written)
    assert (about.pending, about.charges, about.cause) == (1.0, Charges(), CAUSE)


@pytest.mark.parametrize("verdict", [OWN, Ended(Fault("asked for", 69, Remedy.FREE), 1.0)])
def test_an_end_that_no_word_of_the_cluster_changes_waits_for_none(verdict):
    failed = replace(RUNNING, ranks=Ranks.FAILED, verdict=verdict)
    about = about_of(act(view(RUN, replace(ABOUT, roster=ROSTER)), failed))
    assert (about.pending, len(about.charges.spent)) == (None, int(verdict is OWN))


def test_a_loss_may_be_the_clusters_too():
    seen = without(view(RUN, replace(ABOUT, roster=ROSTER)), "alive/1")
    memory = replace(known(seen, rules=FOLLOWING), cautious_until=0.0)
    about = about_of(act(seen, RUNNING, memory=memory))
    assert about.pending is not None
    assert (about.cause, about.charges) == (Cause(1, 69, "server 1 was lost"), Charges())


def test_a_lost_server_is_called_as_it_called_itself():
    called = Member("job", "B", "b", host="pod job-1, node n2, address 10.0.0.2")
    seen = without(view(RUN, replace(ABOUT, roster=ROSTER), server__1=called), "alive/1")
    memory = replace(known(seen, rules=FOLLOWING), cautious_until=0.0)
    cause = about_of(act(seen, RUNNING, memory=memory)).cause
    assert cause is not None
    assert cause.reason == "server 1 was lost (pod job-1, node n2, address 10.0.0.2)"


def test_a_lost_server_has_no_name_of_the_one_that_took_its_place():
    newcomer = Member("job", "X", "x", host="pod another")
    roster = (ROSTER[0], replace(ROSTER[1], addresses=("10.0.0.9",)))
    seen = without(view(RUN, replace(ABOUT, roster=roster), server__1=newcomer), "alive/1")
    memory = replace(known(seen, rules=FOLLOWING), cautious_until=0.0)
    cause = about_of(act(seen, RUNNING, memory=memory)).cause
    assert cause is not None
    assert cause.reason == "server 1 was lost (10.0.0.9)"


def test_nothing_runs_before_the_cluster_had_its_time():
    assert isinstance(act(pending(), later=VERDICT - 1), WaitUntil)


def test_a_silent_cluster_lets_the_failure_be_charged_in_the_same_generation():
    written = act(pending(), later=VERDICT)
    assert (epoch_of(written).phase, epoch_of(written).generation) == (Phase.GATHER, 1)
    about = about_of(written)
    assert (about.pending, about.is_free, about.by_cluster) == (None, False, False)
    assert about.cause == CAUSE
    # The others have first seen this generation VERDICT seconds ago.
    (spent,) = budget_after(about.charges, RestartBudget(1), 100.0, 110.0).spent
    assert spent >= 100.0 + VERDICT


def test_without_a_restart_left_a_silent_cluster_ends_the_job():
    spent = replace(PENDING, charges=Charges((0.0,)))
    assert isinstance(act(pending(spent), later=VERDICT - 1), WaitUntil)
    written = act(pending(spent), later=VERDICT)
    assert (epoch_of(written).phase, epoch_of(written).exit_code) == (Phase.END, 3)
    assert about_of(written).cause == CAUSE


def test_where_others_are_missing_the_cluster_may_still_say_that_it_replaces_them():
    seen = without(pending(), "alive/1", records.ready_key(1, 1))
    memory = replace(known(seen, rules=FOLLOWING), cautious_until=0.0)
    assert isinstance(act(seen, later=VERDICT, memory=memory), WaitUntil)


def test_a_failure_whose_words_clear_the_cluster_is_charged_at_once():
    about = about_of(act(pending(), replace(HERE, verdict=OWN)))
    assert (about.pending, len(about.charges.spent)) == (None, 1)
    assert about.cause is not None
    assert about.cause.failure == replace(FAILURE, oom_killed=True)


@pytest.mark.parametrize("situation", [HERE, READY], ids=["where it failed", "elsewhere"])
def test_a_cluster_that_recovers_takes_the_failure_on_itself(situation):
    written = act(pending(), replace(situation, cluster=RECOVERS))
    assert epoch_of(written).generation == 1
    about = about_of(written)
    assert about.cause == Cause(0, 69, RECOVERS.reason)
    assert (about.is_free, about.by_cluster, about.pending) == (True, True, None)
    assert about.charges.spent == ()


def test_a_cluster_that_gives_up_ends_the_job():
    final = replace(RECOVERS, remedy=Remedy.FINAL)
    written = act(pending(), replace(HERE, cluster=final))
    assert (epoch_of(written).phase, epoch_of(written).exit_code) == (Phase.END, 69)


def test_what_a_restart_costs_is_written_once():
    known_now = replace(PENDING, pending=None, charges=Charges((0.0,)))
    written = act(pending(known_now), replace(HERE, cluster=RECOVERS), later=VERDICT)
    assert isinstance(written, RecordChange)
    assert epoch_of(written).phase is Phase.RUN
    assert about_of(written).charges == known_now.charges
