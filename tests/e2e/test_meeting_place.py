"""Ranks of real torch find each other: on one server, and below a torchrun that is not ours."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.rank_tables import TEMPLATE_1, document

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

MEET = """
import os
from datetime import timedelta
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
total = torch.ones(1)
dist.all_reduce(total)
os.write(1, f"met {int(total)} at {os.environ['MASTER_ADDR']}\\n".encode())
dist.barrier()
dist.destroy_process_group()
"""
RUN_SECONDS = 180.0
ON_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
ALONE_IN_ITS_NETWORK = ("unshare", "--net", "sh", "-ec", 'ip link set lo up; exec "$@"', "sh")


def one_server(folder: Path) -> str:
    """ModelArts' own example with two devices: the address of the host is all it tells."""
    devices = [{"device_id": str(4 + i), "device_ip": f"192.1.10.{25 + i}"} for i in range(2)]
    pod = {"pod_name": "jobxxxxxxxx-job-trainjob-0", "server_id": "192.168.0.25"}
    group = {"group_name": "job-trainjob", "device_count": "2", "instance_count": "1"}
    group |= {"instance_list": [{**pod, "devices": devices}]}  # type: ignore[dict-item]
    table = {"status": "completed", "group_count": "1", "group_list": [group]}
    file = folder / "jobstart_hccl.json"
    file.write_text(json.dumps(table))
    return str(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
def test_in_a_network_of_its_own_ranks_of_one_server_meet(supervised, tmp_path):
    """The host's address, which the table tells, is not reachable from there."""
    job = supervised(
        *("--rank-table", one_server(tmp_path), "--", sys.executable, "-c", MEET),
        before=ALONE_IN_ITS_NETWORK,
        environ={**ON_LOOPBACK, "MA_CURRENT_INSTANCE_NAME": "jobxxxxxxxx-job-trainjob-0"},
        deadline=RUN_SECONDS,
    )
    job.process.wait(RUN_SECONDS)
    assert job.end() == 0
    assert "met 2 at 127.0.0.1" in job.said(0)


def test_a_variable_of_another_torchelastic_keeps_no_rank_from_listening(supervised):
    strange = {"TORCHELASTIC_USE_AGENT_STORE": "True", "ROLE_RANK": "3", "GROUP_WORLD_SIZE": "9"}
    job = supervised(
        *("--standalone", "2", "--", sys.executable, "-c", MEET),
        environ={**ON_LOOPBACK, **strange, "MASTER_PORT": str(free_port())},
        deadline=RUN_SECONDS,
    )
    job.process.wait(RUN_SECONDS)
    assert job.end() == 0
    assert "met 2 at 127.0.0.1" in job.said(0)


def test_ranks_of_supervisors_below_a_torchrun_meet_at_its_agent(tmp_path):
    """It listens at MASTER_ADDR and MASTER_PORT itself, so no rank can."""
    named = document(TEMPLATE_1)
    for number, server in enumerate(named["server_list"]):
        server |= {"server_id": f"node-{number}", "device": server["device"][:1]}
        server["device"][0]["rank_id"] = str(number)
        del server["host_ip"], server["container_ip"]
    (tmp_path / "hccl.json").write_text(json.dumps(named))
    (tmp_path / "meet.py").write_text(MEET)
    start = tmp_path / "start.sh"
    words = f"{sys.executable} -m ascend_supervisor --rank-table hccl.json --node-rank $RANK"
    words += " --console raw --log-dir logs-$RANK --rank-dir same"
    start.write_text(f"exec {words} -- {sys.executable} {tmp_path}/meet.py\n")
    torchrun = shutil.which("torchrun", path=Path(sys.executable).parent)
    assert torchrun
    run = subprocess.run(
        (torchrun, "--standalone", "--nproc-per-node=2", "--no-python", "sh", str(start)),
        check=False,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **ON_LOOPBACK},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("met 2 at ") == 2
