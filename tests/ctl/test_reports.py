"""``ctl report``: what it reads, what it refuses, and what it costs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ascend_supervisor.ctl import reports
from tests.cost import cost
from tests.ctl.calling import ctl, own_state, refused
from tests.report.logs import LOSING, by, event, exited, on, started, written
from tests.running import DEADLINE_SECONDS

SERVERS, RANKS, GENERATIONS = 64, 8, 30
EVENTS, MOST_SECONDS, MOST_BYTES = 99_000, 3.0, 5_000_000
WITHOUT = """
import sys
from ascend_supervisor.ctl.main import run
for name in {missing}:
    sys.modules[name] = None  # Python's way to say that a module cannot be imported
sys.exit(run({arguments}, {{}}))
"""


def test_it_is_of_the_job_here_also_after_its_end_the_older_file_first(tmp_path):
    state = own_state(tmp_path / "job.json", job_id="llama-7")
    events = by("llama-7", os.getpid(), LOSING)
    written(tmp_path / "job.events.jsonl.1", events[:9])
    written(tmp_path / "job.events.jsonl", events[9:])
    found = ctl("report", "--state-file", str(state))
    assert found.stdout.startswith('<!doctype html>\n<html lang="en">')
    assert ctl("report", "-o", str(tmp_path / "r"), "--state-file", str(state)) == (0, "", "")
    assert (tmp_path / "r").read_text() == found.stdout
    assert (
        '<html lang="zh">' in ctl("report", "--language", "zh", "--state-file", str(state)).stdout
    )
    assert "rank 2 on pod-0 stopped first" in ctl("report", "--text", "--state-file", str(state))[1]


def test_it_is_of_the_last_job_in_the_place_unless_all_starts_are_asked_for(tmp_path):
    state = own_state(tmp_path / "job.json", job_id="llama-8")
    later = [
        event("supervisor.started", 10_000, version="0.1.0", command=["python"]),
        event("generation.started", 10_001, generation=0),
    ]
    all_of_them = [*by("bert-1", 7, LOSING), *by("llama-8", os.getpid(), later)]
    log = written(tmp_path / "job.events.jsonl", all_of_them)
    for which in (("--state-file", str(state)), (str(log),)):
        told = ctl("report", "--text", *which).stdout
        assert "llama-8" in told
        assert "bert-1" not in told
        assert "rank 2" not in told
        assert "rank 2" in ctl("report", "--text", "--all-starts", *which).stdout
        assert "rank 2" not in ctl("trace", *which).stdout
        assert "rank 2" in ctl("trace", "--all-starts", *which).stdout


def since(seconds: float) -> list[dict[str, Any]]:
    """The generations of a start, the first of which began so many seconds after BEGIN."""
    return [{"generation": 0, "started_at": event("", seconds)["ts"]}]


@pytest.mark.parametrize("command", [("report", "--text"), ("trace",)], ids=" ".join)
@pytest.mark.parametrize(
    "changes",
    [
        {"job_id": "llama-8"},
        {"pod": "pod-1"},
        {"pid": 8},
        {"generations": since(200)},
    ],
    ids=" ".join,
)
def test_a_job_that_has_left_no_event_is_not_taken_for_the_one_before_it(
    tmp_path, command, changes
):
    known = {"job_id": "llama-7", "pid": 7, "generations": since(9.5)}
    log = written(tmp_path / "job.events.jsonl", by("llama-7", 7, LOSING))
    state = own_state(tmp_path / "job.json", **known)
    assert "rank 2" in ctl(*command, "--state-file", str(state)).stdout
    own_state(state, **known | changes)
    told = refused(1, *command, "--state-file", str(state))
    assert f"has left no event in {log}: it keeps none, or another log (--event-log)" in told
    assert "which ends with job llama-7 (process 7, 2027-01-15T08:01:48.000000Z)" in told


def test_of_a_job_that_goes_on_the_events_of_its_earlier_starts_are_told(tmp_path):
    begin = [event("supervisor.started", 200), event("generation.started", 201, generation=0)]
    both = [*by("llama-7", 7, LOSING), *by("llama-7", 8, begin)]
    written(tmp_path / "job.events.jsonl", both)
    state = own_state(tmp_path / "job.json", job_id="llama-7", pid=8, generations=since(201))
    assert "rank 2" in ctl("report", "--text", "--state-file", str(state)).stdout


def test_without_events_it_is_refused_in_a_sentence(tmp_path):
    state = own_state(tmp_path / "job.json")
    assert "job.events.jsonl" in refused(1, "report", "--state-file", str(state))
    (tmp_path / "other").write_text("no event\n")
    for more in ((), ("--text",)):
        assert "no event of a supervisor" in refused(1, "report", *more, str(tmp_path / "other"))
        assert "cannot be read" in refused(64, "report", *more, str(tmp_path / "absent"))
    assert "expected one of auto, en, zh" in refused(64, "report", "--language", "fr")


def without(missing: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(missing=missing, arguments=arguments)
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_SECONDS,
    )


@pytest.mark.parametrize("missing", ["jinja2", "drawsvg"])
def test_a_missing_package_is_told_with_what_to_install(tmp_path, missing):
    log = str(written(tmp_path / "events.jsonl", LOSING))
    done = without((missing,), "report", log)
    assert done.returncode == 64
    install = f"{sys.executable} -m pip install 'drawsvg>=2.4' 'jinja2>=3.1.5'"
    assert done.stderr == (
        f"ascend-supervisorctl: the Python package {missing} is not installed here; "
        f"install it with: {install}; or give --text, which needs neither\n"
    )


def test_the_text_needs_no_other_package(tmp_path):
    log = str(written(tmp_path / "events.jsonl", LOSING))
    done = without(("jinja2", "drawsvg"), "report", "--text", log)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rank 2 on pod-0 stopped first" in done.stdout


def many(server: int) -> Iterator[dict[str, Any]]:
    """One of many servers, in a job that was restarted often, each time because of another."""
    yield event("supervisor.started", 0, version="0.1.0", command=["python"], settings=[])
    for number in range(GENERATIONS):
        begin, fails = 10.0 + 1000 * number, server == number
        ranks = range(server * RANKS, (server + 1) * RANKS)
        yield event("generation.started", begin, generation=number)
        for rank in ranks:
            log = f"/home/ma-user/modelarts/log/rank-{rank}.txt"
            yield started(rank, begin + 1, number, local_rank=rank % RANKS, log=log)
        yield event("training.started", begin + 60, step=25 * number, start_seconds=60.0)
        for step in range(31):
            told = {"step": 25 * number + step, "steps": 20_000, "seconds_per_step": 2.1}
            yield event("training.progress", begin + 60 + 25 * step, generation=number, **told)
        for rank in ranks:
            pid = {"child_pid": 100 * number + rank + 1}
            first = fails and rank % RANKS == 3
            yield exited(rank, begin + (900 if first else 901 + rank / 600), first=first, **pid)
        outcome = {"outcome": "crashed" if fails else "fault", "next": "restart"}
        yield event("generation.ended", begin + 905, generation=number, **outcome)
        cause = f"rank {number * RANKS + 3} failed first, in generation {number}: it exited"
        root_cause = "\n  ".join([cause, "the last lines of a log:", *["x" * 60] * 20])
        why = {"cause": cause, "root_cause": root_cause}
        yield event("restart.scheduled", begin + 905, delay_seconds=60.0, **why)
        yield event("checkpoint.saved", begin + 910, step=25 * number + 20)
    yield event("supervisor.exited", 1000 * GENERATIONS + 10, exit_code=1, reason="no restart left")


@pytest.mark.thorough
def test_a_hundred_thousand_events_of_64_servers_are_a_page_in_three_seconds(tmp_path):
    files = [
        written(tmp_path / f"{server}.jsonl", on(f"pod-{server:02}", many(server)))
        for server in range(SERVERS)
    ]
    assert sum(len(path.read_text().splitlines()) for path in files) > EVENTS
    assert cost(lambda: reports.html(files, "en"), times=3) < MOST_SECONDS
    document = reports.html(files, "en")
    assert len(document) < MOST_BYTES
    text = document.decode()
    assert text.count('class="name"') == SERVERS
    assert f"rank {29 * RANKS + 3} on pod-29 failed first" in text
    assert text.count("k-failed") > GENERATIONS
