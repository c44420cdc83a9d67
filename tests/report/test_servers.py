"""What each server did, as bars one after the other."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from ascend_supervisor.report.drawing import SECOND, Axis, Flag, curve, drawn, halves, lanes, placed
from ascend_supervisor.report.servers import KINDS, DrawnBar, ReportedServer, servers
from tests.report.logs import BEGIN, LOSING, event, exited, on, started

STORIES = sorted((Path(__file__).parents[1] / "data" / "timelines").iterdir())


def bars(server: ReportedServer) -> list[tuple[str, float, float]]:
    """Kind, begin and end, in seconds after BEGIN."""
    return [(bar.kind, bar.begin / 1e6 - BEGIN, bar.end / 1e6 - BEGIN) for bar in server.bars]


def test_phases_steps_and_stalls_are_bars_one_after_the_other():
    (server,) = servers(LOSING)
    assert bars(server) == [
        ("waiting", 0, 10),
        ("start", 10, 20),
        ("training", 20, 40),
        ("stopping", 40, 45),
        ("restarting", 45, 45.5),
        ("restarting", 45.5, 50),
        ("start", 50, 60),
        ("trained_again", 60, 64),  # step 11 of 7 to 17
        ("training", 64, 75),
        ("stalled", 75, 95),
        ("stopping", 95, 96),
        ("grace", 96, 106),
        ("stopping", 106, 107),
        ("restarting", 107, 108),
    ]


def test_the_last_step_of_a_generation_is_told_by_its_end():
    """Too short a training tells nothing of its progress before."""
    events = [
        *LOSING[:8],
        event("training.started", 20, step=1),
        event("generation.ended", 45, generation=0, step=26),
        event("generation.started", 50, generation=1),
        event("training.started", 60, step=1),
        exited(1, 104, first=True),
        event("generation.ended", 110, generation=1, step=51),
    ]
    (server,) = servers(events)
    assert [(one.at / 1e6 - BEGIN, one.step) for one in server.levels] == [
        *((20, 1), (45, 26)),
        *((60, 1), (110, 51)),
    ]
    assert bars(server)[-4:] == [
        ("start", 50, 60),
        ("trained_again", 60, 85),
        ("training", 85, 104),
        ("stopping", 104, 110),
    ]


def test_ranks_that_ended_together_with_the_first_to_fail_are_not_drawn():
    events = [
        *(started(rank, 11) for rank in range(4)),
        exited(1, 40, first=True),
        *(exited(rank, 40.2) for rank in (0, 2)),
        exited(3, 44),
    ]
    (server,) = servers([*LOSING[:4], *events, event("generation.ended", 45, generation=0)])
    assert [[life.ranks for life in lane] for lane in lanes(server, 1)] == [[(1,)], [(3,)]]


def test_a_wait_for_devices_and_a_drain_are_bars_of_their_own():
    events = [
        *LOSING[:12],
        event("stop.waiting", 46, then="SIGTERM", waited_seconds=5.0),
        event("generation.ended", 48, generation=0),
        event("release.waiting", 60, waited_seconds=10.0),
        event("generation.started", 70, generation=1),
    ]
    assert bars(servers(events)[0])[3:] == [
        ("stopping", 40, 41),
        ("drain", 41, 48),
        ("restarting", 48, 50),
        ("release", 50, 70),
    ]


def test_steps_that_come_while_a_generation_is_ended_were_trained_too():
    late = event("training.progress", 42, step=13)
    (server,) = servers(sorted([*LOSING, late], key=lambda one: one["ts"]))
    assert ("trained_again", 60, 66) in bars(server)  # step 13 of 7 to 17


def test_every_kind_of_bar_has_its_colour():
    style = files("ascend_supervisor.report").joinpath("chart.css").read_text()
    for kind in (*KINDS, "unknown"):
        (colour,) = re.findall(rf"^\.k-{kind} {{ fill: var\((--\w+)\)", style, re.MULTILINE)
        assert style.count(f" {colour}: #") == 2  # light and dark


def test_ranks_that_lived_alike_are_one_and_the_first_to_fail_is_another():
    (server,) = servers(LOSING)
    assert sorted((life.generation, life.ranks, life.failed) for life in server.lives) == [
        (0, (0, 2, 3), False),
        (0, (1,), True),
        (1, (0, 1, 2, 3), False),
    ]
    first, second = lanes(server, 1)
    assert [life.ranks for life in first] == [(1,)]
    assert [life.ranks for life in second] == [(0, 2, 3)]


def test_ranks_of_which_no_step_is_known_run():
    told = [one for one in LOSING if not one["event"].startswith("training.")]
    (server,) = servers(told)
    assert "running" in {bar.kind for bar in server.bars}
    assert not {bar.kind for bar in server.bars} & {"start", "training", "trained_again"}
    assert server.seconds["unknown"] == 30 + 25  # without the stall


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.name)
def test_bars_of_recorded_jobs_do_not_overlap(story):
    files = [path.read_text() for path in sorted(story.glob("*.jsonl"))]
    told = [json.loads(line) for text in files for line in text.splitlines()]
    found = servers(told)
    assert len(found) == 2
    for server in found:
        assert all(one.end <= other.begin for one, other in pairwise(server.bars))
        assert all(bar.begin < bar.end for bar in server.bars)


def test_bars_that_cannot_be_seen_are_one():
    short = [DrawnBar("start" if at % 3 else "training", at, at + 1) for at in range(100)]
    found = [*drawn([*short, DrawnBar("stalled", 100, 200)], 10)]
    assert len(found) == 11
    assert {bar.kind for bar in found[:-1]} == {"start"}
    assert found[0].begin == 0
    assert found[-1] == DrawnBar("stalled", 100, 200)
    assert all(one.end == other.begin for one, other in pairwise(found))


def test_of_many_servers_some_are_shown_at_once():
    many = servers([one for host in range(20) for one in on(f"pod-{host:02}", LOSING[:2])])
    assert [len(half) for half in halves(many)] == [8, 12]
    assert [len(half) for half in halves(many[:12])] == [12, 0]


def test_the_curve_begins_anew_in_each_generation_and_ends_with_the_last_step():
    found = curve(servers(LOSING), Axis(BEGIN * SECOND, (BEGIN + 108) * SECOND), 100)
    assert found is not None
    assert [(one.step, other.step) for one, other in found.lines] == [(1, 11), (7, 17)]
    rare = [one for one in LOSING if one["event"] != "training.progress"]
    found = curve(servers(rare), Axis(BEGIN * SECOND, (BEGIN + 108) * SECOND), 100)
    assert found is not None
    assert [(one.step, other.step) for one, other in found.lines] == [(1, 10)]
    assert [level.step for level in found.checkpoints] == [10]
    assert [at / SECOND - BEGIN for at in found.starts] == [10, 50]
    assert [found.height(step, 200) for step in (0, 50, 100, 101)] == [200, 100, 0, 0]
    many = [
        *LOSING[:10],
        *(event("training.progress", 21 + at / 100, step=2 + at) for at in range(5000)),
    ]
    found = curve(servers(many), Axis(BEGIN * SECOND, (BEGIN + 108) * SECOND), None)
    assert found is not None
    assert len(found.lines) < 550
    assert found.lines[-1][1].step == found.most == 5001


@pytest.mark.parametrize(
    "moments", [range(5), [0, 1, 50, 51, 99, 100], [81, 100], [100] * 5, range(0, 99, 9)]
)
def test_flags_cover_neither_each_other_nor_the_lines_of_others(moments):
    found = placed(
        [Flag(at * SECOND, f"{at}: rank 7") for at in moments], Axis(0, 100 * SECOND), 340
    )
    texts = [one for one in found if one.text]
    assert [one.place for one in found] == [*moments]
    assert len(texts) >= min(len(moments), 6)
    for one, other in permutations(texts, 2):
        assert 0 <= one.begin < one.end <= 100
        if one.lane == other.lane:
            assert one.end <= other.begin or other.end <= one.begin
        elif one.lane > other.lane:  # its line goes through the lane of the other
            assert not other.begin < one.place < other.end


@pytest.mark.parametrize("seconds", [0, 1, 59, 3600, 86_400, 400 * 86_400])
def test_an_axis_has_ticks_that_fit_on_a_phone(seconds):
    ticks = [*Axis(0, seconds * 1_000_000).ticks()]
    assert 1 <= len(ticks) <= 7
    assert ticks[0] == (0, "0 s")
    assert all(0 <= place <= 100 for place, _ in ticks)
