"""Which state file is meant, and what somebody is told who has named the wrong one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from ascend_supervisor.ctl.finding import hints
from ascend_supervisor.job_files import place_of
from ascend_supervisor.processes.proc import start_time
from tests.ctl.calling import ctl, own_state

ABSENT = 2**22 + 1
"""A pid above the highest that Linux gives."""
EVERY = 10_000
"""Other tests may run many supervisors beside this one."""


def named(*words: str, environ: dict[str, str] | None = None) -> str:
    """The job of the state file that is found."""
    found = ctl(*words, environ=environ)
    assert found.returncode == 0
    return found.stdout.split()[1]


def test_a_log_directory_on_the_command_line_wins_over_what_the_environment_says(tmp_path):
    usual = tmp_path / "usual"
    usual.mkdir()
    own_state(usual / "job-supervisor-pod-0.json", job_id="usual")
    own_state(tmp_path / "variable", job_id="variable")
    environ = {
        "ASCEND_SUPERVISOR_STATE_FILE": str(tmp_path / "variable"),
        "ASCEND_SUPERVISOR_LOG_DIR": str(tmp_path),
        "POD_NAME": "pod-0",
    }
    assert named("status", environ=environ) == "variable"
    assert named("--log-dir", str(usual), "status", environ=environ) == "usual"
    assert named("status", "--log-dir", str(usual), environ=environ) == "usual"
    both = ("--log-dir", str(usual), "--state-file", str(tmp_path / "variable"))
    assert named("status", *both, environ=environ) == "variable"


def test_what_stands_after_the_command_wins_over_what_stands_before(tmp_path):
    for name in ("one", "two"):
        own_state(tmp_path / name, job_id=name)
    words = ("--state-file", str(tmp_path / "one"), "status", "--state-file", str(tmp_path / "two"))
    assert named(*words) == "two"


def test_state_files_in_the_usual_places_are_told_with_the_state_of_their_supervisors(tmp_path):
    logs = tmp_path / "mount" / "log"
    logs.mkdir(parents=True)
    running = own_state(logs / "a-supervisor-pod.json")
    ended = own_state(logs / "b-supervisor-pod.json", pid=ABSENT)
    (logs / "c-supervisor-pod.json").write_text("{")
    missing = str(tmp_path / "none.json")
    environ = {"MA_MOUNT_PATH": str(tmp_path / "mount")}
    told = ctl("status", "--state-file", missing, environ=environ)
    assert told.returncode == 1
    assert missing in told.stderr.splitlines()[0]
    lines = hints(Path(missing), environ, EVERY)
    assert f"found instead: {running} (of process {os.getpid()}, which runs)" in lines
    assert f"found instead: {ended} (of a supervisor that has ended)" in lines
    assert f"found instead: {logs}/c-supervisor-pod.json (it cannot be read)" in lines


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """The current directory, which is somebody's own."""
    found = tmp_path / "here"
    found.mkdir(mode=0o755)
    before = Path.cwd()
    os.chdir(found)
    yield found
    os.chdir(before)


def logs_at(directory: Path, mode: int = 0o755) -> str:
    """The line about a state file of a job that has ended, in a directory that is made for it."""
    directory.mkdir()
    directory.chmod(mode)
    state = own_state(directory / "job-supervisor-pod.json", pid=ABSENT)
    return f"found instead: {state} (of a supervisor that has ended)"


def test_a_state_file_one_level_below_the_current_directory_is_found(here):
    line = logs_at(here / "logs")
    for missing in ("log/job-supervisor-pod.json", "/nowhere/at/all/none.json"):
        assert hints(Path(missing), {}, EVERY, inf).count(line) == 1


def test_a_state_file_beside_the_directory_that_was_named_is_found(here, tmp_path):
    (tmp_path / "jobs").mkdir(mode=0o755)
    line = logs_at(tmp_path / "jobs" / "logs")
    assert line in hints(tmp_path / "jobs" / "log" / "none.json", {}, EVERY, inf)


def test_no_hint_is_taken_from_a_place_where_others_may_write(here, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    lines = [logs_at(shared / "logs"), logs_at(here / "open", 0o777)]
    outside = logs_at(tmp_path / "outside")
    (here / "link").symlink_to(tmp_path / "outside")
    (here / "deep").mkdir()
    lines.append(logs_at(here / "deep" / "logs"))
    found = hints(shared / "log" / "none.json", {}, EVERY, inf)
    assert not set(found) & {*lines, outside}
    assert not [line for line in found if "/link/" in line]


def test_of_a_job_that_ended_in_the_usual_place_the_state_file_is_named(tmp_path):
    (tmp_path / "log").mkdir()
    state = own_state(tmp_path / "log" / "job-supervisor-pod-0.json", phase="ended", exit_code=0)
    usual = {"MA_MOUNT_PATH": str(tmp_path), "POD_NAME": "pod-0"}
    line = ["state", "file", str(state)]
    for environ, words, is_told in (
        (usual, (), True),
        (usual, ("--log-dir", str(tmp_path / "log")), False),
        (usual, ("--state-file", str(state)), False),
        ({**usual, "ASCEND_SUPERVISOR_LOG_DIR": str(tmp_path / "log")}, (), False),
    ):
        told = ctl("status", *words, environ=environ)
        assert (told.returncode, told.stderr) == (0, "")
        assert (line in [each.split() for each in told.stdout.splitlines()]) == is_told
    own_state(state)
    assert "state file" not in ctl("status", environ=usual).stdout


def test_at_most_five_are_named_and_the_others_counted(tmp_path):
    for number in range(40):
        own_state(tmp_path / f"{number}-supervisor-pod.json")
    _, *near = ctl("status", "--state-file", str(tmp_path / "none.json")).stderr.splitlines()
    assert len(near) == 6
    assert all(line.startswith("ascend-supervisorctl: found instead: ") for line in near[:5])
    assert near[5].endswith(" more")


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[str]:
    """The state file of a supervisor that runs, and of which only a rank is to be seen."""
    (tmp_path / "hidden place").mkdir()
    state = own_state(tmp_path / "hidden place" / "state.json")
    mark = f"{os.getpid()}.{start_time(os.getpid())}@{state}"
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={"ASCEND_SUPERVISOR_OWNER": mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has its environment now, and waits for no disk
        yield str(state)
        process.kill()


def test_the_mark_of_a_rank_leads_to_the_state_file(tmp_path, rank):
    sentence = "\n".join(hints(tmp_path / "none.json", {}, EVERY))
    assert f"{rank} (of process {os.getpid()}, which runs)" in sentence


@pytest.mark.parametrize(
    "mark",
    ["", "7", "7.8", "@", "x.y@/a", f"{'9' * 5000}.1@/a", "1.1@", "PID.1@/planted"],
)
def test_a_mark_that_names_no_supervisor_that_runs_is_ignored(tmp_path, mark):
    with subprocess.Popen(
        [sys.executable, "-c", "input()"],
        env={"ASCEND_SUPERVISOR_OWNER": mark.replace("PID", str(os.getpid()))},
        stdin=subprocess.PIPE,
    ) as process:
        sentence = " ".join(hints(tmp_path / "none.json", {}, EVERY))
        process.kill()
    assert "/planted" not in sentence
    assert " /a " not in sentence


def test_what_a_mark_says_steers_no_terminal(tmp_path):
    mark = f"{os.getpid()}.{start_time(os.getpid())}@/\x1b[2J\n\x9b"
    with subprocess.Popen(
        [sys.executable, "-c", "input()"],
        env={"ASCEND_SUPERVISOR_OWNER": mark},
        stdin=subprocess.PIPE,
    ) as process:
        sentence = " ".join(hints(tmp_path / "none.json", {}, EVERY))
        process.kill()
    assert "x1b[2J" in sentence
    assert not set(sentence) & set("\x1b\x9b")


def test_pods_whose_long_names_begin_alike_have_a_state_file_each_and_each_is_found(tmp_path):
    """The name of the file holds only the beginning of a long one."""
    pods = [f"{'training-' * 9}{role}-0" for role in ("master", "worker")]
    for pod in pods:
        at = place_of(
            {"HOSTNAME": pod}, "host", mounted_log_exists=False, here=tmp_path, log_dir=tmp_path
        )
        own_state(Path(at.state_file), job_id=f"of-{pod}")
    assert len(list(tmp_path.glob("*.json"))) == len(pods)
    for pod in pods:
        assert named("--log-dir", str(tmp_path), "status", environ={"HOSTNAME": pod}) == f"of-{pod}"
