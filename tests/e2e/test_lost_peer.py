"""A real rank that loses a real peer: PyTorch with gloo, two ranks, one of them elsewhere."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.ports import free_port
from tests.running import python

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: .venv/bin/pip install --group e2e",
    ),
]

REDUCE = """
import os, signal, sys
import torch
import torch.distributed as dist
rank, victim = {rank}, {victim}
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:{port}", rank=rank, world_size=2)
total = torch.ones(4)
dist.all_reduce(total)
print("together", flush=True)
if rank == victim:
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    dist.all_reduce(total)
"""
WAIT = """
import os, time
if os.environ["RANK"] == "1":
    time.sleep(600)  # in its place is one that this supervisor does not know
"""
LOST = "it lost the connection to another rank"
RUN_SECONDS = 240.0
"""Importing torch twice takes most of it."""


def test_a_rank_that_lost_its_peer_says_so_and_is_not_blamed(supervised):
    port = free_port()
    environ = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    job = supervised(
        *("--standalone", "2", *python(WAIT + REDUCE.format(rank=0, victim=1, port=port))),
        environ=environ,
        deadline=RUN_SECONDS,
    )
    elsewhere = subprocess.Popen(
        [sys.executable, "-c", REDUCE.format(rank=1, victim=1, port=port)],
        env={**os.environ, **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert elsewhere.wait(RUN_SECONDS) == -9
        assert job.end() == 1
    finally:
        elsewhere.kill()
        elsewhere.wait()
    head = job.events[-1]["root_cause"].splitlines()[0]
    assert head.endswith(f": a consequence: {LOST}; look at the ranks on this server")
    known = job.events[-1]["diagnosis"]
    assert (known["id"], known["is_consequence"], known["rank"]) == ("lost-peer", True, None)
