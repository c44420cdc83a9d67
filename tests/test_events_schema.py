"""docs/events.schema.json is that of the events, and lines of real runs conform to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.running import python

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "events.schema.json").read_text(encoding="utf-8")
SCHEMA: dict[str, Any] = json.loads(TEXT)
VALIDATORS = {name: Draft202012Validator(one) for name, one in SCHEMA["$defs"].items()}
EXAMPLES: list[dict[str, Any]] = [
    json.loads(line)
    for line in re.findall(
        r"^```json\n(.*)\n```$",
        (ROOT / "docs" / "events.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
]


def complaints(event: dict[str, Any]) -> list[str]:
    return [f"{event['event']}: {e.message}" for e in VALIDATORS[event["event"]].iter_errors(event)]


def test_the_file_is_that_of_the_definitions():
    made = subprocess.run(
        [sys.executable, ROOT / "scripts" / "events-schema"], check=True, stdout=subprocess.PIPE
    )
    assert made.stdout.decode() == TEXT, "scripts/events-schema makes it anew"


def test_it_is_a_schema_in_which_an_event_fits_its_own_part_only():
    Draft202012Validator.check_schema(SCHEMA)
    whole = Draft202012Validator(SCHEMA)
    assert [event["event"] for event in EXAMPLES[:5] if not whole.is_valid(event)] == []


def test_every_example_of_the_page_conforms_to_it():
    assert {event["event"] for event in EXAMPLES} == VALIDATORS.keys()
    assert [told for event in EXAMPLES for told in complaints(event)] == []


def test_the_events_of_a_job_that_fails_and_restarts_conform_to_it(supervised):
    failing = "import os, sys; print('x' * 3000); sys.exit(os.environ['RANK'] == '1')"
    options = ("--standalone", "2", "--restarts", "1", "--restart-delay", "0")
    running = supervised(*options, *python(failing))
    assert running.end() == 1
    assert running.all("restart.scheduled")
    assert running.all("output", partial=True)
    assert [told for event in running.events for told in complaints(event)] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("seq", "0"), ("event", "other"), ("level", "loud"), ("restarts", None), ("command", "sh")],
)
def test_a_wrong_event_is_found(key, value):
    started = EXAMPLES[0]
    assert VALIDATORS["supervisor.started"].is_valid(started)
    assert not VALIDATORS["supervisor.started"].is_valid(started | {key: value})
    without = {name: old for name, old in started.items() if name != key}
    assert not VALIDATORS["supervisor.started"].is_valid(without)
