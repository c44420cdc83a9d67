"""``ascend-supervisorctl doctor``: whose job it is, and its rows."""

from __future__ import annotations

import json
import os

import pytest

from tests.cluster.test_kubeflow_pods import TWO_NPUS
from tests.ctl.calling import ENVIRON, ctl, process
from tests.doctor.programs import npu_smi
from tests.running import python


def test_without_a_supervisor_the_environment_and_the_defaults_count(tmp_path):
    environ = {**ENVIRON, "MA_MOUNT_PATH": str(tmp_path)}
    (tmp_path / "log").mkdir()
    answer = ctl("doctor", environ=environ)
    first, _, heads, *rows = answer.stdout.splitlines()
    assert first == ("for a job with this environment and the default options; none was found here")
    assert heads.split() == ["subject", "verdict", "found"]
    assert any(row.startswith("log directory") and f"for {tmp_path}/log" in row for row in rows)
    assert answer.returncode == 0


def test_the_command_line_of_a_running_supervisor_counts(supervised, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    job = supervised(
        *("--standalone", "2", "--work-dir", str(elsewhere)),
        *python("import time; time.sleep(600)"),
    )
    job.wait_for("process.started", rank=1)
    answer = process("doctor", "--json", "--log-dir", str(job.log_dir))
    found = json.loads(answer.stdout)
    assert found["job"].startswith(f"for the job of the supervisor (process {job.pid}), with its")
    rows = {row["subject"]: row for row in found["rows"]}
    assert rows["work directory"]["found"].endswith(f"for {elsewhere}")
    assert answer.returncode == 0


def test_a_job_that_has_ended_says_so(supervised):
    job = supervised("--standalone", "1", *python(""))
    assert job.end() == 0
    answer = ctl("doctor", "--log-dir", str(job.log_dir), environ=ENVIRON)
    first, *rows = answer.stdout.splitlines()
    assert first.startswith("for the job of ")
    assert (
        "which has ended: with this environment and the default options but --log-dir "
        f"{job.log_dir} (state file " in first
    )
    (row,) = (row for row in rows if row.startswith("log directory "))
    assert row.endswith(f" for {job.log_dir}")


@pytest.mark.skipif(os.geteuid() != 0, reason="a /dev of our own needs root")
def test_a_server_that_is_not_fit_gives_69_and_says_what_to_do(tmp_path):
    devices, smi = tmp_path / "dev", tmp_path / "bin"
    for place in (devices, smi):
        place.mkdir()
    npu_smi(smi, "OK", "Critical")
    before = ("unshare", "--mount", "sh", "-e", "-c", TWO_NPUS, "sh", str(devices))
    answer = process("doctor", before=(*before, "env", f"PATH={smi}:{os.environ['PATH']}"))
    assert answer.returncode == 69
    assert "health of NPUs" in answer.stdout
    paragraph = answer.stdout.partition("\nhealth of NPUs: unfit\n")[2].split("\n\n")[0]
    assert paragraph.splitlines() == [
        "  expected    OK",
        "  what to do  start the job elsewhere, and have the NPU reset or replaced",
    ]
