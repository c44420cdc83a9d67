"""What an event log tells of a job's files; nothing in it is trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ascend_supervisor.collection.job import Story, story_of


def events(*found: object) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in found)


TOLD = events(
    {"event": "supervisor.started", "job_id": "a", "ts": "1970-01-01T00:01:00Z"},
    {"event": "rank_table.ready", "path": "t.json", "this_server": "pod-0"},
    {"event": "process.started", "rank": 0, "log": "/l/0"},
    {"event": "process.started", "rank": None, "log": "/l/launcher"},
    {"event": "process.exited", "rank": 3, "first_failure": True},
    {"event": "process.exited", "rank": 2, "first_failure": False},
    {"event": "process.exited", "rank": 1, "first_failure": True},
    {"event": "process.exited", "rank": 3, "first_failure": True},
    {"event": "restart.scheduled", "root_cause": "rank 3\nthe last lines of /l/3:\n  a: b:\n  c"},
    {"event": "restart.scheduled", "root_cause": "rank 3\nthe last lines of /l/w 1:\n  a"},
    {"event": "supervisor.exited", "root_cause": "rank 3\nthe last lines of /l/3:\n  a"},
    {"event": "supervisor.exited", "root_cause": "it was stopped"},
    {"event": "stacks.taken", "directory": "/s", "files": ["a.txt", "../b", 3]},
    {"event": "supervisor.started", "job_id": "a", "ts": "1970-01-01T00:02:00Z"},
)


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_story_is_told_whatever_pieces_it_comes_in(size):
    pieces = [TOLD[at : at + size] for at in range(0, len(TOLD), size)]
    story = story_of(pieces, lambda _: True)
    assert story.logs == {"/l/0": 0, "/l/launcher": None}
    assert (story.failed, story.quoted) == ([1, 3], ["/l/w 1", "/l/3"])
    assert story.looks == [(Path("/s"), ("a.txt",))]
    assert (story.rank_table, story.this_server, story.began) == ("t.json", "pod-0", 60.0)


def test_what_is_no_event_is_left_out():
    found = events(
        *([], 3, {"event": 7}, {"event": "process.started", "log": 3, "rank": 1}),
        {"event": "stacks.taken", "directory": None, "files": 3},
        {"event": "supervisor.started", "ts": "yesterday"},
    )
    pieces = [b'\xff{"event": "process.started"\n', found, b'{"event": "process']
    assert story_of(pieces, lambda _: True) == Story()


def test_it_is_of_the_last_job_in_the_place():
    another = events({"event": "supervisor.started", "job_id": "b", "ts": "1970-01-01T00:03:00Z"})
    story = story_of([TOLD, another], lambda _: True)
    assert (story.logs, story.failed, story.looks, story.began) == ({}, [], [], 180.0)


def test_a_story_of_which_no_event_is_the_jobs_own_is_that_of_a_former_job():
    another = events({"event": "supervisor.started", "job_id": "b", "ts": "1970-01-01T00:03:00Z"})
    assert story_of([TOLD], lambda one: one.get("job_id") == "b") == Story()
    assert story_of([TOLD, another], lambda one: one.get("job_id") == "a") == Story()
    assert story_of([TOLD, another], lambda one: one.get("job_id") == "b").began == 180.0
