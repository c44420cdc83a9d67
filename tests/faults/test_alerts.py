"""Whoever is to be told is slow, endless or hostile: the job neither waits nor keeps anything."""

from __future__ import annotations

import shlex
import sys

import pytest

from tests.alerts.endpoints import answering, dripping, endpoint, flooding, hanging
from tests.running import python, with_constants

PATIENT = with_constants(alerts_event_command__RUN_SECONDS=3600.0, alerts_post__TRY_SECONDS=3600.0)
"""A command may run, and an endpoint take to answer, for an hour, while the job goes on."""

HANGS = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""
FLOODS = """
import os
while True:
    os.write(1, b"x" * 65536)
"""
LEAVES = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    time.sleep(600)
if os.fork() == 0:
    time.sleep(600)
"""
RESTARTS = ("--standalone", "2", "--restarts", "2", "--restart-delay", "0.01", "--min-uptime", "0")


@pytest.mark.parametrize("source", [HANGS, FLOODS, LEAVES], ids=["hangs", "floods", "leaves"])
def test_a_command_that_misbehaves_costs_the_job_nothing_and_is_gone_with_it(bad_day, source):
    command = shlex.join((sys.executable, "-c", source))
    words = (*RESTARTS, "--on-event", command, *python("raise SystemExit(3)"))
    job = bad_day(*words, program=PATIENT)
    assert job.end() == 3
    assert [event["event"] for event in job.events][-1] == "supervisor.exited"
    assert job.survivors() == []
    starts = job.all("generation.started")
    assert len(starts) == 3
    if source is not LEAVES:
        told = [event["message"] for event in job.all("diagnostic", source="--on-event")]
        given_up = "1 event given up for the last one, because the job has ended"
        killed = "was still running after the end of the job, and was killed"
        assert told[0] == given_up
        assert len(told) == 3
        assert all(message.endswith(killed) for message in told[1:])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (hanging, "a message had no answer yet when the job ended"),
        (dripping, "a message had no answer yet when the job ended"),
        (answering(500), ": HTTP status 500"),
        (answering(302, Location="http://127.0.0.1:1/"), ": it redirects (HTTP status 302), which"),
        (flooding, ""),
    ],
    ids=["hangs", "drips", "fails", "redirects", "floods"],
)
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_an_endpoint_that_misbehaves_costs_the_job_nothing(bad_day, answer, told):
    with endpoint(answer) as one:
        words = (*RESTARTS, "--notify-url", one.url, *python("raise SystemExit(3)"))
        job = bad_day(*words, program=PATIENT)
        assert job.end() == 3
    assert one.messages
    assert [event["event"] for event in job.events][-1] == "supervisor.exited"
    said = " ".join(event["message"] for event in job.all("diagnostic", source="--notify-url"))
    assert (told in said) if told else not said
