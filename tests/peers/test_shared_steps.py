"""The steps of a job are told by the ranks of one server, and known on all of them."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

from tests.peers.test_whole_job import status
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
