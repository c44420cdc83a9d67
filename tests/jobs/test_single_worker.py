"""A pod with NPUs for which nobody declares a cluster: it is told at once what to add."""

from __future__ import annotations

import os
import signal

import pytest

from tests.cluster.test_kubeflow_pods import TWO_NPUS
from tests.running import python

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a /dev of our own needs root")


@pytest.mark.parametrize(
    ("environ", "asks"),
    [
        ({}, True),
        ({"MA_NUM_HOSTS": "1", "MA_NUM_GPUS": "2"}, True),
        ({"RANK_TABLE_FILE": "/user/serverid/devindex/config"}, False),
        ({"VC_WORKER_HOSTS": "a.job,b.job"}, False),
    ],
)
def test_a_pod_with_npus_and_no_mount_is_told_to_add_standalone(
    supervised, tmp_path, environ, asks
):
    devices = tmp_path / "dev"
    devices.mkdir()
    mount = ("unshare", "--mount", "sh", "-e", "-c", TWO_NPUS, "sh", str(devices))
    job = supervised(*python("pass"), before=mount, environ=environ)
    waiting = job.wait_for("rank_table.waiting")
    asked = "--standalone is missing, if this machine is all of the job" in waiting["reason"]
    assert asked == asks
    if "MA_NUM_HOSTS" in environ:
        assert "MA_NUM_HOSTS and MA_NUM_GPUS count with --method torchrun" in waiting["reason"]
    job.send(signal.SIGTERM)
    assert job.end() == 143
