"""--plog-keep: CANN's own logs of earlier generations go when the next one starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.running import Event, Running, begins_in_python, python

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
    assert f"other containers may write to {tmp_path}/shared, too, with the same" in told["msg"]
    assert told["msg"].endswith("leave ASCEND_PROCESS_LOG_PATH unset, and name the job with JOB_ID")


def test_a_job_without_a_name_shares_its_directory_with_others(supervised):
    unnamed = {"MA_VJ_NAME": "", "JOB_ID": ""}
    job = supervised(*OPTIONS, "--plog-keep", "0", *python(LOGS), environ=unnamed)
    assert job.end() == 0
    root = job.log_dir / "job" / "ascend" / "process_log" / "rank_0"
    assert generations(root, "debug/plog") == list(range(LAST + 1))
    (told,) = complaints(job)
    assert "give the job a name that no other job has, with JOB_ID" in told["msg"]


def test_where_the_pids_of_the_ranks_are_not_known_that_is_told(supervised):
    words = ("--method", "once", "--plog-keep", "0", "--", "true")
    job = supervised("--standalone", "1", *words)
    assert job.end() == 0
    (told,) = complaints(job)
    assert told["msg"].endswith("the ranks are started by the command, and their pids are unknown")


CONTAINER = """
shown=$1
shift
mount -t tmpfs none /mnt
mkdir /mnt/up /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/up,workdir=/mnt/work none /mnt/root
mount -t proc proc /mnt/root/proc
mount --rbind /dev /mnt/root/dev
mount --bind "$shown" "/mnt/root$shown"
exec chroot /mnt/root "$@"
"""
"""A root of its own, as Docker and containerd make it, and beside it a directory of the host."""


@pytest.mark.parametrize("is_shared", [False, True])
def test_on_the_root_of_a_container_logs_are_removed_wherever_they_are(
    supervised, tmp_path, is_shared
):
    script = ("unshare", "--mount", "--pid", "--fork", "sh", "-ec", CONTAINER, "sh", str(tmp_path))
    if subprocess.run((*script, "true"), check=False, capture_output=True).returncode:
        pytest.skip("no overlay can be mounted here")
    end = tmp_path / "end"
    root = tmp_path / "shared" if is_shared else "/plogs"
    job = supervised(
        *OPTIONS,
        *("--plog-keep", "1", *python(LOGS), str(end)),
        environ={"ASCEND_PROCESS_LOG_PATH": f"{root}"},
        before=script,
    )
    if is_shared:
        job.wait_for("generation.started", generation=LAST)
        assert "other containers may write" in job.wait_for("diagnostic")["msg"]
    told = removed(job, end, 0 if is_shared else 2 * (LAST - 1))
    assert bool(told) != is_shared


MOUNTED = """
mkdir -p "$1" "$2"
mount --bind "$1" "$2"
shift 2
exec "$@"
"""


@pytest.mark.parametrize("below", ["", "ascend", "ascend/process_log/rank_0/debug"])
def test_what_is_mounted_in_the_directory_of_the_job_may_be_that_of_another_one(
    supervised, tmp_path, below
):
    if os.geteuid():
        pytest.skip("only root may mount")
    place = tmp_path / "modelarts" / "log" / "modelarts-job-test" / below
    before = ("unshare", "--mount", "sh", "-ec", MOUNTED, "sh", str(tmp_path / "disk"), str(place))
    job = supervised(*OPTIONS, "--plog-keep", "0", *python(LOGS), before=before)
    assert job.end() == 0, job.stderr
    assert job.all("plogs.removed") == []
    (told,) = complaints(job)
    assert told["msg"].endswith(f"mount nothing in {tmp_path}/modelarts/log/modelarts-job-test")


TORCHRUN = """
import os, subprocess, sys
words = [sys.executable, *sys.argv[-2:]]
for rank in "0", "1":
    subprocess.Popen(words, start_new_session=True, env={**os.environ, "RANK": rank})
sys.exit(max(os.wait()[1] for _ in range(2)) > 0)
"""
SEEN_SECONDS = 1.0
"""The pids of a launcher's workers are looked for ten times as often."""


def test_logs_of_the_workers_of_torchrun_are_removed(supervised, tmp_path):
    program = tmp_path / "bin" / "torchrun"
    program.parent.mkdir()
    program.write_text(f"{begins_in_python()}\n{TORCHRUN}")
    program.chmod(0o755)
    end = tmp_path / "end"
    rank = tmp_path / "rank.py"
    rank.write_text(LOGS.replace("os._exit(1)", f"time.sleep({SEEN_SECONDS}), os._exit(1)"))
    options = ("--method", "torchrun", "--plog-keep", "0", "--standalone", "2", *RESTARTS)
    job = supervised(
        *options,
        *("--", "python", str(rank), str(end)),
        environ={"PATH": f"{program.parent}:{os.environ['PATH']}"},
    )
    removed(job, end, 2 * 2 * LAST)
