"""What a status looks like, as text and in windows of all sizes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyte
import pytest
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import diagnosis_by
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.control.status_answer import (
    LiveStatus,
    PastRestart,
    PeersStatus,
    RankRow,
    ServerRow,
)
from ascend_supervisor.ctl.columns import columns_of
from ascend_supervisor.ctl.status_text import (
    CLEAR,
    Picture,
    Window,
    coloured,
    fitted,
    frame,
    narrowed,
    of_answer,
    of_file,
)
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.reporters.status_document import RankStatus, StandbyStatus, Status
from tests.terminals import FORGED, WORDS, steering

STATUS = Status(
    job_id="job",
    pod="pod-0",
    pid=7,
    start_time=1,
    version="0.1.0",
    phase="running",
    why="generation 2 starts; restarts left: 1",
    generation=2,
    restarts_left=1,
    world_size=16,
)
ROW = RankRow(
    rank=0,
    local_rank=0,
    pid=100,
    program=None,
    state="running",
    uptime_seconds=7800.0,
    bytes=1_258_291,
    silent_seconds=3.2,
    last_line="loss=0.25",
    notify_status="",
)
RESTART = PastRestart(0, "2026-11-22T17:02:11Z", "rank 3 failed first", free=False)


def live(*rows: RankRow, restarts: tuple[PastRestart, ...] = (), **changes: object) -> LiveStatus:
    return LiveStatus(
        status=replace(STATUS, **changes),
        started_at="2026-11-22T17:00:00Z",
        phase_seconds=61.0,
        ranks=rows,
        restarts=restarts,
        restarts_left=1,
    )


def lines_of(status: LiveStatus) -> list[str]:
    return of_answer(status).text.splitlines()


def words_of(status: LiveStatus) -> list[list[str]]:
    return [line.split() for line in lines_of(status)]


PROGRESS = ProgressStatus(
    step=900,
    steps=1000,
    epoch=None,
    seconds_per_step=2.0,
    last_step_time="2026-11-22T17:02:00Z",
    checkpoint_step=None,
    checkpoint_time=None,
    resumed_step=None,
    rank=0,
    format="megatron",
    account={},
    percent_training=90.0,
    best_step=900,
    best_epoch=0,
    generations=1,
    hangs=0,
)


@pytest.mark.parametrize(
    ("step", "columns", "bar"),
    [
        (0, 40, "[....................]"),
        (900, 40, "[##################..]"),
        (999, 40, "[###################.]"),
        (1000, 40, "[####################]"),
        (1001, 40, "[####################]"),
        (500, 300, f"[{25 * '#'}{25 * '.'}]"),
    ],
)
def test_in_a_window_a_bar_below_the_step_shows_how_far_the_training_is(step, columns, bar):
    progress = replace(PROGRESS, step=step)
    lines = of_answer(live(ROW, progress=progress), columns).facts
    at = next(at for at, line in enumerate(lines) if line.startswith("training "))
    assert lines[at + 1] == f"{bar:>{lines[at].index('step') + len(bar)}}"


def test_without_a_window_or_a_last_step_there_is_no_bar():
    assert "[" not in of_answer(live(ROW, progress=PROGRESS)).text
    assert "[" not in of_answer(live(ROW, progress=replace(PROGRESS, steps=None)), 80).text


def test_of_a_job_that_has_ended_no_time_is_left():
    status = replace(STATUS, phase="ended", progress=PROGRESS)
    assert "step 900 of 1,000 (90 %); 90 % of" in of_file(status, lambda _: False).text


def test_a_running_job_is_told_with_the_time_in_its_phase():
    words = words_of(live(ROW))
    assert ["phase", "running", "for", "1", "min", "1", "s"] in words
    assert not [line for line in words if line[:1] == ["why"]]
    assert words[-2:] == [
        ["RANK", "LOCAL", "PID", "STATE", "UP", "OUTPUT", "QUIET", "LAST", "LINE"],
        ["0", "0", "100", "running", "2", "h", "10", "min", "1.2", "MiB", "3", "s", "loss=0.25"],
    ]


def test_ranks_that_have_failed_are_red_below_a_bold_head():
    ends = {101: (1, None), 102: (None, "SIGKILL"), 103: (None, "SIGTERM"), 104: (0, None)}
    ranks = tuple(RankStatus(1, 1, pid, "log", *end) for pid, end in ends.items())
    rows = [ROW, *(replace(ROW, pid=pid, state="ended") for pid in ends)]
    picture = of_answer(live(*rows, ranks=ranks))
    lines = coloured(picture.lines, picture)
    head = lines.index("") + 1
    assert lines[: head - 1] == list(picture.facts)
    assert [line[:5] for line in lines[head:]] == [
        *("\x1b[1mR", "0    ", "\x1b[31m", "\x1b[31m", "0    ", "0    ")
    ]
    cut = fitted(picture, Window(30, 8))
    assert coloured(cut, picture) == [
        *cut[:5],
        f"\x1b[1m{cut[5]}\x1b[0m",
        cut[6],
        "\x1b[31mand 4 more\x1b[0m",
    ]


def test_a_status_without_ranks_has_no_colours():
    picture = of_answer(live())
    assert coloured(picture.lines, picture) == picture.lines


def test_a_phase_that_is_not_running_says_why():
    words = words_of(live(phase="backing off", why="all ranks restart in 3.0 s"))
    assert ["why", "all", "ranks", "restart", "in", "3.0", "s"] in words


DISK = diagnosis_by(CAUSES["disk-full"], 3)


def facts_of(picture: Picture) -> dict[str, str]:
    return {line[:15].strip(): line[15:] for line in picture.facts}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_cause_of_the_latest_failure_is_told_in_the_language_of_the_reader(language):
    runs = of_answer(live(ROW, diagnosis=DISK), language=language)
    assert facts_of(runs)["last cause"] == DISK.told(language)
    over = replace(STATUS, phase="ended", why="the budget is used up", diagnosis=DISK)
    ended = of_file(over, lambda _: False, language=language)
    assert facts_of(ended)["cause"] == DISK.told(language)
    assert "cause" not in facts_of(of_file(STATUS, lambda _: False))


def test_a_cause_that_the_last_sentence_tells_is_not_told_twice():
    over = replace(STATUS, phase="ended", why=f"{DISK.told('en')}: rank 3 failed", diagnosis=DISK)
    assert of_file(over, lambda _: False).text.count(DISK.text) == 1
    assert DISK.text_zh in of_file(over, lambda _: False, language="zh").text


def test_restarts_by_the_cluster_stand_in_place_of_those_that_do_not_apply():
    followed = live(cluster_restarts_used=1, cluster_restarts_limit=10)
    barred = replace(followed, status=replace(followed.status, restarts_left=0))
    lines = [" ".join(words) for words in words_of(barred)]
    assert "by the cluster 1 of 10 within an hour" in lines
    assert not [line for line in lines if line.startswith("restarts left")]
    both = [" ".join(words) for words in words_of(followed)]
    assert "by the cluster 1 of 10 within an hour" in both
    assert "restarts left 1" in both


def test_each_restart_has_its_time_and_cause_the_latest_first():
    free = PastRestart(1, "2026-11-22T17:05:00Z", "process 812 of user 0 asked", free=True)
    lines = lines_of(live(ROW, restarts=(RESTART, free)))
    at = next(at for at, line in enumerate(lines) if line.startswith("restarts  "))
    assert lines[at].endswith(
        "17:05:00Z after generation 1: process 812 of user 0 asked (not charged)"
    )
    assert lines[at + 1].strip() == "2026-11-22T17:02:11Z after generation 0: rank 3 failed first"


def test_many_restarts_are_counted():
    restarts = tuple(replace(RESTART, generation=number) for number in range(20))
    text = of_answer(live(restarts=restarts)).text
    assert text.count("after generation") == 5
    assert "after generation 19" in text
    assert "and 15 earlier ones" in text


def test_a_status_text_has_a_column_only_if_a_rank_has_sent_one():
    words = words_of(live(ROW, replace(ROW, rank=1, notify_status="step 12")))
    assert "STATUS" in words[-3]
    assert words[-2][-2:] == ["-", "loss=0.25"]
    assert words[-1][-3:] == ["step", "12", "loss=0.25"]


@pytest.mark.parametrize("columns", [80, 100, 120, 200])
def test_a_long_status_leaves_room_for_the_last_line(columns):
    rows = (replace(ROW, rank=rank, notify_status="s" * 200) for rank in range(2))
    picture = narrowed(of_answer(live(*rows), columns), columns)
    assert all("sss" in line and "loss=0" in line for line in picture.ranks[1:])
    assert ("PID" in picture.ranks[0]) == (columns >= 100)


def test_a_cause_that_is_too_wide_goes_on_below_itself():
    cause = "rank 3 failed first, in generation 0: " + "it exited with status 1 " * 5
    found = fitted(of_answer(live(ROW, root_cause=cause)), Window(60, 24))
    assert " ".join(" ".join(found).split()).count("exited with status 1") == 5
    assert not any("..." in line for line in found[:-2])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (replace(ROW, rank=None, local_rank=None, program="torchrun"), ["torchrun", "-", "100"]),
        (replace(ROW, pid=None, bytes=None, silent_seconds=None), ["0", "0", "-", "running"]),
    ],
)
def test_what_is_not_known_is_a_dash(row, expected):
    assert words_of(live(row))[-1][: len(expected)] == expected


@pytest.mark.parametrize(
    ("status", "signal", "expected"), [(7, None, "ended 7"), (None, "SIGKILL", "ended SIGKILL")]
)
def test_a_rank_that_has_ended_says_how_and_is_not_called_quiet(status, signal, expected):
    ended = RankStatus(0, 0, 100, "/log", status, signal)
    line = lines_of(live(replace(ROW, state="ended"), ranks=(ended,)))[-1]
    assert expected in line
    assert line.endswith("1.2 MiB  -      loss=0.25")


def test_nothing_of_a_rank_steers_a_terminal_or_begins_a_line():
    hostile = "\n".join([*WORDS, FORGED])
    row = replace(ROW, last_line=hostile, notify_status=hostile, program=hostile, rank=None)
    restart = replace(RESTART, cause=hostile, at="\x1b[2J")
    status = live(row, restarts=(restart,), why=hostile, root_cause=hostile, job_id="\x9b")
    text = of_answer(status).text
    assert not steering(text)
    assert "\x1b" not in text
    assert not [line for line in text.split("\n") if line.startswith(FORGED)]


def test_without_an_answer_the_state_file_is_shown():
    status = replace(
        STATUS, ranks=(RankStatus(0, 0, 100, "/log/0"), RankStatus(1, 1, 101, "/l", 7))
    )
    words = [
        line.split() for line in of_file(status, lambda rank: rank.rank == 0).text.splitlines()
    ]
    assert ["phase", "running"] in words
    assert words[-2:] == [
        ["0", "0", "100", "yes", "-", "/log/0"],
        ["1", "1", "101", "no", "7", "/l"],
    ]


def test_a_phase_that_is_past_is_not_shown_as_the_present():
    text = of_file(STATUS, lambda _: False, phase="unknown; it was running").text
    assert "phase          unknown; it was running\n" in text


def test_a_state_file_says_how_old_it_is():
    now = datetime(2026, 11, 21, 3, 0, tzinfo=timezone.utc)
    written = now - timedelta(minutes=12, seconds=5)
    text = of_file(STATUS, lambda _: False, now=now, written=written).text
    assert "\nas of          2026-11-21T02:47:55.000Z, 12 min 5 s ago; what came later" in text
    assert "as of" not in of_file(STATUS, lambda _: False, now=now).text


def test_trouble_is_told_in_the_picture():
    text = of_file(STATUS, lambda _: True, "process 7 does not answer").text
    assert "trouble        process 7 does not answer\n" in text


# Windows ----------------------------------------------------------------------------------------

FACTS = tuple(f"fact {number}" for number in range(6))
RANKS = ("RANK", *(f"rank {number}" for number in range(8)))


@pytest.mark.parametrize(
    ("lines", "facts", "ranks", "missing"),
    [
        (16, 6, 8, []),
        (15, 6, 6, ["and 2 more"]),
        (12, 6, 3, ["and 5 more"]),
        (10, 4, 2, ["and 2 more", "and 6 more"]),
        (6, 2, 0, ["and 4 more", "and 8 more"]),
    ],
)
def test_what_does_not_fit_is_counted(lines, facts, ranks, missing):
    found = fitted(Picture(FACTS, RANKS), Window(80, lines))
    assert len(found) <= lines
    assert [line for line in found if line.startswith("and ")] == missing
    assert len([line for line in found if line.startswith("fact ")]) == facts
    assert len([line for line in found if line.startswith("rank ")]) == ranks


@pytest.mark.parametrize("columns", [0, 1, 2, 3, 10, 80])
def test_no_window_is_ever_exceeded(columns):
    rows = [replace(ROW, rank=rank, last_line="训练 " * 50) for rank in range(20)]
    cause = "\n".join(f"line {number}" for number in range(30))
    picture = of_answer(live(*rows, root_cause=cause))
    for lines in range(40):
        found = fitted(picture, Window(columns, lines))
        assert len(found) <= lines
        assert all(columns_of(line) < max(columns, 1) for line in found)


def test_many_ranks_leave_room_for_the_facts_and_many_facts_for_the_ranks():
    picture = of_answer(live(*(replace(ROW, rank=rank) for rank in range(500))))
    found = fitted(picture, Window(80, 24))
    assert found[: len(picture.facts)] == list(picture.facts)
    assert found[-1].startswith("and 4")
    cause = "\n".join(f"line {number}" for number in range(500))
    found = fitted(of_answer(live(ROW, root_cause=cause)), Window(80, 24))
    assert found[-1].endswith("loss=0.25")


def test_only_the_table_is_narrowed():
    cause = "x" * 100
    picture = narrowed(of_answer(live(replace(ROW, last_line="y" * 100), root_cause=cause)), 60)
    assert cause in picture.text
    assert columns_of(picture.ranks[-1]) == 60


# On a terminal ----------------------------------------------------------------------------------


def shown(*frames: str, columns: int = 40, lines: int = 6) -> list[str]:
    screen = pyte.Screen(columns, lines)
    stream = pyte.Stream(screen)
    for one in frames:
        stream.feed(one)
    return [line.rstrip() for line in screen.display]


def test_a_frame_replaces_the_one_before_and_what_was_there_at_first():
    first, second = frame(["a long line", "another", "third"]), frame(["short", "2"])
    assert shown("before\r\n" * 9, CLEAR, first) == ["a long line", "another", "third", "", "", ""]
    assert shown("before\r\n" * 9, CLEAR, first, second) == ["short", "2", "", "", "", ""]


def test_a_full_window_does_not_scroll():
    lines = [f"line {number}" for number in range(6)]
    assert shown(CLEAR, frame(lines), frame(lines)) == lines


def test_a_line_that_is_wider_than_we_think_does_not_wrap():
    assert shown(CLEAR, frame(["x" * 90, "two"]))[1] == "two"


def test_lines_wrap_again_after_a_frame():
    assert shown(CLEAR, frame(["one"]), "\r\n" + "x" * 41)[2] == "x"


PEERS = PeersStatus(
    job="llama",
    server=1,
    seen_seconds=2.0,
    servers=(
        ServerRow(0, "10.0.0.1", "gathering", "rank 3 exited with status 7", 61.0),
        ServerRow(1, None, "ready", "is ready for generation 3", 2.5),
    ),
)


def test_the_servers_of_a_job_that_agree_have_a_table_of_their_own():
    words = words_of(replace(live(ROW), peers=PEERS))
    assert [" ".join(line) for line in words[-3:]] == [
        "SERVER HOST PHASE SINCE LAST WORD",
        "0 10.0.0.1 gathering 1 min 1 s rank 3 exited with status 7",
        "1* - ready 2 s is ready for generation 3",
    ]
    assert not [line for line in words if line[:1] == ["servers"]]
    assert ["SERVER"] not in [line[:1] for line in words_of(live(ROW))]


def test_what_was_read_long_ago_says_so():
    old = replace(PEERS, seen_seconds=75.0)
    (told,) = [line for line in words_of(replace(live(ROW), peers=old)) if line[:1] == ["servers"]]
    assert " ".join(told).startswith("servers as they were 1 min 15 s ago")


def test_many_servers_are_counted_in_a_small_window():
    rows = tuple(replace(PEERS.servers[1], server=index) for index in range(1250))
    picture = of_answer(replace(live(ROW), peers=replace(PEERS, servers=rows)))
    lines = fitted(picture, Window(80, 24))
    assert len(lines) == 24
    assert lines[-1].startswith("and ")
    assert any("loss=0.25" in line for line in lines)


def test_words_of_other_servers_steer_no_terminal():
    hostile = "\n".join([*WORDS, FORGED])
    row = replace(PEERS.servers[0], host=hostile, last_word=hostile, phase=hostile)
    text = of_answer(replace(live(ROW), peers=replace(PEERS, servers=(row,)))).text
    assert not steering(text)
    assert not [line for line in text.split("\n") if line.startswith(FORGED)]


def test_standbys_are_shown_with_what_they_hold():
    told = of_answer(live(ROW, standbys=StandbyStatus(8, 6_518_300_672))).facts
    assert any("standbys" in line and "8 warm, 6.5 GB of memory" in line for line in told)
    assert not any("standbys" in line for line in of_answer(live(ROW)).facts)
