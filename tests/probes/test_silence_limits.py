"""When silence is a hang, and when to look again: a table of cases and a few rules."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.life import Life, Notified
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.probes.hang import Hang
from ascend_supervisor.probes.signs_of_life import voices
from ascend_supervisor.probes.silence import Limits, judged
from tests.probes.lives import (
    command,
    life,
    mpirun,
    msrun,
    rank,
    scheduler,
    torchrun,
    wrote,
)

GONE = 7
"""The pid of a worker that has ended; the others live."""


def mute() -> Activity:
    """That of what has written nothing."""
    return Activity(0.0)


def ask(lived: Life, limits: Limits, now: float) -> Hang | float:
    """What is judged at ``now``; the processes were started at 0."""
    return judged(voices(lived, {GONE}), limits, 0.0, now)


def hang(lived: Life, limits: Limits, now: float) -> Hang:
    found = ask(lived, limits, now)
    assert isinstance(found, Hang), found
    return found


def who(found: Hang) -> tuple[int, ...]:
    return found.event(0).ranks


ALL = Limits(hang=60.0)
ONE = Limits(rank_hang=60.0)
DOG = Limits(watchdog=60.0)
START = Limits(startup=60.0)


def two(first: float, second: float, notified: Mapping[int, Notified] | None = None) -> Life:
    """Two ranks that have last written then, and since long ago."""
    activities = (wrote(at, since=-1000) for at in (first, second))
    return life(*(rank(number, one) for number, one in enumerate(activities)), notified=notified)


def said(at: float, **more: Any) -> Notified:
    return Notified(at, **more)


NOT_YET = {
    "no process is started yet": (life(), ALL, 59.0, 60.0),
    "nothing is limited": (two(0, 0), Limits(), 1e9, inf),
    "the last of two is waited for": (two(10, 30), ALL, 40.0, 50.0),
    "one speaks while the other is silent": (two(0, 100), ALL, 100.0, 60.0),
    "one has notified": (two(0, 0, {1: said(50)}), ALL, 60.0, 50.0),
    "one has asked for more time": (
        two(0, 0, {1: said(0, extended_until=90)}),
        ALL,
        60.0,
        30.0,
    ),
    "an extension does not shorten": (
        two(0, 20, {1: said(20, extended_until=30)}),
        ALL,
        30.0,
        50.0,
    ),
    "the last words of a rank that has ended": (
        life(rank(0, wrote(0)), rank(1, wrote(50), has_ended=True)),
        ALL,
        60.0,
        50.0,
    ),
    "all have ended": (life(rank(0, wrote(0), has_ended=True)), ALL, 70.0, 60.0),
    "a scheduler that is alone in its pod": (
        life(scheduler(mute(), significant=True), ranks=1),
        Limits(1, 1, 1, 1),
        70.0,
        1.0,
    ),
    "a rank of mpirun that may have ended": (
        life(mpirun(wrote(60)), notified={0: said(0, watchdog_at=0), 1: said(60, watchdog_at=60)}),
        DOG,
        60.0,
        60.0,
    ),
    "only rank 0 prints, and the start of the others is over": (
        life(rank(0, wrote(650)), rank(1, mute())),
        Limits(hang=60.0, startup=600.0),
        700.0,
        10.0,
    ),
    "only rank 0 prints, and the other limit is learnt": (
        life(rank(0, wrote(650)), rank(1, mute())),
        Limits(startup=600.0, learns_hang=True),
        700.0,
        600.0,
    ),
    "an extension of a rank that has ended is over": (
        life(
            rank(0, wrote(0), has_ended=True),
            rank(1, wrote(60)),
            notified={0: said(0, extended_until=1e6)},
        ),
        ALL,
        70.0,
        50.0,
    ),
    "one that starts holds the others": (
        life(rank(0, wrote(1)), rank(1, mute())),
        Limits(hang=60.0, startup=600.0),
        100.0,
        60.0,
    ),
    "a rank that has ended is not silent": (
        life(rank(0, wrote(0), has_ended=True), rank(1, wrote(60))),
        ONE,
        70.0,
        50.0,
    ),
    "a worker that has ended": (
        life(msrun(mute(), (wrote(0), wrote(60)), {GONE: 0, 8: 1})),
        ONE,
        70.0,
        50.0,
    ),
    "all workers have ended, and torchrun waits for other servers": (
        life(torchrun(wrote(0), {GONE: 0}, workers=1), servers=2),
        Limits(60.0, None, 60.0, 60.0),
        70.0,
        60.0,
    ),
    "a launcher has ended, whatever is known of its workers": (
        life(msrun(Activity(0.0, has_ended=True), (wrote(0), wrote(0)), {})),
        Limits(60.0, 60.0, 60.0, 60.0),
        70.0,
        60.0,
    ),
    "a worker that was never seen is not silent alone": (
        life(msrun(mute(), (wrote(0), wrote(60)), {8: 1})),
        ONE,
        70.0,
        50.0,
    ),
    "but what it writes counts": (
        life(msrun(mute(), (wrote(60), wrote(0)), {8: 1})),
        ALL,
        70.0,
        50.0,
    ),
    "output is no WATCHDOG=1, but another is stopping": (
        life(rank(0, wrote(0)), notified={0: said(0, is_stopping=True)}),
        DOG,
        70.0,
        60.0,
    ),
    "WATCHDOG=1 has come": (
        two(0, 0, {0: said(50, watchdog_at=50), 1: said(9, watchdog_at=9)}),
        DOG,
        60.0,
        9.0,
    ),
    "READY=1 begins it": (
        life(rank(0, wrote(0)), notified={0: said(50, ready_at=50)}),
        DOG,
        60.0,
        50.0,
    ),
    "a limit of its own, longer": (
        life(rank(0, wrote(0)), notified={0: said(0, watchdog_seconds=90)}),
        DOG,
        60.0,
        30.0,
    ),
    "it has no watchdog": (
        life(rank(0, wrote(0)), notified={0: said(0, watchdog_seconds=0)}),
        DOG,
        1e6,
        60.0,
    ),
    "a limit of its own without --watchdog": (
        life(rank(0, wrote(0)), notified={0: said(0, watchdog_seconds=1)}),
        ALL,
        50.0,
        10.0,
    ),
    "the start may take longer": (
        life(rank(0, mute())),
        Limits(60.0, 60.0, None, 600.0),
        100.0,
        60.0,
    ),
    "the start is over": (life(rank(0, wrote(10))), START, 1e6, 60.0),
    "the start is over with any message": (
        life(rank(0, mute()), notified={0: said(10)}),
        START,
        1e6,
        60.0,
    ),
    "with a watchdog output does not end the start": (
        life(rank(0, wrote(10))),
        Limits(60.0, 60.0, 60.0, 600.0),
        100.0,
        60.0,
    ),
    "the start is extended": (
        life(rank(0, mute()), notified={0: said(10, extended_until=100)}),
        Limits(watchdog=600.0, startup=60.0),
        70.0,
        30.0,
    ),
}


@pytest.mark.parametrize("case", NOT_YET)
def test_it_is_no_hang_and_it_is_said_when_to_look_again(case):
    lived, limits, now, wait = NOT_YET[case]
    assert ask(lived, limits, now) == pytest.approx(wait)


HANGS = {
    "all are silent": (two(0, 10), ALL, 70.0, (0, 1), "silence", 70.0),
    "the one that is left": (
        life(rank(0, wrote(0)), rank(1, wrote(0), has_ended=True)),
        ALL,
        60.0,
        (0,),
        "silence",
        60.0,
    ),
    "a scheduler's words do not count": (
        life(scheduler(wrote(60)), rank(0, wrote(0))),
        ALL,
        60.0,
        (0,),
        "silence",
        60.0,
    ),
    "a rank that only serves the others does not count": (
        life(rank(0, wrote(60), significant=False), rank(1, wrote(0))),
        ALL,
        60.0,
        (1,),
        "silence",
        60.0,
    ),
    "one that has ended without a word is not starting": (
        life(rank(0, mute(), has_ended=True), rank(1, wrote(0))),
        Limits(hang=60.0, startup=600.0),
        60.0,
        (1,),
        "silence",
        60.0,
    ),
    "nothing was ever written": (life(rank(0, mute())), ALL, 60.0, (0,), "silence", 60.0),
    "an extension is over": (
        two(0, 0, {1: said(0, extended_until=90)}),
        ALL,
        90.0,
        (0, 1),
        "silence",
        90.0,
    ),
    "a launcher and what comes through it": (
        life(torchrun(wrote(5), {8: 0, 9: 1})),
        ALL,
        65.0,
        (0, 1),
        "silence",
        60.0,
    ),
    "mpirun": (life(mpirun(wrote(5))), ALL, 65.0, (0, 1), "silence", 60.0),
    "a command whose ranks are unknown": (life(command(wrote(5))), ALL, 65.0, (), "silence", 60.0),
    "the one worker that is left": (
        life(msrun(wrote(0), (wrote(0), wrote(9)), {GONE: 0, 8: 1})),
        ALL,
        69.0,
        (1,),
        "silence",
        60.0,
    ),
    "a launcher that has started no worker": (
        life(msrun(mute(), (mute(), mute()), {})),
        ALL,
        60.0,
        (0, 1),
        "silence",
        60.0,
    ),
    "one is silent": (two(0, 59), ONE, 60.0, (0,), "rank_silence", 60.0),
    "one worker is silent": (
        life(msrun(mute(), (wrote(0), wrote(59)), {8: 0, 9: 1})),
        ONE,
        60.0,
        (0,),
        "rank_silence",
        60.0,
    ),
    "no WATCHDOG=1, although it writes": (
        life(rank(0, wrote(60))),
        DOG,
        60.0,
        (0,),
        "watchdog",
        60.0,
    ),
    "no WATCHDOG=1 any more": (
        life(rank(0, wrote(0)), notified={0: said(75, watchdog_at=10)}),
        DOG,
        75.0,
        (0,),
        "watchdog",
        65.0,
    ),
    "a limit of its own, shorter": (
        life(rank(0, wrote(0)), notified={0: said(0, watchdog_seconds=2)}),
        DOG,
        2.0,
        (0,),
        "watchdog",
        2.0,
    ),
    "a worker that shares a pipe": (
        life(torchrun(wrote(60), {8: 0, 9: 1}), notified={0: said(60, watchdog_at=60)}),
        DOG,
        60.0,
        (1,),
        "watchdog",
        60.0,
    ),
    "the last of the ranks that mpirun has started": (
        life(mpirun(wrote(60)), notified={0: said(0, watchdog_at=0), 1: said(60, watchdog_at=60)}),
        DOG,
        120.0,
        (0, 1),
        "watchdog",
        60.0,
    ),
    "a command of which no rank has said anything": (
        life(command(wrote(60))),
        DOG,
        60.0,
        (),
        "watchdog",
        60.0,
    ),
    "it never speaks": (
        life(rank(0, mute()), rank(1, wrote(1))),
        START,
        60.0,
        (0,),
        "startup",
        60.0,
    ),
    "it has not begun, and the start is shorter": (
        life(rank(0, mute()), rank(1, wrote(1))),
        Limits(600.0, 600.0, None, 60.0),
        60.0,
        (0,),
        "startup",
        60.0,
    ),
    "READY=1 does not come": (
        life(rank(0, wrote(59)), notified={0: said(59)}),
        Limits(watchdog=10.0, startup=60.0),
        60.0,
        (0,),
        "startup",
        60.0,
    ),
    "a launcher that does not begin": (
        life(torchrun(mute(), {})),
        START,
        60.0,
        (0, 1),
        "startup",
        60.0,
    ),
    "it says so": (
        two(0, 20, {1: said(20, gave_up_at=20)}),
        Limits(),
        20.5,
        (1,),
        "trigger",
        0.5,
    ),
    "it says so although it is stopping and has more time": (
        two(0, 20, {1: said(20, gave_up_at=20, is_stopping=True, extended_until=90)}),
        DOG,
        20.5,
        (1,),
        "trigger",
        0.5,
    ),
    "of two limits the one that passed first": (
        two(0, 30),
        Limits(hang=60.0, rank_hang=80.0),
        100.0,
        (0,),
        "rank_silence",
        100.0,
    ),
    "of two equal limits the one that says more": (
        life(rank(0, wrote(0))),
        Limits(60.0, 60.0),
        60.0,
        (0,),
        "silence",
        60.0,
    ),
}


@pytest.mark.parametrize("case", HANGS)
def test_it_is_a_hang(case):
    lived, limits, now, ranks, source, seconds = HANGS[case]
    found = hang(lived, limits, now)
    assert (who(found), found.source) == (ranks, source)
    assert found.event(0).silent_seconds == pytest.approx(seconds)


SENTENCES = {
    "no rank on this server has written anything for 60 s (--hang-timeout); rank 0 stopped first, "
    "10.0 s before the next": (two(0, 10), ALL),
    "no rank on this server has written anything for 60 s (--hang-timeout)": (two(0, 0.5), ALL),
    "the command has not written anything for 60 s (--hang-timeout)": (
        life(command(wrote(0))),
        ALL,
    ),
    "rank 1 has written nothing for 60 s (--rank-hang-timeout); "
    "the last sign of life of another rank came 20.0 s ago": (two(50, 0), ONE),
    "ranks 1, 0 have written nothing for 60 s (--rank-hang-timeout)": (two(5, 0), ONE),
    "rank 0 has not sent WATCHDOG=1 for 60 s (--watchdog)": (life(rank(0, wrote(0))), DOG),
    "the command has not sent WATCHDOG=1 for 60 s (--watchdog)": (life(command(wrote(0))), DOG),
    "rank 0 has not given a sign of life within 60 s of its start (--startup-timeout)": (
        life(rank(0, mute())),
        START,
    ),
    "ranks 0, 1 have not given a sign of life within 60 s of the start (--startup-timeout)": (
        life(rank(0, mute()), rank(1, mute())),
        START,
    ),
    "rank 0 has not sent READY=1 or WATCHDOG=1 within 60 s of its start (--startup-timeout)": (
        life(rank(0, wrote(69))),
        Limits(watchdog=9.0, startup=60.0),
    ),
    "rank 1 has reported that it hangs (WATCHDOG=trigger)": (
        two(0, 0, {1: said(0, gave_up_at=0)}),
        ALL,
    ),
    "12 ranks, rank 3 first, have written nothing for 60 s (--rank-hang-timeout)": (
        life(*(rank(n, wrote(abs(n - 3) / 10)) for n in range(12))),
        ONE,
    ),
}


@pytest.mark.parametrize(
    "silent",
    [mute(), wrote(1), wrote(6, since=1)],
    ids=["never wrote", "one line at its start", "silent for longer than it had written"],
)
def test_who_may_have_worked_in_silence_is_not_said_to_have_stopped_first(silent):
    found = hang(life(rank(0, silent), rank(1, wrote(12, since=1))), ALL, 80.0)
    assert found.reason == "no rank on this server has written anything for 60 s (--hang-timeout)"


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_hang_is_told_in_one_sentence(sentence):
    found = hang(*SENTENCES[sentence], 70.0)
    assert found.reason == sentence
    assert found.fault.reason == sentence
    assert found.event(3).msg == f"generation 3 hangs: {sentence}"


@pytest.mark.parametrize(
    ("lived", "limits", "now", "told"),
    [
        (
            life(rank(0, wrote(0)), notified={0: said(0, watchdog_at=0, extended_until=600)}),
            DOG,
            600.5,
            (
                "rank 0 has not sent WATCHDOG=1 for 600 s (--watchdog 60 s, "
                "extended by EXTEND_TIMEOUT_USEC)"
            ),
        ),
        (
            two(0, 20, {0: said(0, extended_until=200)}),
            ALL,
            200.0,
            (
                "no rank on this server has written anything for 180 s (--hang-timeout 60 s, "
                "extended by EXTEND_TIMEOUT_USEC); rank 0 stopped first, 20.0 s before the next"
            ),
        ),
        (
            two(0, 140, {0: said(0, extended_until=90)}),
            ALL,
            200.0,
            (
                "no rank on this server has written anything for 60 s (--hang-timeout); "
                "rank 0 stopped first, 140.0 s before the next"
            ),
        ),
    ],
    ids=["a watchdog", "all are silent", "what was over long ago"],
)
def test_of_an_extended_limit_it_is_told_how_long_the_ranks_are_silent(lived, limits, now, told):
    found = hang(lived, limits, now)
    assert found.reason == told
    assert found.event(0).limit_seconds == 60.0


def test_the_fault_is_charged_has_a_code_of_its_own_and_asks_for_a_look():
    fault = hang(two(0, 0), ALL, 60.0).fault
    assert (fault.exit_code, fault.remedy.value, fault.patience) == (124, "charged", None)
    assert fault.last_look


def test_the_last_lines_are_those_of_the_ranks_in_their_order_and_harmless():
    lived = life(
        rank(0, wrote(10, b"step 4\n\n")),
        rank(1, wrote(0, b"\x1b[31mshard 17\x1b[0m\x1b[2J\rreading\n")),
        rank(2, mute()),
        rank(3, wrote(20, b"x" * 999)),
    )
    event = hang(lived, ALL, 80.0).event(0)
    assert event.ranks == (1, 2, 0, 3)
    assert event.last_lines == ("reading", "", "step 4", "x" * 200)


def test_ranks_that_share_a_pipe_share_one_last_line():
    event = hang(life(torchrun(wrote(0, b"step 4\n"), {})), ALL, 60.0).event(0)
    assert (event.ranks, event.last_lines) == ((0, 1), ("step 4",))


seconds = st.floats(0, 100).map(lambda value: round(value, 1))
limit = st.none() | st.floats(1, 50).map(lambda value: round(value, 1))
messages = st.none() | st.builds(
    Notified,
    heard_at=seconds,
    ready_at=st.none() | seconds,
    watchdog_at=st.none() | seconds,
    watchdog_seconds=st.none() | st.floats(1, 50),
    extended_until=st.just(0.0) | st.floats(0, 200),
    is_stopping=st.booleans(),
)
ranks = st.lists(st.tuples(seconds, st.booleans(), messages), min_size=1, max_size=4)
limits = st.builds(Limits, limit, limit, limit, limit)


@given(ranks, limits)
def test_until_the_next_look_there_is_no_hang_and_a_hang_lasts(spoken, limits):
    """What was heard does not change meanwhile."""
    lived = life(
        *(rank(n, wrote(at), has_ended=ended) for n, (at, ended, _) in enumerate(spoken)),
        notified={n: told for n, (_, _, told) in enumerate(spoken) if told is not None},
    )
    now = 100.0
    found = ask(lived, limits, now)
    while not isinstance(found, Hang) and now < 1000:
        assert found > 0
        before = ask(lived, limits, now + min(found, 1e6) * 0.999)
        assert not isinstance(before, Hang)
        now += max(found, 0.01)
        found = ask(lived, limits, now)
    if isinstance(found, Hang):
        later = hang(lived, limits, now + 1000)
        assert {one.ranks for one in found.silent} <= {one.ranks for one in later.silent}
