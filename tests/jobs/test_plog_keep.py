"""--plog-keep: CANN's own logs of earlier generations go when the next one starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import Event, Running, python

LAST = 3
LOGS = """
import os, pathlib, sys, time
generation = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
root = pathlib.Path(os.environ["ASCEND_PROCESS_LOG_PATH"])
def log(folder, pid):
    (root / folder).mkdir(parents=True, exist_ok=True)
    name = f"{folder.rpartition('/')[2].partition('-')[0]}-{pid}_2025112411165240{generation}.log"
    (root / folder / name).write_text(f"generation {generation}")
log("debug/plog", os.getpid())
log("debug/device-0", os.getpid())
log("run/plog", 1)
child = os.fork()
if child == 0:
    log("security/plog", os.getpid())
    os._exit(0)
os.waitpid(child, 0)
if generation < 3:
    os._exit(1)
for end in sys.argv[1:]:
    while not os.path.exists(end):
        time.sleep(0.01)
"""
"""The last generation lasts until there is the file that its argument names."""
RESTARTS = ("--restarts", f"{LAST}", "--restart-delay", "0", "--min-uptime", "0")
OPTIONS = (*RESTARTS, "--release-delay", "0", "--no-progress-limit", "0", "--standalone", "1")


def generations(root: Path, folder: str) -> list[int]:
    """Whose logs are there."""
    return sorted(int(path.read_text().split()[1]) for path in (root / folder).glob("*.log"))


def complaints(job: Running) -> list[Event]:
    return job.all("diagnostic", source="--plog-keep")


def removed(job: Running, end: Path, count: int) -> list[Event]:
    """The events, until so many files are told; then the job may end."""
    told: list[Event] = []
    events = job.each("plogs.removed")
    while sum(event["count"] for event in told) < count:
        told.append(next(events))
    end.touch()
    assert job.end() == 0
    assert told == job.all("plogs.removed")
    return told


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_the_running_generation_and_the_last_ones_keep_their_logs(supervised, tmp_path, keep):
    end = tmp_path / "end"
    job = supervised(*OPTIONS, "--plog-keep", f"{keep}", *python(LOGS), str(end))
    count = 2 * (LAST - keep)
    told = removed(job, end, count)
    root = job.log_dir / "modelarts-job-test" / "ascend" / "process_log" / "rank_0"
    kept = list(range(LAST - keep, LAST + 1))
    assert generations(root, "debug/plog") == generations(root, "debug/device-0") == kept
    for folder in ("run/plog", "security/plog"):  # of one that is not ours, and of a rank's child
        assert generations(root, folder) == list(range(LAST + 1))
    assert {event["kept"] for event in told} == {keep}
    assert sum(event["bytes"] for event in told) == count * len("generation 0")
    assert complaints(job) == []


def test_without_the_option_all_logs_stay(supervised):
    job = supervised(*OPTIONS, *python(LOGS))
    assert job.end() == 0
    root = job.log_dir / "modelarts-job-test" / "ascend" / "process_log" / "rank_0"
    assert generations(root, "debug/plog") == list(range(LAST + 1))
    assert job.all("plogs.removed") == []


def test_what_an_earlier_start_left_stays(supervised, tmp_path):
    first = supervised(*OPTIONS, *python(LOGS))
    assert first.end() == 0
    end = tmp_path / "end"
    second = supervised(*OPTIONS, "--plog-keep", "0", *python(LOGS), str(end))
    removed(second, end, 2 * LAST)
    root = second.log_dir / "modelarts-job-test" / "ascend" / "process_log" / "rank_0"
    assert generations(root, "debug/plog") == [*range(LAST), LAST, LAST]


def test_a_directory_that_we_have_not_chosen_is_left_alone_which_is_told_once(supervised, tmp_path):
    named = {"ASCEND_PROCESS_LOG_PATH": str(tmp_path / "shared")}
    job = supervised(*OPTIONS, "--plog-keep", "0", *python(LOGS), environ=named)
    assert job.end() == 0
    assert generations(tmp_path / "shared", "debug/plog") == list(range(LAST + 1))
    assert job.all("plogs.removed") == []
    (told,) = complaints(job)
    assert f"CANN's logs in {tmp_path}/shared are not removed, because another job" in told["msg"]
    assert "ASCEND_PROCESS_LOG_PATH is set" in told["msg"]


def test_a_job_without_a_name_shares_its_directory_with_others(supervised):
    unnamed = {"MA_VJ_NAME": "", "JOB_ID": ""}
    job = supervised(*OPTIONS, "--plog-keep", "0", *python(LOGS), environ=unnamed)
    assert job.end() == 0
    root = job.log_dir / "job" / "ascend" / "process_log" / "rank_0"
    assert generations(root, "debug/plog") == list(range(LAST + 1))
    (told,) = complaints(job)
    assert "give the job a name with JOB_ID" in told["msg"]


def test_once_knows_no_rank(supervised, tmp_path):
    environ = {"HOME": str(tmp_path), "ASCEND_PROCESS_LOG_PATH": ""}
    words = ("--method", "once", "--plog-keep", "0", *python("import os; os.getpid()"))
    job = supervised("--standalone", "1", *words, environ=environ)
    assert job.end() == 0
    (told,) = complaints(job)
    assert f"CANN's logs in {tmp_path}/ascend/log are not removed" in told["msg"]
