"""The published contract of Ascend-Powered-Engine: the boot file runs once for each device."""

from __future__ import annotations

import json
from pathlib import Path

from tests.running import python

VERIFICATION = """
import json, os
names = ("JOB_ID", "RANK_TABLE_FILE", "RANK_SIZE", "ASCEND_DEVICE_ID", "DEVICE_ID", "RANK_ID")
told = {name: os.environ[name] for name in names}
table = json.load(open(told["RANK_TABLE_FILE"]))
devices = [device for server in table["server_list"] for device in server["device"]]
told["ranks"] = [device["rank_id"] for device in devices]
print(json.dumps(told), flush=True)
"""
ONCE = """
import os
if os.environ["ASCEND_DEVICE_ID"] == "0":
    print("downloads the data", flush=True)
"""
TABLE = Path(__file__).parents[1] / "data" / "rank_tables" / "template1-two-servers.json"


def test_every_run_of_it_knows_what_the_published_example_prints(supervised):
    table = json.loads(TABLE.read_text())
    devices = [len(server["device"]) for server in table["server_list"]]
    job = supervised("--rank-table", str(TABLE), "--node-rank", "1", *python(VERIFICATION))
    assert job.end() == 0
    for local_rank in range(devices[1]):
        rank = devices[0] + local_rank
        told = json.loads(job.said(rank)[0])
        assert told.pop("RANK_TABLE_FILE").endswith("/rank_table/jobstart_hccl.json")
        assert told == {
            "JOB_ID": "modelarts-job-test",
            "RANK_SIZE": str(sum(devices)),
            "ASCEND_DEVICE_ID": str(local_rank),
            "DEVICE_ID": str(local_rank),
            "RANK_ID": str(rank),
            "ranks": [str(number) for number in range(sum(devices))],
        }


def test_what_asks_for_device_0_happens_once(supervised):
    job = supervised("--standalone", "4", *python(ONCE))
    assert job.end() == 0
    assert [event["rank"] for event in job.all("output")] == [0]
