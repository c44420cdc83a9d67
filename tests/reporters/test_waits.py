"""What is waited for, in the words of one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.events.cluster import ClusterWaiting
from ascend_supervisor.events.generations import (
    GenerationEnded,
    GenerationStarted,
    ProcessExited,
    RestartScheduled,
)
from ascend_supervisor.events.leftovers import (
    PortWaiting,
    ReleaseWaiting,
    StopWaiting,
    WaitEnded,
)
from ascend_supervisor.events.rank_table import RankTableReady, RankTableWaiting
from ascend_supervisor.events.supervisor import ExitLingering, SignalReceived, SupervisorExited
from ascend_supervisor.output.terminal import cut
from ascend_supervisor.reporters.wait_line import Wait, is_only_a_wait, line, wait_after

TABLE = RankTableWaiting("/t", "status is 'initializing'", 130.0, 1800.0)
RELEASE = ReleaseWaiting(("7 (state S): python", "8 (state D): python"), 10.0, 600.0)
CLUSTER = ClusterWaiting("no new rank table since the pods were replaced", 3.0, 120.0)
PORT = PortWaiting(29500, 0.0, 75.0)
STOP = StopWaiting(("7 (state S): python",), 5.0, 30.0)
RESTART = RestartScheduled(12.5, 1)
EXITED = ProcessExited(0, 0, 0, 7, 1, None, 1.0, first_failure=True, oom_killed=False)
WAIT = Wait("waiting for the end of 7 (state S): python", 5.0, 30.0)


@pytest.mark.parametrize(
    ("event", "words", "waited", "limit"),
    [
        (TABLE, "waiting for the rank table /t: status is 'initializing'", 130.0, 1800.0),
        (
            RELEASE,
            "waiting for the release of the devices by 7 (state S): python; 8 (state D): python",
            10.0,
            600.0,
        ),
        (
            CLUSTER,
            "waiting for the cluster: no new rank table since the pods were replaced",
            3.0,
            120.0,
        ),
        (PORT, "waiting for port 29500, where rank 0 is to listen", 0.0, 75.0),
        (STOP, "waiting for the end of 7 (state S): python", 5.0, 30.0),
        (RESTART, "waiting before the restart of all ranks", 0.0, 12.5),
        (
            ExitLingering(30.0, 1, "no restarts", None),
            "waiting before the end (--exit-linger)",
            0.0,
            30.0,
        ),
        (RankTableWaiting("/t", "empty", 0.0), "waiting for the rank table /t: empty", 0.0, None),
    ],
)
@pytest.mark.parametrize("before", [None, WAIT])
def test_an_event_that_tells_of_a_wait_begins_it(before, event, words, waited, limit):
    assert wait_after(before, event) == Wait(words, waited, limit)


@pytest.mark.parametrize(
    "event",
    [
        WaitEnded(1.0),
        StopWaiting(("7 (state D): python",), given_up=True),
        RankTableReady("/t", "1.2", 1, 1, "here", (0,), "0", ()),
        GenerationStarted(1, 0),
        GenerationEnded(0, "crashed", 0, 1.0, "restart"),
        RestartScheduled(0.0, 1),
        SupervisorExited(1, "because", 1, None),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_that_shows_the_end_of_a_wait_ends_it(event):
    assert wait_after(WAIT, event) is None


@pytest.mark.parametrize("wait", [None, WAIT])
def test_other_events_change_nothing(wait):
    assert wait_after(wait, SignalReceived("SIGHUP", "the log files are opened anew")) == wait


def test_of_processes_that_are_waited_for_none_is_named_that_may_have_ended():
    following = wait_after(WAIT, EXITED)
    assert following == Wait("waiting for the end of the other processes", 5.0, 30.0)
    assert wait_after(None, EXITED) is None


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        *(
            (TABLE, True),
            (CLUSTER, True),
            (RELEASE, True),
            (STOP, True),
            (RESTART, False),
            (EXITED, False),
        ),
        (StopWaiting(("7",), given_up=True), False),
    ],
)
def test_what_only_tells_of_a_wait_needs_no_line_of_its_own(event, expected):
    assert is_only_a_wait(event) is expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (82, "waiting for the rank table /t: status is 'initializing' (2 min 10 s, until 30 min)"),
        (60, "waiting for the rank table /t:... (2 min 10 s, until 30 min)"),
        (49, "waiting for the ran... (2 min 10 s, until 30 min)"),
        (40, "waiting for the rank table /t: status..."),
        (2, ".."),
        (0, ""),
    ],
)
def test_a_line_is_cut_to_the_window_and_the_time_is_kept(columns, expected):
    wait = Wait("waiting for the rank table /t: status is 'initializing'", 0.0, 1800.0)
    shown = line(wait, 130.9, columns)
    assert shown == expected


def test_without_a_limit_only_the_time_so_far_is_told():
    assert line(Wait("waiting", 0.0, None), 0.4, 80) == "waiting (0 s)"


def test_a_limit_is_rounded_up_and_the_time_so_far_down():
    assert line(Wait("waiting", 0.0, 2.1), 2.9, 80) == "waiting (2 s, until 3 s)"


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        *(("abcdef", 6, "abcdef"), ("abcdef", 5, "ab..."), ("abcdef", 0, "")),
        *(("昇腾昇腾", 8, "昇腾昇腾"), ("昇腾昇腾", 7, "昇腾..."), ("昇腾昇腾", 6, "昇...")),
    ],
)
def test_wide_characters_take_two_columns(text, columns, expected):
    assert cut(text, columns) == expected


@given(words=st.text(), columns=st.integers(0, 200), waited=st.floats(0, 1e7))
def test_whatever_strangers_wrote_it_is_one_line_that_fits(words, columns, waited):
    shown = line(Wait(words, 0.0, 60.0), waited, columns)
    assert len(shown) <= columns
    assert shown.isprintable()
