"""What comes after a generation: every case of ``decide``, and what holds for all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ascend_supervisor.errors import HANG
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    ExitStatus,
    Failure,
    Fault,
    Interrupted,
    NotStarted,
    Outcome,
    Reached,
    Remedy,
    Requester,
    StopSignal,
)
from ascend_supervisor.restart_policy import (
    FREE_SECONDS,
    STEADY_SECONDS,
    Backoff,
    Decision,
    Restart,
    RestartBudget,
    Stop,
    decide,
    stopped_by,
)

BUDGET = RestartBudget(limit=3, backoff=Backoff(1.0, 60.0), never=frozenset({125, 126, 127}))
LONG = 3600.0
SHORT = 0.5


def crash(status: int | None = 1, signal: int | None = None) -> Crashed:
    return Crashed(Failure("rank 0", 0, 0, ExitStatus(status, signal), 1.0))


def fault(code: int, remedy: Remedy = Remedy.CHARGED) -> Fault:
    return Fault("the table has changed", code, remedy)


def decided(
    outcome: Outcome,
    budget: RestartBudget = BUDGET,
    now: float = 0.0,
    *,
    uptime: float = LONG,
    jitter: float = 0.5,
    alone: bool = True,
    faults: tuple[Fault, ...] = (),
    left: tuple[str, ...] = (),
) -> Decision:
    ended = Ended(outcome, uptime, faults, left)
    return decide(ended, budget, now, jitter=jitter, holds_all_ranks=alone)


def history(
    budget: RestartBudget, *deaths: tuple[float, Outcome, float], jitter: float = 0.5
) -> list[Decision]:
    """The decisions after deaths, each a moment, an outcome and an uptime; until the first stop."""
    decisions: list[Decision] = []
    for now, outcome, uptime in deaths:
        decision = decided(outcome, budget, now, uptime=uptime, jitter=jitter)
        decisions.append(decision)
        if isinstance(decision, Stop):
            break
        budget = decision.budget
    return decisions


def final(exit_code: int, reason: str) -> Stop:
    """An end after which nobody should try again."""
    return Stop(exit_code, reason, is_retryable=False)


def restarts(decisions: list[Decision]) -> int:
    return sum(isinstance(decision, Restart) for decision in decisions)


def test_completed_ends_with_0():
    assert decided(Completed()) == final(0, "every rank ended with 0")


@pytest.mark.parametrize("code", [69, 73, 126, 127])
def test_what_could_not_be_started_is_not_tried_again(code):
    stop = decided(NotStarted(code, "rank 0: no 'python3' in PATH"))
    assert stop == final(
        code, "rank 0: no 'python3' in PATH; not tried again: it would fail the same way"
    )


@pytest.mark.parametrize(("number", "name"), [(15, "SIGTERM"), (2, "SIGINT"), (3, "SIGQUIT")])
@pytest.mark.parametrize("failure", [None, crash(7).failure])
def test_interrupted_ends_with_128_and_the_signal_whatever_failed_before(number, name, failure):
    told = StopSignal(number, 1.0)
    stop = decided(Interrupted(told, failure))
    assert stop == stopped_by(told) == final(128 + number, f"told to stop by {name}")


def test_an_operator_who_tells_us_to_stop_is_named():
    by = StopSignal(15, 1.0, Requester(812, 1000))
    told = "told to stop by ascend-supervisorctl (process 812 of user 1000)"
    assert stopped_by(by) == final(143, told)


@pytest.mark.parametrize("code", [125, 126, 127])
def test_a_status_that_is_never_retried_ends_the_job(code):
    assert decided(crash(code)) == final(
        code, f"status {code} is never tried again (--no-restart-on)"
    )


def test_a_cause_that_is_never_retried_ends_the_job_before_anybody_has_looked():
    """As where several servers decide: the words are all that is there."""
    budget = replace(BUDGET, never_causes=frozenset({"device"}))
    failed = crash(1)
    busy = replace(failed, failure=replace(failed.failure, last_lines=("EJ0001: it is busy",)))
    assert isinstance(decided(failed, budget), Restart)
    assert isinstance(decided(busy), Restart)
    assert decided(busy, budget) == final(
        1, "EJ0001, a cause of the layer device, is never tried again (--no-restart-on-cause)"
    )


def test_never_retried_are_statuses_not_signals():
    budget = replace(BUDGET, never=frozenset({9, 137}))
    assert isinstance(decided(crash(None, 9), budget), Restart)
    assert decided(crash(137), budget) == final(
        137, "status 137 is never tried again (--no-restart-on)"
    )


@pytest.mark.parametrize(
    ("outcome", "code"), [(crash(7), 7), (crash(None, 9), 137), (Fault("hang", 124), 124)]
)
def test_without_a_budget_the_job_ends_with_its_own_code(outcome, code):
    budget = replace(BUDGET, limit=0)
    assert decided(outcome, budget) == Stop(code, "no restarts were asked for (--restarts)")


def test_a_budget_without_period_is_never_refilled():
    deaths = [(1e6 * n, crash(7), LONG) for n in range(9)]
    decisions = history(BUDGET, *deaths)
    assert restarts(decisions) == 3
    assert decisions[-1] == Stop(7, "the restart budget of 3 is used up")


def test_a_budget_with_a_period_allows_its_limit_within_it():
    budget = replace(BUDGET, period=100.0)
    decisions = history(budget, *[(n * 25.0, crash(7), LONG) for n in range(9)])
    assert restarts(decisions) == 3
    assert decisions[-1] == Stop(7, "the restart budget of 3 is used up within 100 s")


def test_a_budget_is_refilled_after_its_period():
    budget = replace(BUDGET, period=100.0)
    decisions = history(budget, *[(n * 34.0, crash(7), LONG) for n in range(9)])
    assert restarts(decisions) == 9


@pytest.mark.parametrize(("now", "left"), [(0.0, 1), (9.9, 1), (10.0, 2), (19.9, 2), (20.0, 3)])
def test_a_restart_counts_until_its_period_is_over(now, left):
    assert replace(BUDGET, period=10.0, spent=(0.0, 10.0)).left(now) == left
    assert replace(BUDGET, spent=(0.0, 10.0)).left(now) == 1


def test_what_is_spent_beyond_the_limit_leaves_nothing():
    assert replace(BUDGET, spent=(0.0,) * 7).left(0.0) == 0


def test_the_delay_doubles_up_to_the_most():
    budget = RestartBudget(limit=9, backoff=Backoff(1.0, 60.0))
    decisions = history(budget, *[(float(n), crash(7), LONG) for n in range(9)], jitter=1.0)
    delays = [decision.delay for decision in decisions if isinstance(decision, Restart)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize(("jitter", "delay"), [(0.0, 0.0), (0.25, 1.0), (0.5, 2.0)])
def test_jitter_is_full(jitter, delay):
    restart = decided(crash(), replace(BUDGET, spent=(0.0, 0.0)), jitter=jitter)
    assert isinstance(restart, Restart)
    assert restart.delay == delay


def test_the_delay_falls_back_as_the_budget_is_refilled():
    budget = replace(BUDGET, period=100.0)
    moments = (0.0, 1.0, 2.0, 500.0)
    decisions = history(budget, *[(at, crash(7), LONG) for at in moments], jitter=1.0)
    assert [d.delay for d in decisions if isinstance(d, Restart)] == [1, 2, 4, 1]


def test_the_delay_of_a_budget_without_end_stays_finite():
    budget = RestartBudget(
        limit=10**6, backoff=Backoff(1.0, 60.0), spent=tuple(map(float, range(5000)))
    )
    restart = decided(crash(), budget, 5000.0, jitter=0.5)
    assert isinstance(restart, Restart)
    assert restart.delay == 30.0


CLOSED = (
    "Traceback (most recent call last):",
    '  File "train.py", line 12, in <module>',
    "    main()",
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.77.0.2]:30431.",
)
LOST = Crashed(replace(crash().failure, last_lines=CLOSED))
SAME = "3 generations in a row ended the same way"
EARLY = replace(BUDGET, limit=9, min_uptime=10.0)


@pytest.mark.parametrize("outcome", [crash(1), crash(None, 11), Fault("busy", 69)])
def test_three_early_deaths_alike_end_the_job(outcome):
    decisions = history(EARLY, *[(float(n), outcome, SHORT) for n in range(9)])
    assert restarts(decisions) == 2
    stop = decisions[-1]
    assert isinstance(stop, Stop)
    assert stop.reason.startswith(SAME)
    assert "within 10 s" in stop.reason
    assert stop.exit_code == (
        69 if isinstance(outcome, Fault) else outcome.failure.status.exit_code
    )


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (crash(1), "exited with status 1"),
        (crash(None, 11), "was killed by SIGSEGV"),
        (Fault("rank 1 has written nothing", HANG), "a hang, exit code 124"),
        (Fault("busy", 69), "a fault, exit code 69"),
    ],
)
def test_how_they_ended_is_told(outcome, told):
    """A hang is no process that has exited with 124."""
    stop = history(EARLY, *[(float(n), outcome, SHORT) for n in range(9)])[-1]
    assert isinstance(stop, Stop)
    assert stop.reason.startswith(f"{SAME} ({told}) within")


@pytest.mark.parametrize(
    "deaths",
    [
        pytest.param([(crash(1), SHORT)] * 2 + [(crash(2), SHORT)], id="another status"),
        pytest.param([(crash(9), SHORT)] * 2 + [(crash(None, 9), SHORT)], id="a signal"),
        pytest.param([(crash(1), SHORT)] * 2 + [(crash(1), LONG)], id="a long life"),
        pytest.param([(crash(1), SHORT)] * 2 + [(crash(1), 10.0)], id="just long enough"),
        pytest.param([(LOST, SHORT)] * 3, id="lost connections"),
        pytest.param([(crash(1), SHORT)] * 2 + [(LOST, SHORT)], id="a lost connection"),
    ],
)
def test_a_death_that_is_not_alike_or_not_early_breaks_the_row(deaths):
    row = [*deaths, *deaths]
    decisions = history(EARLY, *[(float(n), *death) for n, death in enumerate(row)])
    assert restarts(decisions) == 6


def test_after_a_break_three_more_are_needed():
    row = [(1, SHORT), (1, SHORT), (2, SHORT), (2, SHORT), (1, LONG), (1, SHORT), (1, SHORT)]
    row += [(1, SHORT)] * 4
    deaths = [(float(n), crash(status), uptime) for n, (status, uptime) in enumerate(row)]
    assert restarts(history(EARLY, *deaths)) == 7


def test_a_minimal_uptime_of_0_never_ends_a_job_early():
    budget = replace(EARLY, min_uptime=0.0)
    assert restarts(history(budget, *[(0.0, crash(1), 0.0)] * 20)) == 9


def test_a_spent_budget_is_told_even_where_three_died_early():
    decisions = history(replace(EARLY, limit=2), *[(0.0, crash(1), SHORT)] * 3)
    assert decisions[-1] == Stop(1, "the restart budget of 2 is used up")


@pytest.mark.parametrize(("outcome", "code"), [(crash(7), 7), (Fault("hang", 124), 124)])
def test_a_server_of_several_never_restarts_its_ranks_alone(outcome, code):
    assert decided(outcome, alone=False) == Stop(
        code, "processes on other servers cannot be restarted from here"
    )


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("outcome", "code"), [(crash(7), 7), (Fault("hang", 124), 124), (fault(69, Remedy.FREE), 69)]
)
def test_nothing_is_started_on_top_of_what_cannot_be_ended(outcome, code, alone):
    stop = Stop(code, "what is left cannot be ended: 4711 (D)")
    assert decided(outcome, alone=alone, left=("4711 (D)",)) == stop


def test_a_fault_is_charged_to_the_budget_like_a_crash():
    restart = decided(Fault("hang", 124), now=5.0)
    assert restart == Restart(
        0.5, replace(BUDGET, spent=(5.5,), last_death=ExitStatus(124), early_deaths=0)
    )


def test_a_free_restart_spends_nothing_and_needs_no_budget():
    for budget in (BUDGET, replace(BUDGET, limit=0), replace(BUDGET, spent=(0.0,) * 9)):
        restart = decided(fault(69, Remedy.FREE), budget)
        assert isinstance(restart, Restart)
        assert restart.is_free
        assert restart.budget.left(0.0) == budget.left(0.0)
        assert restart.budget.last_death == budget.last_death


def test_free_restarts_in_a_row_have_the_pace_of_others():
    deaths = [(float(n), fault(69, Remedy.FREE), SHORT) for n in range(8)]
    decisions = history(BUDGET, *deaths, jitter=1.0)
    assert [d.delay for d in decisions if isinstance(d, Restart)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_generation_that_ran_for_long_begins_a_new_row():
    deaths = [(0.0, SHORT), (1.0, SHORT), (500.0, STEADY_SECONDS), (501.0, SHORT)]
    row = [(at, fault(69, Remedy.FREE), uptime) for at, uptime in deaths]
    decisions = history(BUDGET, *row, jitter=1.0)
    assert [d.delay for d in decisions if isinstance(d, Restart)] == [1, 2, 1, 2]


def test_free_restarts_are_charged_when_an_hour_of_them_has_not_helped():
    free = fault(69, Remedy.FREE)
    moments = (0.0, FREE_SECONDS - 1, *(FREE_SECONDS + n for n in range(9)))
    decisions = history(BUDGET, *[(at, free, SHORT) for at in moments])
    assert restarts(decisions) == 2 + BUDGET.limit
    assert decisions[-1] == Stop(69, "the restart budget of 3 is used up")


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("outcome", "is_retryable"),
    [
        (crash(1), True),
        (crash(64), True),
        (crash(None, 9), True),
        (crash(None, 15), True),
        (Fault("hang", 124), True),
        (Fault("no room", 69), True),
        (fault(69, Remedy.FREE), True),
        (fault(69, Remedy.FINAL), True),
        (fault(65, Remedy.FINAL), False),
        (crash(125), False),
        (crash(126), False),
        (crash(127), False),
        (Completed(), False),
        (NotStarted(126, "not executable"), False),
        (NotStarted(127, "not found"), False),
        (NotStarted(73, "no directory"), False),
        (Interrupted(StopSignal(15, 1.0)), False),
        (Interrupted(StopSignal(2, 1.0), crash(1).failure), False),
    ],
    ids=str,
)
def test_which_ends_a_controller_may_try_again(outcome, is_retryable, alone):
    decision = decided(outcome, replace(BUDGET, spent=(0.0,) * 3), alone=alone)
    if outcome == fault(69, Remedy.FREE) and alone:
        assert isinstance(decision, Restart)
    else:
        assert isinstance(decision, Stop)
        assert decision.is_retryable is is_retryable


def test_what_cannot_be_ended_here_may_be_tried_elsewhere():
    decision = decided(crash(1), left=("4711 (D)",))
    assert isinstance(decision, Stop)
    assert decision.is_retryable


def test_three_ends_of_the_same_kind_are_not_tried_again_elsewhere():
    decisions = history(EARLY, *[(0.0, crash(1), SHORT)] * 3)
    assert isinstance(decisions[-1], Stop)
    assert "retrying will not help" in decisions[-1].reason
    assert not decisions[-1].is_retryable


@pytest.mark.parametrize("alone", [True, False])
def test_a_final_fault_ends_the_job(alone):
    final = fault(69, Remedy.FINAL)
    stop = Stop(69, "the table has changed; not tried again")
    assert decided(final, alone=alone) == stop
    assert decided(crash(7), alone=alone, faults=(fault(5, Remedy.FREE), final)) == stop


def test_a_free_fault_that_comes_while_a_failed_group_is_ended_makes_the_restart_free():
    restart = decided(crash(7), replace(BUDGET, limit=0), faults=(fault(69, Remedy.FREE),))
    assert isinstance(restart, Restart)


def test_a_charged_fault_that_comes_later_changes_nothing():
    assert decided(crash(7), faults=(fault(69),)) == decided(crash(7))


@pytest.mark.parametrize("remedy", Remedy)
@pytest.mark.parametrize(
    "outcome", [Completed(), Interrupted(StopSignal(15, 1.0)), NotStarted(127, "no python")]
)
def test_what_is_over_stays_over_whatever_fault_comes_later(outcome, remedy):
    assert decided(outcome, faults=(fault(69, remedy),)) == decided(outcome)


def test_a_question_does_not_change_what_it_is_asked_about():
    assert decided(crash()) == decided(crash())
    assert BUDGET.spent == ()


# What holds for every outcome, budget and history.

statuses = st.one_of(
    st.integers(0, 255).map(ExitStatus), st.integers(1, 64).map(lambda n: ExitStatus(None, n))
)
failures = st.builds(
    Failure,
    name=st.just("rank 0"),
    rank=st.none() | st.integers(0, 9),
    generation=st.integers(0, 9),
    status=statuses,
    runtime_seconds=st.floats(0, 1e6),
)
codes = st.integers(0, 255)
bad_outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(NotStarted, codes, st.text()),
    st.builds(Crashed, failures),
    st.builds(Fault, st.text(), codes, st.sampled_from(Remedy)),
    st.builds(
        Interrupted, st.builds(StopSignal, st.integers(1, 64), st.just(1.0)), st.none() | failures
    ),
)
moments = st.floats(0, 1e4)
budgets = st.builds(
    RestartBudget,
    limit=st.integers(0, 5),
    period=st.none() | st.floats(0.001, 1e4),
    backoff=st.builds(Backoff, st.floats(0, 100), st.floats(0, 100)),
    min_uptime=st.floats(0, 100),
    never=st.frozensets(codes, max_size=3),
    spent=st.lists(moments, max_size=5).map(lambda spent: tuple(sorted(spent))),
    early_deaths=st.integers(0, 3),
    last_death=st.none() | statuses,
)
jitters = st.floats(0, 1, exclude_max=True)


@given(bad_outcomes, budgets, moments, moments, jitters, st.booleans())
def test_nothing_but_completed_ends_with_0(outcome, budget, now, uptime, jitter, alone):
    decision = decided(outcome, budget, now, uptime=uptime, jitter=jitter, alone=alone)
    assert decision != Stop(0, getattr(decision, "reason", ""))


@given(bad_outcomes, budgets, moments, moments, jitters, st.booleans())
def test_a_delay_is_between_0_and_the_most(outcome, budget, now, uptime, jitter, alone):
    decision = decided(outcome, budget, now, uptime=uptime, jitter=jitter, alone=alone)
    if isinstance(decision, Restart):
        assert 0 <= decision.delay <= budget.backoff.most


@given(
    limit=st.integers(0, 4),
    period=st.none() | st.floats(0.001, 1e3),
    min_uptime=st.floats(0, 10),
    lives=st.lists(
        st.tuples(st.floats(0, 300), st.builds(Crashed, failures) | st.just(Fault("x", 1))),
        max_size=40,
    ),
)
def test_there_are_never_more_restarts_than_the_limit_in_any_period(
    limit, period, min_uptime, lives
):
    budget = RestartBudget(limit, period, Backoff(1.0, 60.0), min_uptime)
    now = 0.0
    granted: list[float] = []
    for uptime, outcome in lives:
        now += uptime
        left = budget.left(now)
        decision = decided(outcome, budget, now, uptime=uptime)
        if isinstance(decision, Restart):
            granted.append(now)
            budget = decision.budget
            assert budget.left(now) == left - 1
    for start in granted:
        window = [at for at in granted if at >= start and (period is None or at - start < period)]
        assert len(window) <= limit


# Generations that get no further ----------------------------------------------------------------

FURTHER, STUCK = Reached(step=12, best=10), Reached(step=10, best=12, is_stuck=True)
WITH_LIMIT = replace(BUDGET, limit=9, stuck_limit=3)


def after_generations(*ends: tuple[Outcome, Reached]) -> Decision:
    """The last decision."""
    decision: Decision = Restart(0.0, WITH_LIMIT)
    for number, (outcome, reached) in enumerate(ends):
        assert isinstance(decision, Restart), "ended before"
        ended = Ended(outcome, LONG, reached=reached)
        now = LONG * number
        decision = decide(ended, decision.budget, now, jitter=0.5, holds_all_ranks=True)
    return decision


def test_three_generations_that_get_no_further_end_the_job_with_the_last_code():
    stop = after_generations((crash(7), STUCK), (crash(7), STUCK), (crash(8), STUCK))
    end = final(
        8,
        "3 generations in a row came no further than step 12 (all ended at step 10): "
        "retrying will not help (--no-progress-limit)",
    )
    assert stop == replace(end, stuck=(10, 10, 10))


def test_one_that_gets_further_begins_the_count_anew():
    ends = [(crash(7), STUCK), (crash(7), STUCK), (crash(7), FURTHER)]
    assert isinstance(after_generations(*ends, *ends[:2]), Restart)


@pytest.mark.parametrize(
    ("outcome", "reached", "stuck"),
    [
        (crash(7), STUCK, (None, 11, 10)),
        (crash(7), FURTHER, ()),
        (Interrupted(StopSignal(15, 0.0)), STUCK, None),
        (fault(69, Remedy.FINAL), STUCK, None),
    ],
)
def test_an_end_tells_which_generations_made_no_progress(outcome, reached, stuck):
    """A later start in the same place goes on with them, and none of them is forgotten."""
    spent = replace(WITH_LIMIT, limit=0, stuck=(12, None, 11))
    ended = Ended(outcome, LONG, reached=reached)
    stop = decide(ended, spent, 0.0, jitter=0.5, holds_all_ranks=True)
    assert isinstance(stop, Stop)
    assert stop.stuck == stuck


def test_without_a_limit_they_are_not_counted():
    ended, free = Ended(crash(7), LONG, reached=STUCK), replace(BUDGET, limit=9, stuck_limit=0)
    decision = decide(ended, free, 0.0, jitter=0.5, holds_all_ranks=True)
    assert isinstance(decision, Restart)
    assert decision.budget.stuck == ()


def test_a_restart_that_is_not_charged_does_not_count_among_them():
    free = (fault(69, Remedy.FREE), STUCK)
    ends = [(crash(7), STUCK), (crash(7), STUCK)]
    assert isinstance(after_generations(*ends, free, free), Restart)
    assert isinstance(after_generations(*ends, free, ends[0]), Stop)
