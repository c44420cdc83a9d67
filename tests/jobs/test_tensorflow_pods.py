"""TensorFlow's way under Ascend Operator: two pods of two NPUs, as their processes see them."""

from __future__ import annotations

import json

from tests.pods import tensorflow
from tests.running import Running, python

CARDS = 2
TELL = """
import json, os
names = ("RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE", "ASCEND_DEVICE_ID", "DEVICE_INDEX")
told = {n: v for n, v in os.environ.items() if n in names or n.startswith("CM_")}
print(json.dumps(told), flush=True)
"""
FAIL = """
import os, sys, time
if os.environ["DEVICE_INDEX"] == "3":
    print("no space on device", flush=True)
    sys.exit(5)
while True:
    time.sleep(0.05)
"""


def pod(supervised, tmp_path, node: int, source: str, *options: str) -> Running:
    job: Running = supervised(
        *("--release-delay", "0", *options),
        *python(source),
        root=tmp_path / f"pod-{node}",
        environ=tensorflow(CARDS, 2, node),
    )
    return job


def test_each_npu_has_a_process_that_finds_its_cluster(supervised, tmp_path):
    jobs = [pod(supervised, tmp_path, node, TELL) for node in range(2)]
    assert [job.end() for job in jobs] == [0, 0]
    for node, job in enumerate(jobs):
        told = {name: v for name, v in tensorflow(CARDS, 2, node).items() if name[:3] == "CM_"}
        for local_rank in range(CARDS):
            rank = node * CARDS + local_rank
            (line,) = job.said(rank)
            assert json.loads(line) == {
                **told,
                "ASCEND_DEVICE_ID": str(local_rank),
                "DEVICE_INDEX": str(rank),
            }
        assert not job.survivors()


def test_a_process_that_fails_ends_those_of_its_pod(supervised, tmp_path):
    job = pod(supervised, tmp_path, 1, FAIL, "--restarts", "2")
    assert job.end() == 5
    cause = job.events[-1]["root_cause"]
    assert cause.startswith("rank 3 failed first, in generation 0: it exited with status 5")
    assert "no space on device" in cause
    assert job.all("generation.ended")[0]["next"] == "stop"
    assert not job.survivors()
