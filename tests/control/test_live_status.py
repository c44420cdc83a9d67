"""Where the job stands: the row of each process, from what it has given of itself."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ascend_supervisor.control.history import History
from ascend_supervisor.control.live_status import Moment, live_status
from ascend_supervisor.control.protocol import MOST_ANSWER_BYTES, answer_line
from ascend_supervisor.control.status_answer import PastRestart, PeersStatus, RankRow, ServerRow
from ascend_supervisor.life import JobSeen, Life, Notified, ServerSeen
from ascend_supervisor.reporters.status_document import Status
from tests.control.lives import launcher, life, living

HISTORY = History(
    Status("job-7", "pod-0", 4711, 123456, "0.1.0", phase="running", restarts_left=2),
    "2026-11-22T03:00:00.000Z",
    phase_since=500.0,
    restarts=(PastRestart(0, "2026-11-22T04:00:00.000Z", "rank 0 failed first", free=False),),
    began={90: 500.0, 100: 501.0, 101: 502.0},
)
NOW = Moment(now=60.0, elapsed=1000.0)
"""940 s of them we were stopped."""


def rows(of: Life, history: History = HISTORY) -> tuple[RankRow, ...]:
    return live_status(history, of, NOW).ranks


def row(tail: bytes = b"", notified: Notified | None = None, **more: bool) -> RankRow:
    only = life(living(0, 40.0, tail, **more))
    if notified is not None:
        only.notified[0] = notified
    (found,) = rows(only)
    return found


def test_what_the_state_file_holds_is_there_and_what_it_does_not():
    status = live_status(HISTORY, None, NOW)
    assert status.status is HISTORY.status
    assert (status.phase_seconds, status.restarts_left) == (500.0, 2)
    assert (status.restarts, status.started_at) == (HISTORY.restarts, HISTORY.started_at)
    assert status.ranks == ()


def test_each_process_has_a_row():
    assert rows(life(living(0, 40.0, b"loss 1.9\n"), living(1, 55.5))) == (
        RankRow(0, 0, 100, None, "running", 499.0, 9, 20.0, "loss 1.9", ""),
        RankRow(1, 1, 101, None, "running", 498.0, 0, 4.5, "", ""),
    )


@pytest.mark.parametrize(
    ("notified", "has_ended", "state"),
    [
        (None, False, "running"),
        (Notified(50.0), False, "running"),
        (Notified(50.0, watchdog_at=50.0), False, "running"),
        (Notified(50.0, ready_at=45.0), False, "ready"),
        (Notified(50.0, ready_at=45.0, is_stopping=True), False, "stopping"),
        (Notified(50.0, is_stopping=True), False, "stopping"),
        (Notified(50.0, ready_at=45.0), True, "ended"),
        (None, True, "ended"),
    ],
)
def test_the_state_is_what_the_rank_says_until_it_ends(notified, has_ended, state):
    assert row(notified=notified, has_ended=has_ended).state == state


@pytest.mark.parametrize(("heard_at", "silent"), [(59.0, 1.0), (30.0, 20.0)])
def test_a_sign_of_life_is_a_byte_or_a_message(heard_at, silent):
    assert row(notified=Notified(heard_at)).silent_seconds == silent


def test_a_process_that_has_ended_ran_until_its_end():
    history = replace(HISTORY, lasted={100: 7.25})
    (ended,) = rows(life(living(0, has_ended=True)), history)
    assert ended.uptime_seconds == 7.25


@pytest.mark.parametrize(
    ("tail", "line"),
    [
        (b"one\ntwo\n", "two"),
        (b"one\n\n  \n", "one"),
        (b"10%\r20%\r30%", "30%"),
        (b"\x1b[31mred\x1b[0m \x1b[2J\x07", r"red \x1b[2J\x07"),
        (b"a\x00b\xff\n", r"ab\xff"),
        ("损失 1.9\n".encode(), "损失 1.9"),
        (b"x" * 200, "x" * 200),
        (b"x" * 201, "x" * 197 + "..."),
        (b"\x1b" * 8000, r"\x1b" * 49 + r"\..."),
    ],
)
def test_the_last_line_is_harmless_and_short(tail, line):
    assert row(tail).last_line == line


def test_the_text_of_a_rank_is_harmless_and_short():
    assert row(notified=Notified(50.0, status="epoch 3\x1b[2J\nof 9")).notify_status == (
        r"epoch 3\x1b[2J of 9"
    )
    assert len(row(notified=Notified(50.0, status="x" * 9000)).notify_status) == 200


def test_workers_with_logs_of_their_own_have_rows_of_their_own():
    of = life(launcher(4, 5, seen={701: 5}, logs=True))
    of.processes[0].activity_of_workers[1].take(b"loss 1.9\n", 58.0)
    of.notified[5] = Notified(59.0, status="epoch 3", ready_at=1.0)
    assert rows(of) == (
        RankRow(None, None, 90, "msrun", "running", 500.0, 50, 60.0, "", ""),
        RankRow(4, 0, None, None, "running", 500.0, 0, 60.0, "", ""),
        RankRow(5, 1, 701, None, "ready", 500.0, 9, 1.0, "loss 1.9", "epoch 3"),
    )


def test_workers_that_share_their_launchers_output_have_rows_once_they_have_notified():
    of = life(launcher(0, 1, seen={700: 0, 701: 1}, logs=False))
    of.notified[1] = Notified(59.0, ready_at=1.0)
    assert rows(of)[1:] == (RankRow(1, 1, 701, None, "ready", 500.0, None, 1.0, "", ""),)


def test_workers_of_a_launcher_that_has_ended_have_ended():
    of = life(launcher(0, 1, seen={}, logs=True))
    of.processes[0].activity.has_ended = True
    assert {found.state for found in rows(of)} == {"ended"}


def test_an_answer_for_many_ranks_is_not_long():
    many = [living(rank, tail=b"\xf0\x9f\x92\xa9" * 2000) for rank in range(64)]
    assert len(answer_line(live_status(HISTORY, life(*many), NOW))) < 128 * 1024


def test_the_whole_job_is_told_as_it_was_seen():
    seen = ServerSeen(0, "pod-0", "lost", "has not\x1b[2J confirmed", 7.5)
    peers = live_status(HISTORY, None, NOW, JobSeen("llama", None, 1.25, (seen,))).peers
    row = ServerRow(0, "pod-0", "lost", r"has not\x1b[2J confirmed", 7.5)
    assert peers == PeersStatus("llama", None, 1.25, (row,))
    assert live_status(HISTORY, None, NOW).peers is None


def test_an_answer_for_many_servers_has_room():
    rows = tuple(ServerSeen(index, "h" * 63, "ready", "w" * 250, 0.5) for index in range(1250))
    answer = answer_line(live_status(HISTORY, None, NOW, JobSeen("llama", 0, 0.5, rows)))
    assert b'"ok":true' in answer
    assert len(answer) < MOST_ANSWER_BYTES
