"""Real TensorFlow, on two servers: each has a parameter server and a worker."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.two_servers import on_each, two_servers

SCRIPT = Path(__file__).with_name("sum_tensorflow.py")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_workers_add_up_across_two_servers(supervised, tmp_path):
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    with two_servers() as servers:
        jobs = on_each(
            servers,
            supervised,
            tmp_path,
            *("--method", "tensorflow", "--", sys.executable, str(SCRIPT)),
            deadline=250.0,
            environ={
                "TF_PS_HOSTS": ",".join(f"{one.address}:2222" for one in servers),
                "TF_WORKER_HOSTS": ",".join(f"{one.address}:2223" for one in servers),
            },
        )
        assert [job.end() for job in jobs] == [0, 0]
        for index, job in enumerate(jobs):
            assert f"worker {index}: the sum is 3" in job.said(index)
            assert job.all("process.exited", program=f"ps {index}", signal="SIGTERM")
            assert not job.survivors()
