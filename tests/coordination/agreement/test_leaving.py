"""Servers that keep failing, event by event: C and D are spares of A and B."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import Act, Exit, Forget
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.decision_table import decide
from ascend_supervisor.coordination.agreement.failing import counts, own_failures
from ascend_supervisor.coordination.agreement.history import (
    DAY_SECONDS,
    MOST_KEPT,
    FailureLimit,
    FirstFailure,
    LeftServer,
)
from ascend_supervisor.coordination.agreement.leaving import LEAVES, LEFT_TO_A_SPARE
from ascend_supervisor.coordination.agreement.memory import carried_out
from ascend_supervisor.coordination.agreement.records import About, Cause, Member
from ascend_supervisor.coordination.agreement.situation import Clocks, Situation
from ascend_supervisor.outcome import Crashed, Ended, ExitStatus, Failure
from ascend_supervisor.settings.peers_options import MOST_FAILURES
from tests.coordination.agreement.process import (
    CONSEQUENCE,
    SICK,
    STUCK,
    Process,
    new_process,
    rules_of,
)
from tests.coordination.agreement.search import explore
from tests.coordination.agreement.stage import Stage
from tests.coordination.agreement.store import seen
from tests.coordination.agreement.world import Model

AT_ONCE, TWICE = FailureLimit(1, 1), FailureLimit(2, 3)
IN_TURN = FailureLimit(1, 2)
"""Both servers may have failed too often at the same time."""
EITHER = 60_000
"""Without the line that counts free places, two leave for one spare after 44,193 worlds."""


def case_of(stage: Stage, who: Process, limit: FailureLimit, date: float = 0.0) -> Case:
    rules = rules_of(who, 2, 5, leave_after=limit)
    return Case(who.memory, Clocks(0, "new", 0.0, date), who.situation, rules, stage.view)


def decided(stage: Stage, who: Process, limit: FailureLimit) -> Act:
    rules = rules_of(who, 2, 5, leave_after=limit)
    return decide(stage.view, who.memory, Clocks(0, "new"), who.situation, rules)


def has_ranks(one: Process) -> bool:
    return one.ranks is not None


def fail(stage: Stage, name: str, generation: int) -> None:
    """All run this generation, and then the ranks of one server fail."""
    stage.usually_until(lambda: stage.epoch == f"run {generation}")
    servers = stage.model.servers
    stage.usually_until(lambda: sum(map(has_ranks, stage.world.processes)) == servers)
    stage.play(f"fail {name}")


def test_a_spare_says_that_it_waits_and_no_more_when_it_has_a_place():
    stage = Stage("running", spares=1, leave_after=TWICE)
    assert [one.incarnation for one in stage.view.spares.values()] == ["C"]
    stage.play("kill B")
    stage.usually_until(lambda: stage["C"].ranks is not None)
    assert not stage.view.spares


def test_a_server_leaves_after_its_second_failure_and_says_why():
    stage = Stage("running", spares=1, leave_after=TWICE)
    for generation in range(2):
        fail(stage, "B", generation)
    stage.usually_until(lambda: stage.epoch == "run 2")
    assert [seat.incarnation for seat in stage.about.roster] == ["A", "C"]
    told = (
        "was the first to fail in 2 of the last 2 failures (generation 0 at 00:00 UTC: rank 0 "
        "exited with status 3; generation 1 at 00:00 UTC: rank 0 exited with status 3)"
    )
    assert [(one.server, one.reason) for one in stage.about.left] == [(1, told)]
    end = decided(stage, stage["B"], TWICE)
    assert isinstance(end, Exit)
    assert end.reason == f"this server {told}; a spare has taken its place"
    assert stage.codes() == {"A": 0, "B": 69, "C": 0}


def test_a_failure_of_another_server_in_between_does_not_clear_it():
    stage = Stage("running", spares=1, leave_after=TWICE)
    for generation, name in enumerate("BAB"):
        fail(stage, name, generation)
    assert stage.codes() == {"A": 0, "B": 69, "C": 0}


def test_two_other_failures_in_between_do():
    stage = Stage("running", servers=3, spares=1, leave_after=TWICE)
    for generation, name in enumerate("BACB"):
        fail(stage, name, generation)
    assert stage.codes() == {"A": 0, "B": 0, "C": 0, "D": 0}


def test_without_a_spare_it_stays():
    stage = Stage("running", leave_after=TWICE)
    for generation in range(2):
        fail(stage, "B", generation)
    assert stage.codes() == {"A": 0, "B": 0}


def test_it_takes_its_place_again_where_the_spare_is_gone():
    stage = Stage("running", spares=1, leave_after=AT_ONCE)
    fail(stage, "B", 0)
    stage.usually_until(lambda: bool(stage.about.left))
    stage.play("kill C")
    stage.usually_until(lambda: stage.epoch == "run 1")
    assert [seat.incarnation for seat in stage.about.roster] == ["A", "B"]
    assert stage.codes() == {"A": 0, "B": 0, "C": None}


def test_two_that_fail_do_not_leave_for_one_spare():
    stage = Stage("running", leave_after=IN_TURN)
    fail(stage, "A", 0)
    fail(stage, "B", 1)
    stage.play("come other place 2")
    codes = stage.codes()
    assert sorted(code for code in codes.values() if code is not None) == [0, 0, 69]


@pytest.mark.long
def test_nor_do_they_however_they_write():
    model = Model(2, limit=2, leave_after=IN_TURN)
    found = explore(model, model.running(("fail", "fail"), ("other",)), EITHER)
    assert found.violation is None, str(found)


def test_a_spare_is_not_waited_for_that_the_place_of_a_lost_server_needs():
    stage = Stage("running", spares=1, leave_after=AT_ONCE)
    fail(stage, "B", 0)
    stage.settle("B")  # it is told
    stage.play("kill A")
    stage.usually_until(lambda: stage.epoch == "run 1")
    assert {seat.incarnation for seat in stage.about.roster} == {"B", "C"}
    assert stage.codes() == {"A": None, "B": 0, "C": 0}


def test_who_comes_back_on_the_same_machine_gives_way_to_every_spare():
    stage = Stage("running", spares=2, leave_after=AT_ONCE)
    fail(stage, "B", 0)
    stage.usually_until(lambda: stage["B"].code == 69)
    stage.play("come same b")
    stage.settle("X")
    assert stage["X"].memory.index is None
    assert "X" not in {one.incarnation for one in stage.view.spares.values()}
    others = [one.name for one in stage.world.processes if one.name in "CD" and one.ranks is None]
    stage.play("term A")
    stage.usually_until(lambda: stage.epoch == "run 2")
    assert stage["X"].memory.index is None
    assert others[0] in {seat.incarnation for seat in stage.about.roster}


def test_but_it_takes_a_place_where_nobody_else_is():
    stage = Stage("running", spares=1, leave_after=AT_ONCE)
    fail(stage, "B", 0)
    stage.usually_until(lambda: stage["B"].code == 69)
    stage.play("come same b", "term A")
    assert stage.codes() == {"A": 143, "B": 69, "C": 0, "X": 0}


def test_failures_are_forgotten_after_a_day():
    stage = Stage("running", spares=1, leave_after=AT_ONCE)
    fail(stage, "B", 0)
    stage.usually_until(lambda: stage.epoch == "gather 1")
    who = stage["B"]
    assert own_failures(case_of(stage, who, AT_ONCE, DAY_SECONDS - 1))
    assert not own_failures(case_of(stage, who, AT_ONCE, DAY_SECONDS))


def test_those_that_were_kept_on_the_machine_count_too():
    stage = Stage("running", leave_after=TWICE)
    fail(stage, "B", 0)
    stage.settle("B")
    stage.usually_until(lambda: stage.epoch == "gather 1")
    case = case_of(stage, stage["B"], TWICE)
    assert not own_failures(case)
    earlier = FirstFailure(0, "b", "before", 4, 0.0, "rank 0 exited with status 3")
    rules = replace(case.rules, own=replace(case.rules.own, failures=(earlier,)))
    assert [one.incarnation for one in own_failures(replace(case, rules=rules))] == ["before", "B"]


@pytest.mark.parametrize(
    "words",
    [
        ("RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer",),
        ("Traceback (most recent call last):", "ModuleNotFoundError: No module named 'flash'"),
    ],
)
def test_words_that_become_known_later_clear_the_server(words):
    stage = Stage("running", spares=1, leave_after=AT_ONCE)
    fail(stage, "B", 0)
    stage.usually_until(lambda: stage.epoch == "gather 1")
    assert stage.about.cause is not None
    assert stage.about.cause.first is not None
    failure = Failure("rank 0", 0, 0, ExitStatus(1), 1.0, last_lines=words)
    who = stage["B"]
    situation = replace(who.situation, verdict=Ended(Crashed(failure), 1.0))
    stage.world = stage.world.with_process(replace(who, situation=situation))
    stage.usually_until(lambda: stage.epoch == "run 1")
    assert not stage.about.failures
    assert stage.codes() == {"A": 0, "B": 0, "C": 0}


@pytest.mark.parametrize(("code", "is_counted"), [("507033", True), ("507015", False)])
def test_an_npu_that_does_not_open_counts_although_no_cause_is_claimed(code, is_counted):
    line = f"RuntimeError: NPU function error: c10_npu::SetDevice(device_id_), error code is {code}"
    words = ("Traceback (most recent call last):", '  File "a.py", line 1, in <module>', line)
    failure = Failure("rank 0", 0, 0, ExitStatus(1), 1.0, last_lines=words)
    assert counts(Crashed(failure)) is is_counted


def test_a_server_that_is_lost_first_counts_although_its_peers_tell_a_consequence_before():
    stage = Stage("running", spares=1, leave_after=TWICE)
    stage.play("kill B", "follow A")
    stage.usually_until(lambda: stage.epoch == "gather 1")
    assert stage.about.cause is not None
    assert (stage.about.cause.server, stage.about.cause.first) == (0, None)
    stage.usually_until(lambda: stage.epoch == "run 1")
    (first,) = stage.about.failures
    assert (first.server, first.machine, first.incarnation) == (1, "b", "B")
    assert (first.generation, first.reason) == (0, "server 1 was lost")
    assert len(stage.about.charges.spent) == 1
    assert stage.codes() == {"A": 0, "B": None, "C": 0}


def test_of_two_that_are_lost_at_once_none_is_known_to_be_first():
    stage = Stage("running", servers=3, spares=2, leave_after=TWICE)
    stage.play("kill B", "kill C", "follow A")
    stage.usually_until(lambda: stage.epoch == "run 1")
    assert not stage.about.failures


def test_a_server_that_was_told_to_stop_is_not_lost():
    stage = Stage("running", spares=1, leave_after=TWICE)
    stage.play("fail A")
    stage.settle("A")
    who = stage["A"]
    consequence = situation_of(who, CONSEQUENCE)
    stage.world = stage.world.with_process(replace(who, situation=consequence))
    stage.play("term B")
    stage.usually_until(lambda: stage.epoch == "run 1")
    assert {seat.incarnation for seat in stage.about.roster} == {"A", "C"}
    assert not stage.about.failures


def situation_of(who: Process, verdict: Ended) -> Situation:
    """The same, with other last words."""
    assert isinstance(verdict.outcome, Crashed)
    failure = replace(verdict.outcome.failure, generation=0)
    return replace(who.situation, verdict=Ended(Crashed(failure), 1.0))


@pytest.mark.parametrize("limit", [FailureLimit(), TWICE])
def test_a_server_that_is_not_fit_leaves_at_no_charge_whatever_it_failed_before(limit):
    stage = Stage("running", spares=1, leave_after=limit)
    stage.play("unfit B")
    fail(stage, "A", 0)
    stage.usually_until(lambda: stage.epoch == "gather 2")
    cause = stage.about.cause
    assert cause is not None
    assert (cause.server, cause.exit_code, cause.reason) == (1, 69, f"server 1: {SICK}")
    assert (stage.about.is_free, len(stage.about.charges.spent)) == (True, 1)
    stage.usually_until(lambda: stage.epoch == "run 2")
    assert [seat.incarnation for seat in stage.about.roster] == ["A", "C"]
    (left,) = stage.about.left
    assert left.reason == "is not fit for the job: NPU 3"
    assert [one.machine for one in stage.about.failures] == (["a", "b"] if limit.count else [])
    assert stage.codes() == {"A": 0, "B": 69, "C": 0}


def test_without_a_spare_the_job_ends_with_its_reason():
    stage = Stage("running")
    stage.play("unfit B")
    fail(stage, "A", 0)
    assert stage.codes() == {"A": 69, "B": 69}
    assert stage.about.cause is not None
    assert stage.about.cause.reason == SICK


def test_of_two_that_are_not_fit_one_leaves_for_one_spare_and_the_other_ends_the_job():
    stage = Stage("running", spares=1)
    stage.play("unfit A", "unfit B")
    fail(stage, "A", 0)
    assert stage.codes() == {"A": 69, "B": 69, "C": 69}
    assert len(stage.about.left) == 1
    assert stage.about.cause is not None
    assert stage.about.cause.reason == SICK


def test_two_that_are_not_fit_leave_for_two_spares():
    stage = Stage("running", spares=2)
    stage.play("unfit A", "unfit B")
    fail(stage, "A", 0)
    assert stage.codes() == {"A": 69, "B": 69, "C": 0, "D": 0}


def test_a_server_that_is_not_fit_ends_where_it_has_left_and_the_answer_was_lost():
    stage = Stage("running", spares=1)
    stage.play("unfit B")
    fail(stage, "A", 0)
    stage.usually_until(lambda: (act := stage["B"].pending) is not None and act.why == LEAVES)
    before = stage["B"]
    stage.play("do B")
    assert isinstance(decided(stage, before, FailureLimit()), Forget)
    rules = rules_of(before, 2, 5)
    forgotten = replace(before, memory=carried_out(before.memory, Forget(), 0, rules))
    end = decided(stage, forgotten, FailureLimit())
    assert isinstance(end, Exit)
    assert (end.exit_code, end.reason) == (69, f"{SICK}; {LEFT_TO_A_SPARE}")


@pytest.mark.parametrize("fault", ["unable", "stuck"])
def test_a_server_that_cannot_start_its_ranks_or_end_them_leaves_at_no_charge(fault):
    """What it costs is the failure of A."""
    stage = Stage("running", spares=1)
    stage.play(f"{fault} B")
    fail(stage, "A", 0)
    stage.usually_until(lambda: bool(stage.about.left))
    (left,) = stage.about.left
    assert (
        left.reason
        == {
            "unable": "cannot start its ranks: no room",
            "stuck": "cannot go on: what is left cannot be ended: 4711 (state D)",
        }[fault]
    )
    assert stage.codes() == {"A": 0, "B": 69, "C": 0}
    assert len(stage.about.charges.spent) == 1


def test_without_a_spare_the_job_ends_where_a_server_cannot_end_its_ranks():
    stage = Stage("running")
    stage.play("stuck B")
    fail(stage, "A", 0)
    assert stage.codes() == {"A": 69, "B": 69}
    assert stage.about.cause is not None
    assert stage.about.cause.reason == STUCK


def test_an_answer_that_was_lost_changes_nothing():
    """It has left, and does not know it: the spare may have its place already."""
    stage = Stage("running", spares=1, leave_after=AT_ONCE)
    fail(stage, "B", 0)
    stage.usually_until(lambda: (act := stage["B"].pending) is not None and act.why == LEAVES)
    before = stage["B"]
    stage.play("do B")
    assert isinstance(decided(stage, before, AT_ONCE), Forget)
    stage.settle("C")
    assert isinstance(decided(stage, before, AT_ONCE), Forget)
    forgotten = carried_out(before.memory, Forget(), 0, rules_of(before, 2, 5, leave_after=AT_ONCE))
    assert (forgotten.index, forgotten.started) == (None, 0)


class OlderAbout(Struct):
    stamp: str
    settings: str
    cause: dict[str, object] | None = None


def test_members_of_other_versions_read_each_others_records():
    first = FirstFailure(1, "b", "B", 0, 0.0, "rank 0 exited with status 3")
    left = LeftServer(1, "B", 1, 0.0, "node n1", "was the first to fail")
    about = About("s", "", cause=Cause(1, 3, "x", first=first), failures=(first,), left=(left,))
    data = records.encode(about)
    assert records.decode(records.ABOUT_KEY, data, About) == about
    assert msgspec.json.decode(data, type=OlderAbout).stamp == "s"
    older = b'{"job":"j","incarnation":"B","place":"b","cause":null}'
    assert records.decode("server/1", older, Member).machine == ""
    assert not seen(Stage("running", leave_after=NEVER).world.store).spares


NEVER = FailureLimit()


def test_as_many_failures_are_remembered_as_the_option_may_ask_for():
    assert MOST_FAILURES <= MOST_KEPT


def test_a_machine_that_is_not_known_never_fails_too_often():
    unknown = FirstFailure(1, "", "B", 0, 0.0, "x")
    assert not AT_ONCE.broken_by("", (unknown,))
    assert new_process("B", "b").memory.index is None
