"""The trace of a job, from events as supervisors have written them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ascend_supervisor.ctl.event_files import trace_document
from ascend_supervisor.report import timeline
from tests.cost import cost
from tests.ctl.calling import ctl, own_state, refused
from tests.report.logs import BEGIN, by, event, exited, started, written

STORIES = sorted((Path(__file__).parents[1] / "data" / "timelines").iterdir())
SUPERVISOR, TRAINING = timeline.SUPERVISOR.number, timeline.TRAINING.number
FIRST_RANK = timeline.FIRST_RANK
EVENTS, MOST_SECONDS = 100_000, 2.0
FORMAT = Draft202012Validator(
    json.loads(Path(__file__).with_name("trace_events.schema.json").read_bytes())
)
"""The Trace Event Format, in words that are not ours."""


def traced(tmp_path: Path, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    path = written(tmp_path / "events.jsonl", events)
    shapes: list[dict[str, Any]] = json.loads(trace_document([path]))["traceEvents"]
    return shapes


def spans(shapes: list[dict[str, Any]], track: int) -> list[tuple[str, float, float]]:
    """Name, begin and end of what is in a track, in seconds after BEGIN."""
    return [
        (one["name"], one["ts"] / 1e6 - BEGIN, (one["ts"] + one["dur"]) / 1e6 - BEGIN)
        for one in shapes
        if one["ph"] == "X" and one["tid"] == track
    ]


JOB = [
    event("supervisor.started", 0),
    event("rank_table.waiting", 1, waited_seconds=0.0),
    event("rank_table.waiting", 5, waited_seconds=4.0),
    event("generation.started", 10, generation=0),
    started(0, 11),
    started(1, 11),
    event("training.started", 20, step=1, start_seconds=9.0),
    event("training.progress", 30, step=11, seconds_per_step=1.0),
    event("checkpoint.saved", 31, step=10),
    exited(1, 40, first=True),
    event("stop.waiting", 46, then="SIGTERM", waited_seconds=5.0),
    event("stop.waiting", 56, then="SIGKILL", waited_seconds=5.0),
    event("grace.ended", 60, grace_seconds=9.0),
    exited(0, 61),
    event("generation.ended", 62, generation=0),
    event("restart.scheduled", 62.5, delay_seconds=3.0),
    event("generation.started", 65, generation=1),
    started(0, 66, 1),
    event("supervisor.exited", 70, exit_code=1),
]


def test_the_supervisor_is_in_one_phase_after_the_other(tmp_path):
    found = spans(traced(tmp_path, JOB), SUPERVISOR)
    assert sorted(found, key=lambda one: (one[1], -one[2])) == [
        ("start", 0, 1),
        ("wait for the rank table", 1, 10),
        ("generation 0", 10, 40),
        ("end of the generation", 40, 62),
        ("drain", 41, 51),
        ("grace", 51, 60),
        ("after SIGKILL", 60, 62),
        ("after the generation", 62, 62.5),
        ("restart delay", 62.5, 65),
        ("generation 1", 65, 70),
    ]


def test_each_rank_has_a_track_and_the_steps_have_one(tmp_path):
    shapes = traced(tmp_path, JOB)
    lives = [("generation 0", 11, 61), ("generation 1", 66, 70)]
    assert spans(shapes, FIRST_RANK) == lives
    assert spans(shapes, FIRST_RANK + 1) == [("generation 0", 11, 40)]
    assert spans(shapes, TRAINING) == [("start", 11, 20), ("steps 1 to 11", 20, 30)]
    names = {one["tid"]: one["args"]["name"] for one in shapes if one["name"] == "thread_name"}
    assert names == {0: "supervisor", 1: "training", 1000: "rank 0", 1001: "rank 1"}
    assert [one["args"]["step"] for one in shapes if one["ph"] == "C"] == [1, 11]
    (first,) = (one for one in shapes if one.get("args", {}).get("first_failure"))
    assert (first["tid"], first["cname"], first["args"]["status"]) == (1001, "terrible", 1)


def test_a_phase_of_no_length_is_left_out(tmp_path):
    events = [event("supervisor.started", 0), event("rank_table.waiting", 1, waited_seconds=1.0)]
    found = spans(traced(tmp_path, [*events, event("supervisor.exited", 9)]), SUPERVISOR)
    assert found == [("wait for the rank table", 0, 9)]


def test_what_a_killed_supervisor_left_open_ends_with_its_last_event(tmp_path):
    shapes = traced(tmp_path, [*JOB[:6], event("supervisor.started", 500)])
    assert spans(shapes, FIRST_RANK) == [("generation 0", 11, 11)]
    assert ("generation 0", 10, 11) in spans(shapes, SUPERVISOR)


def test_processes_without_a_rank_have_a_track_by_their_name(tmp_path):
    shapes = traced(tmp_path, [started(None, 1, program="torchrun"), event("generation.ended", 3)])
    (named,) = (one for one in shapes if one["name"] == "thread_name" and one["tid"])
    assert named["args"]["name"] == "torchrun" or named["tid"] == SUPERVISOR
    assert [(one["ph"], one["tid"]) for one in shapes if one["name"] == "generation 0"] == [
        ("X", 2)
    ]


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.name)
def test_several_servers_are_several_processes_and_spans_of_a_track_are_nested(story):
    document = json.loads(trace_document(sorted(story.glob("*.jsonl"))))
    FORMAT.validate(document)
    shapes = document["traceEvents"]
    hosts = [one["args"]["name"] for one in shapes if one["name"] == "process_name"]
    assert len(hosts) == len(set(hosts)) >= 2
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for one in shapes:
        if one["ph"] == "X":
            span = (one["ts"], one["ts"] + one["dur"])
            tracks.setdefault((one["pid"], one["tid"]), []).append(span)
    assert tracks
    for found in tracks.values():
        found.sort(key=lambda span: (span[0], -span[1]))
        assert all(end <= later or until <= end for (_, end), (later, until) in pairwise(found))


@pytest.mark.thorough
def test_a_hundred_thousand_events_take_less_than_two_seconds(tmp_path):
    lives = EVENTS // 10
    events = [
        one
        for life in range(lives)
        for one in (
            event("generation.started", life, generation=life),
            *(started(rank, life + 0.1, life) for rank in range(4)),
            event("training.started", life + 0.2, step=1, start_seconds=0.1),
            *(event("training.progress", life + step / 10, step=step) for step in range(3, 6)),
            event("generation.ended", life + 0.9, generation=life),
        )
    ]
    assert len(events) == EVENTS
    path = written(tmp_path / "events.jsonl", events)
    assert cost(lambda: trace_document([path]), times=3) < MOST_SECONDS
    assert trace_document([path]).count(b'"ph":"X"') > 8 * lives


@pytest.mark.parametrize(
    "broken",
    [
        {"ph": "Q"},
        {"ph": "X", "dur": None},
        {"ph": "X", "dur": -1},
        {"ph": "X", "dur": 1, "ts": "1"},
        {"ph": "X", "dur": 1, "cname": "red"},
        {"ph": "i", "s": "x"},
        {"ph": "C", "args": {"step": "7"}},
        {"ph": "M", "name": "thread_name", "args": {}},
        {"ph": "M", "name": "thread_sort_index", "args": {"sort_index": "1"}},
        {"ph": "M", "name": "rank_name", "args": {"name": "0"}},
    ],
)
def test_a_trace_that_no_viewer_would_read_is_found(broken):
    event = {"name": "one", "ts": 1, "pid": 1, "tid": 1}
    assert FORMAT.is_valid({"traceEvents": [event | {"ph": "X", "dur": 1, "cname": "terrible"}]})
    assert not FORMAT.is_valid({"traceEvents": [event | broken]})


JUNK: list[Any] = [None, True, "x", -1, 1.5, 10**18, [], {}]


@pytest.mark.parametrize("junk", JUNK)
def test_nothing_in_an_event_is_trusted(tmp_path, junk):
    for key in ("ts", "event", "host", "rank", "child_pid", "step", "waited_seconds", "then"):
        events = [{**one, key: junk} for one in JOB]
        shapes = traced(tmp_path, [*JOB, *events])
        assert all(one["ts"] >= 0 for one in shapes)
        FORMAT.validate({"traceEvents": shapes})


def test_the_events_beside_the_state_file_are_taken_the_older_file_first(tmp_path):
    state = own_state(tmp_path / "job.json")
    lines = [f"{json.dumps(one)}\n" for one in by("job", os.getpid(), JOB)]
    (tmp_path / "job.events.jsonl.1").write_text("".join(lines[:9]))
    (tmp_path / "job.events.jsonl").write_text("".join(lines[9:]) + '{"half')
    found = ctl("trace", "--state-file", str(state))
    assert spans(json.loads(found.stdout)["traceEvents"], FIRST_RANK + 1) == [
        ("generation 0", 11, 40)
    ]
    assert ctl("trace", "-o", str(tmp_path / "t"), "--state-file", str(state)) == (0, "", "")
    assert (tmp_path / "t").read_text() == found.stdout


def test_a_trace_without_events_is_refused_in_a_sentence(tmp_path):
    state = own_state(tmp_path / "job.json")
    assert "job.events.jsonl" in refused(1, "trace", "--state-file", str(state))
    (tmp_path / "other").write_text("no event\n")
    assert "no event of a supervisor" in refused(1, "trace", str(tmp_path / "other"))
    assert "cannot be read" in refused(64, "trace", str(tmp_path / "absent"))
