"""Which incidents are told, by which server, and in which words."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from msgspec.structs import replace

from ascend_supervisor.alerts.messages import TEXT_BYTES, Alert, Course, after, alert_of, tells
from ascend_supervisor.events import Event
from ascend_supervisor.life import ServerPhase
from ascend_supervisor.settings.alert_options import ALERT_KINDS, AlertKind
from tests.alerts.examples import (
    CAUSE,
    ENDED,
    FAILED,
    FAILS,
    HANG,
    LINES,
    RESTART,
    SENDER,
    STALL,
    STARTS,
    TS,
    job,
)


def told(
    *events: Event, kinds: Collection[AlertKind] = ALERT_KINDS, account: str = ""
) -> Sequence[Alert]:
    course, found = Course(), []
    for event in (*STARTS, *events):
        course = after(course, event)
        found.append(alert_of(event, course, kinds, SENDER, lambda: account, TS))
    return [alert for alert in found if alert is not None]


def test_a_restart_names_cause_host_log_and_what_the_time_was_spent_on():
    (alert,) = told(FAILS, RESTART, account="trained 90 % of 1 h")
    assert (alert.kind, alert.event, alert.level) == ("restarted", "restart.scheduled", "info")
    assert (alert.log, alert.host, alert.ts) == ("/logs/1.txt", "pod-1", TS)
    assert alert.text == (
        f"ascend_supervisor: job train-7: {CAUSE}; all ranks restart in 0.5 s; restarts left after "
        "that: 2; trained 90 % of 1 h; look at /logs/1.txt on pod-1"
    )


def test_the_last_lines_of_the_rank_are_in_the_root_cause():
    assert [alert.root_cause for alert in told(FAILS, RESTART, FAILED, ENDED)] == [LINES, LINES, ""]


def test_a_failure_has_the_account_once():
    (alert,) = told(FAILS, FAILED, account="trained 40 % of 2 min")
    assert alert.text == (
        f"ascend_supervisor: job train-7: {CAUSE}; no restarts are left; ending with exit code 3; "
        "trained 40 % of 2 min; look at /logs/1.txt on pod-1"
    )


def test_success_sends_nobody_to_a_log():
    (alert,) = told(ENDED)
    assert alert.text == (
        "ascend_supervisor: job train-7: ending with exit code 0: all ranks ended with 0; trained "
        "98 % of 2 h"
    )


def test_a_cause_without_a_log_leads_to_the_directory():
    (alert,) = told(FAILED)
    assert (alert.log, alert.text.endswith("; look at /logs on pod-1")) == ("", True)


def test_a_hang_is_told_once_with_what_follows_it():
    (alert,) = told(HANG, RESTART)
    assert (alert.kind, alert.event, alert.log) == ("hang", "restart.scheduled", "/logs/1.txt")
    (alert,) = told(HANG, FAILED)
    assert (alert.kind, alert.event) == ("failed", "supervisor.exited")
    first, second = told(HANG, RESTART, STARTS[0], RESTART)
    assert (first.kind, second.kind) == ("hang", "restarted")


def test_a_stall_that_ends_nothing_is_told():
    (alert,) = told(STALL)
    assert (alert.kind, alert.event) == ("hang", "training.stalled")


@pytest.mark.parametrize(
    ("kinds", "events", "expected"),
    [
        (("hang",), (HANG, RESTART), 1),
        (("restarted",), (HANG, RESTART), 1),
        (("hang",), (HANG, FAILED), 1),
        (("hang",), (FAILS, RESTART, STARTS[0], FAILED), 0),
        (("failed",), (FAILS, RESTART, STARTS[0], FAILED), 1),
        (("ended",), (FAILED,), 0),
        (("failed",), (ENDED,), 0),
        (("restarted",), (STALL,), 0),
    ],
)
def test_only_the_chosen_kinds_are_told(kinds, events, expected):
    assert len(told(*events, kinds=kinds)) == expected


def test_a_long_cause_leaves_room_for_where_to_look():
    (alert,) = told(FAILS, replace(RESTART, cause="坏" * 2000))
    assert TEXT_BYTES - 3 <= len(alert.text.encode()) <= TEXT_BYTES
    assert alert.text.endswith("...; look at /logs/1.txt on pod-1")


def test_a_server_that_decides_alone_tells():
    assert tells(None, RESTART)


@pytest.mark.parametrize(
    ("culprit", "phases", "teller"),
    [
        (1, ("gathering", "gathering", "gathering"), 1),
        (2, ("ending", "ending", "ended"), 2),
        (None, ("ending", "ending", "ending"), 0),
        (1, ("gathering", "lost", "gathering"), 0),
        (0, ("left", "gathering", "gathering"), 1),
        (0, ("missing", "missing", "gathering"), 2),
    ],
)
@pytest.mark.parametrize("event", [RESTART, FAILED])
def test_one_of_several_servers_tells(culprit, phases, teller, event):
    event = replace(event, peers_server=culprit)
    able = [index for index, phase in enumerate(phases) if phase not in {"lost", "left", "missing"}]
    assert [index for index in able if tells(job(index, *phases), event)] == [teller]


def test_a_server_that_was_lost_does_not_tell_whatever_it_looks_like():
    lost = replace(FAILED, reason="server 0 was lost (pod a)", peers_server=0)
    phases: tuple[ServerPhase, ...] = ("ended", "ending", "ending")
    assert [index for index in (1, 2) if tells(job(index, *phases), lost)] == [1]


def test_a_spare_tells_nothing_but_a_stall_is_told_by_whom_it_was_seen():
    assert not tells(job(None, "running", "running"), ENDED)
    assert tells(job(1, "running", "running"), STALL)
