"""``ascend-supervisorctl collect`` beside real supervisors, while they run and afterwards."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.collection.reading import manifest_of, members, why_not
from tests.ctl.calling import ctl
from tests.jobs.test_ctl import UP, beside, until_running
from tests.running import Running, python, wait_until

HIDDEN = "geheimnis"
PLOG = """
import os, pathlib
place = pathlib.Path(os.environ["ASCEND_PROCESS_LOG_PATH"], "debug", "plog")
place.mkdir(parents=True)
(place / f"plog-{os.getpid()}_20261126.log").write_text(f"rank {os.environ['RANK']}")
"""


def collected(job: Running, tmp_path: Path, *words: str) -> dict[str, bytes]:
    out = tmp_path / "collected.tar.gz"
    found = ctl(
        "collect", "-o", str(out), *words, environ=beside(job) | {"PATH": os.environ["PATH"]}
    )
    assert (found.returncode, found.stderr) == (0, "")
    return members(out.read_bytes())


def stacks_in(files: dict[str, bytes]) -> list[str]:
    return [name.rpartition("/")[2] for name in files if name.startswith("stacks/")]


def test_of_a_running_job_everything_is_there_and_no_secret(supervised, tmp_path):
    words = ("--standalone", "2", "--rank-env", f"WANDB_API_KEY={HIDDEN}")
    command = [*python(PLOG + UP), f"--token={HIDDEN}", f"https://me:{HIDDEN}@host/"]
    job = supervised(*words, *command, environ={"HF_TOKEN": HIDDEN, "WORD": "no secret"})
    until_running(job, 2)
    files = collected(job, tmp_path)
    manifest = manifest_of(files)
    assert {
        *("supervisor/state.json", "supervisor/live.json", "supervisor/events.jsonl"),
        *("supervisor/check.json", "supervisor/jobstart_hccl.json", "stacks/summary.txt"),
        *("machine/kernel.txt", "machine/cgroup.txt", "machine/processes.txt"),
        *("machine/supervisor.env", "machine/rank_0.env", "machine/rank_1.limits"),
    } <= files.keys()
    assert stacks_in(files) == ["summary.txt", "rank-0.stack", "rank-1.stack"]
    plogs = [
        content for name, content in files.items() if name.startswith("process_log/debug/plog/")
    ]
    assert sorted(plogs) == [b"rank 0", b"rank 1"]
    for rank in range(2):
        log = job.log(rank)
        assert files[f"logs/{log.name}"]
        assert files[f"logs/{log.name}"] == log.read_bytes()
    assert json.loads(files["supervisor/check.json"])["rank_table"]["world_size"] == 2
    assert b"WORD=no secret\n" in files["machine/supervisor.env"]
    assert b"WANDB_API_KEY=***\n" in files["machine/rank_0.env"]
    assert [name for name, content in files.items() if HIDDEN.encode() in content] == []
    assert manifest["job_id"] == "modelarts-job-test"
    assert [one["bytes_missing"] for one in manifest["taken"]] == [0] * len(manifest["taken"])
    assert job.process.poll() is None
    assert not job.all("process.exited")


def test_the_stacks_of_now_are_there_though_no_event_tells_of_them(supervised, tmp_path):
    job = supervised("--standalone", "1", "--event-log", "none", *python(UP))
    until_running(job, 1)
    files = collected(job, tmp_path)
    assert stacks_in(files) == ["summary.txt", "rank-0.stack"]
    assert "--event-log none" in why_not(manifest_of(files), "the events")


def test_of_a_job_that_has_ended_the_failed_rank_comes_first(supervised, tmp_path):
    source = "import os, time; os.environ['RANK'] == '2' and os._exit(7)\ntime.sleep(600)"
    job = supervised("--standalone", "3", *python(source))
    assert job.end() == 7
    files = collected(job, tmp_path)
    logs = [name for name in files if name.startswith("logs/")]
    assert logs == [f"logs/{job.log(rank).name}" for rank in (2, 0, 1)]
    assert b"rank 2 failed first" in files["supervisor/state.json"]
    assert b"rank 2" in files["report.txt"]
    assert b"server_list" in files["supervisor/jobstart_hccl.json"]
    assert "does not run any more" in why_not(manifest_of(files), "live figures, stacks of now")


def test_after_a_sigkill_of_the_supervisor_what_it_kept_is_there(supervised, tmp_path):
    job = supervised("--standalone", "2", *python(PLOG + UP))
    until_running(job, 2)
    wait_until(lambda: job.log(0).read_bytes().endswith(b"up\n"))
    job.send(signal.SIGKILL)
    job.end()
    wait_until(lambda: not job.survivors())
    files = collected(job, tmp_path)
    assert json.loads(files["supervisor/state.json"])["phase"] == "running"
    assert b"generation.started" in files["supervisor/events.jsonl"]
    assert len([name for name in files if name.startswith("process_log/")]) == 2
    assert files[f"logs/{job.log(0).name}"].endswith(b"up\n")


def test_a_supervisor_that_stands_still_holds_nothing_up_for_long(supervised, tmp_path):
    job = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    wait_until(lambda: job.log(0).read_bytes().endswith(b"up\n"))
    job.send(signal.SIGSTOP)
    files = collected(job, tmp_path)
    job.send(signal.SIGCONT)
    assert files[f"logs/{job.log(0).name}"].endswith(b"up\n")
    assert "stopped" in why_not(manifest_of(files), "live figures, stacks of now")


def test_what_a_former_job_has_left_in_the_place_is_not_told_of_one_without_events(
    supervised, tmp_path
):
    fails = "import os, time; os.environ['RANK'] == '2' and os._exit(7)\ntime.sleep(600)"
    assert supervised("--standalone", "3", *python(fails)).end() == 7
    job = supervised("--standalone", "3", "--event-log", "none", *python(""))
    assert job.end() == 0
    files = collected(job, tmp_path)
    assert "report.txt" not in files
    assert "has left no event in" in why_not(manifest_of(files), "the report")
    logs = [name for name in files if name.startswith("logs/") and name.endswith(".txt")]
    assert logs == [f"logs/{job.log(rank).name}" for rank in (0, 1, 2)]
    for command in ("report", "trace"):
        told = ctl(command, environ=beside(job))
        assert (told.returncode, told.stdout) == (1, "")
        assert "has left no event in" in told.stderr
