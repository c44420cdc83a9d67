"""The steps of a job are told by the ranks of one server, and known on all of them."""

from __future__ import annotations

import json
import signal
import sys
import time
from functools import partial
from typing import Any

from tests.peers.servers import Job
from tests.peers.test_whole_job import status
from tests.peers.test_without_rank_table import waits_as_a_spare
from tests.running import Running, wait_until

RANK = """
import os, time
step = 0
while True:
    step += 1
    if os.environ["RANK"] == "2":
        line = f" iteration {step:8d}/    5000 | consumed samples: 16 | lm loss: 2.382640E+00 |"
        os.write(1, f"{line}\\n".encode())
    time.sleep(0.1)
"""


ENDS = f"""
import os, signal
signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))
{RANK}
""".replace("step = 0", 'os.write(1, b"up\\n")\nstep = 0').replace(
    "import signal", "import os, signal"
)
"""The same until SIGUSR2."""


def progress(server: Running) -> dict[str, Any]:
    return json.loads(status(server, "--json"))["progress"] or {}


def has_steps(server: Running) -> bool:
    return bool(progress(server).get("step", 0) > 20)


def test_a_server_whose_ranks_tell_no_steps_hears_them(job):
    servers = [job.start(index, command=(sys.executable, "-c", RANK)) for index in range(3)]
    for server in servers:
        server.wait_for("training.started")
        wait_until(partial(has_steps, server))
        known = progress(server)
        assert (known["rank"], known["format"], known["steps"]) == (2, "megatron", 5000)
        assert server.wait_for("training.started")["rank"] == 2
    steps = [progress(server)["step"] for server in servers]
    assert steps[2] >= max(steps)


AGAIN = """
import os, time
generation = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
for step in range(1, 50 if generation else 10000):
    line = f" iteration {step:8d}/   10000 | consumed samples: 16 | lm loss: 2.382640E+00 |"
    os.write(1, f"{line}\\n".encode())
    time.sleep(0.1)
"""


def test_a_spare_that_takes_over_goes_on_with_the_account_of_the_job(spared: Job):
    command = (sys.executable, "-c", AGAIN)
    first, second = (spared.start(index, command=command) for index in range(2))
    for server in (first, second):
        server.wait_for("training.started")
    spare = spared.start(2, command=command)
    waits_as_a_spare(spare)
    wait_until(lambda: "account" in spared.etcd.control("get", "--prefix", "/"))
    second.send(signal.SIGTERM)
    assert second.end() == 143
    assert (first.end(), spare.end()) == (0, 0)
    whole, taken = first.events[-1]["account"], spare.events[-1]["account"]
    assert taken["trained_again"] > 1.0
    # What was written last may be 10 s old; the time since then was waiting.
    assert all(abs(taken[one] - whole[one]) < 15.0 for one in whole)
    assert abs(sum(taken.values()) - sum(whole.values())) < 5.0


def test_what_a_job_of_the_same_name_has_left_is_not_heard(job):
    servers = [job.start(index, command=(sys.executable, "-c", ENDS)) for index in range(3)]
    for server in servers:
        assert server.wait_for("training.started")["rank"] == 2
    job.servers = servers
    job.succeed(0)
    quiet = (sys.executable, "-c", ENDS.replace('"2"', '"none"'))
    job.servers = [job.start(index, command=quiet) for index in range(3)]
    for server in job.servers:
        assert server.wait_for("generation.started")["generation"] == 0
        server.wait_for("output", msg="up")
    time.sleep(12.0)  # it looks every 10 s
    assert not [event for server in job.servers for event in server.all("training.started")]
    job.succeed(0)


STUCK = """
import os, sys, time
generation = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
for step in range(1, 12 if generation else 15):
    if os.environ["RANK"] == "1":
        line = f" iteration {step:8d}/    5000 | consumed samples: 16 | lm loss: 2.382640E+00 |"
        os.write(1, f"{line}\\n".encode())
    time.sleep(0.02)
time.sleep(0.2 if os.environ["RANK"] == "1" else 60)
sys.exit(7)
"""


def test_generations_that_make_no_progress_end_the_job_of_all_servers(job):
    options = ("--restarts", "9", "--min-uptime", "0", "--restart-delay", "0")
    servers = [job.start(n, *options, command=(sys.executable, "-c", STUCK)) for n in range(3)]
    assert [server.end() for server in servers] == [7, 7, 7]
    assert servers[1].events[-1]["generations"] == 4
    for server in servers:
        told = server.events[-1]["msg"]
        assert "3 generations in a row came no further than step 14" in told
        assert "(--no-progress-limit)" in told


def test_a_later_start_of_the_job_goes_on_counting_them(job):
    options = ("--min-uptime", "0", "--restart-delay", "0")
    fails = (sys.executable, "-c", STUCK)
    first = [job.start(n, *options, "--restarts", "1", command=fails) for n in range(3)]
    assert [server.end() for server in first] == [7, 7, 7]
    at_once = (sys.executable, "-c", STUCK.replace("if generation", "if 1"))
    again = [job.start(n, *options, "--restarts", "9", command=at_once) for n in range(3)]
    assert [server.end() for server in again] == [7, 7, 7]
    for server in again:
        assert server.events[-1]["generations"] == 2
        assert "3 generations in a row came no further than step 14" in server.events[-1]["msg"]
