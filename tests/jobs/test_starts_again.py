"""A platform that runs the boot command again in the same container, as ModelArts does."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.running import Event, Running, python, wait_until

FAIL = "import os, sys; print('first life'); sys.stdout.flush(); os._exit(7)"


def start(supervised: Callable[..., Running], number: int, source: str, *words: str) -> Running:
    """The start with this number, after its end."""
    environ = {"MA_SCHEDULE_CNT": "1", "MA_PROC_START_CNT": f"{number}"}
    job = supervised("--standalone", "1", *words, *python(source), environ=environ)
    job.end()
    return job


def state(job: Running) -> Event:
    (path,) = job.log_dir.glob("*-supervisor-*.json")
    found: Event = json.loads(path.read_text())
    return found


def test_a_start_says_which_it_is_and_why_the_last_one_ended(supervised):
    first = start(supervised, 1, FAIL)
    begun = first.events[0]
    assert (begun["schedule_count"], begun["start_count"]) == (1, 1)
    assert (begun["previous_end"], begun["previous_root_cause"]) == (None, None)
    assert (state(first)["schedule_count"], state(first)["start_count"]) == (1, 1)

    second = start(supervised, 2, "pass")
    begun = second.events[0]
    assert begun["event"] == "supervisor.started"
    assert (begun["schedule_count"], begun["start_count"]) == (1, 2)
    assert begun["previous_root_cause"] == first.events[-1]["root_cause"]
    assert begun["msg"].endswith(
        "; the previous start here (s1-p1) ended with exit code 7: "
        + first.events[-1]["root_cause"].partition("\n")[0]
    )
    assert state(second)["start_count"] == 2

    third = start(supervised, 3, "pass")
    assert third.events[0]["previous_end"] is None  # it succeeded


def test_logs_of_earlier_starts_keep_their_number(supervised):
    for number in range(1, 6):
        job = start(supervised, number, f"print('life {number}')", "--log-keep", "1")
    log = job.log(0)
    names = sorted(path.name for path in job.log_dir.glob("*-proc-*"))
    assert names == [log.name, *(f"{log.name}.s1-p{number}" for number in range(1, 5))]
    assert "life 5\n" in log.read_text()
    assert "life 2\n" in log.with_name(f"{log.name}.s1-p2").read_text()


def test_where_nobody_counts_the_cause_is_told_too(supervised):
    first = supervised("--standalone", "1", *python(FAIL))
    assert first.end() == 7
    second = supervised("--standalone", "1", *python("pass"))
    assert second.end() == 0
    begun = second.events[0]
    assert (begun["schedule_count"], begun["start_count"]) == (None, None)
    assert begun["previous_end"].startswith(
        "the previous start here ended with exit code 7: rank 0"
    )
    log = second.log(0)
    assert "first life" in log.with_name(f"{log.name}.1").read_text()


def test_a_start_that_was_killed_is_told(supervised):
    first = supervised("--standalone", "1", *python("import time; time.sleep(600)"))
    first.wait_for("process.started")
    wait_until(lambda: any(first.log_dir.glob("*-supervisor-*.json")))  # written behind the events
    first.kill()
    second = supervised("--standalone", "1", *python("pass"))
    assert second.end() == 0
    assert second.events[0]["previous_end"].startswith(
        "the previous start here did not report its end; its phase was '"
    )
