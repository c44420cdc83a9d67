"""The row about the rank table: what a start with this environment would find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.ctl.calling import ENVIRON, ctl, process
from tests.rank_tables import TEMPLATE_1, data
from tests.running import python


def row_of(tmp_path: Path, **environ: str) -> Any:
    (tmp_path / "log").mkdir(exist_ok=True)
    answer = ctl("doctor", "--json", environ={**ENVIRON, "MA_MOUNT_PATH": str(tmp_path), **environ})
    assert answer.returncode == 0
    return json.loads(answer.stdout)["rows"][0]


def test_a_table_that_holds_this_server_is_told_with_its_digest(tmp_path):
    table = tmp_path / "table.json"
    table.write_bytes(data(TEMPLATE_1))
    row = row_of(tmp_path, RANK_TABLE_FILE=str(table), MS_NODE_RANK="1")
    assert (row["subject"], row["verdict"]) == ("rank table", "fit")
    assert row["found"].startswith(f"{table} (template 1, sha256 ")
    assert row["found"].endswith("; this is 10.0.5.2, number 1 of 2, with ranks 4, 5, 6, 7")


def test_a_table_without_this_server_is_told(tmp_path):
    table = tmp_path / "table.json"
    table.write_bytes(data(TEMPLATE_1))
    row = row_of(tmp_path, RANK_TABLE_FILE=str(table), MA_CURRENT_HOST_IP="10.9.9.9")
    assert row["verdict"] == "unknown"
    assert "a start here would be refused: cannot tell which entry is this machine" in row["found"]


def test_a_table_that_cannot_be_read_is_told(tmp_path):
    row = row_of(tmp_path, RANK_TABLE_FILE=str(tmp_path / "nowhere.json"))
    assert row["verdict"] == "unknown"
    assert "there is no such file" in row["found"]


def test_the_table_of_a_running_supervisor_counts_and_ports_of_its_ranks_do_not(
    supervised, tmp_path
):
    table = tmp_path / "table.json"
    table.write_bytes(data(TEMPLATE_1))
    job = supervised(
        *("--rank-table", "table.json", "--node-rank", "0"),
        *python("import time; time.sleep(600)"),
    )
    job.wait_for("process.started", rank=3)
    answer = process("doctor", "--json", "--log-dir", str(job.log_dir))
    rows = {row["subject"]: row for row in json.loads(answer.stdout)["rows"]}
    assert rows["rank table"]["found"].startswith("table.json (template 1, sha256 ")
    assert not rows.keys() & {"port of rank 0", "ports of HCCL"}
