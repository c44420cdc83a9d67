"""``--env-from`` in a whole job: what ranks get, and what becomes of a file that fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_supervisor.program.sourced_files import CANN, without_cann
from tests.jobs.test_users_environment import shows, told
from tests.running import Running, wait_until


def file_of(tmp_path: Path, text: str, name: str = "set_env.sh") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_ranks_get_what_the_files_change_one_after_the_other(supervised, tmp_path):
    first = file_of(tmp_path, "export A=1 B='two\nlines'\nunset GONE\n", "first.sh")
    file_of(tmp_path, "export A=$A$A C=$PWD\n", "second.sh")
    options = ("--standalone", "1", "--env-from", first, "--env-from", "second.sh")
    job = supervised(*options, *shows("A", "B", "C", "GONE"), environ={"GONE": "1"})
    assert told(job) == ["11", "two\nlines", str(tmp_path), None]


def test_what_wins(supervised, tmp_path):
    """A file counts as inherited: the launcher wins over it, and --rank-env over both."""
    file = file_of(tmp_path, "export HCCL_CONNECT_TIMEOUT=60 RANK=9 X=file\n")
    options = ("--standalone", "1", "--env-from", file, "--rank-env", "X=user")
    job = supervised(*options, *shows("HCCL_CONNECT_TIMEOUT", "RANK", "X"), environ={"X": "ours"})
    assert told(job) == ["60", "0", "user"]


def test_the_command_is_looked_up_where_the_file_says(supervised, tmp_path):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "only-there"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    file = file_of(tmp_path, f"export PATH={tmp_path}/bin:$PATH\n")
    job = supervised("--standalone", "1", "--env-from", file, "--", "only-there")
    assert job.end() == 0, job.stderr
    assert job.said(0) == ["found"]


def test_a_file_cannot_hide_ranks_from_their_supervisor(supervised, tmp_path):
    file = file_of(tmp_path, "unset ASCEND_SUPERVISOR_OWNER\n")
    options = ("--standalone", "1", "--env-from", file)
    (owner,) = told(supervised(*options, *shows("ASCEND_SUPERVISOR_OWNER")))
    assert owner


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_file_that_fails_is_told_with_the_end_of_its_output(supervised, tmp_path, check):
    file = file_of(tmp_path, "echo no toolkit here >&2\nreturn 3\n")
    job = supervised(*check, "--standalone", "1", "--env-from", file, "--", "true")
    assert job.end() == 64
    sentence = f"--env-from {file}: it ended with status 3; its last output: no toolkit here"
    assert job.stderr == f"ascend_supervisor: {sentence}\n"
    assert not job.all("process.started")


def missing(tmp_path: Path) -> Path:
    return tmp_path / "nosuch.sh"


def below_a_file(tmp_path: Path) -> Path:
    return Path(file_of(tmp_path, "")) / "set_env.sh"


def directory(tmp_path: Path) -> Path:
    return tmp_path


def loop_of_links(tmp_path: Path) -> Path:
    link = tmp_path / "link.sh"
    link.symlink_to(link)
    return link


@pytest.mark.parametrize(
    ("named", "fault"),
    [
        (missing, "there is no such file"),
        (below_a_file, "there is no such file"),
        (directory, "it is a directory; name the shell file in it"),
        (loop_of_links, "it cannot be read: Too many levels of symbolic links"),
    ],
)
def test_a_file_that_bash_could_not_read_is_refused(supervised, tmp_path, named, fault):
    file = named(tmp_path)
    job = supervised("--standalone", "1", "--env-from", str(file), "--", "true")
    assert job.end() == 64
    assert job.stderr == f"ascend_supervisor: --env-from {file}: {fault}\n"


def test_a_file_without_permission_to_read_is_refused(supervised, tmp_path):
    file = Path(file_of(tmp_path, ""))
    file.chmod(0)
    without_privileges = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    before = () if os.geteuid() else without_privileges
    job = supervised("--standalone", "1", "--env-from", str(file), "--", "true", before=before)
    assert job.end() == 64
    sentence = f"--env-from {file}: it cannot be read: Permission denied for user {os.geteuid()}"
    assert job.stderr == f"ascend_supervisor: {sentence}\n"


def test_a_process_that_leaves_the_session_is_ended_before_the_ranks_start(supervised, tmp_path):
    pid = tmp_path / "pid"
    away = f"setsid sh -c 'echo $$ >{pid}; exec sleep 600' & until [ -s {pid} ]; do :; done\n"
    file = file_of(tmp_path, away)
    source = "import os, sys; print(os.path.exists(f'/proc/{open(sys.argv[1]).read().strip()}'))"
    words = ("--", sys.executable, "-c", source, str(pid))
    job = supervised("--standalone", "1", "--env-from", file, *words)
    assert job.end() == 0, job.stderr
    assert job.said(0) == ["False"]


AS_PID_1 = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
HIDDEN = """\
(env -i setsid sh -c 'echo $$ >new; mv new pid; while :; do sleep 0.05; done' </dev/null &)
until [ -e pid ]; do sleep 0.05; done
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace needs root")
def test_as_pid_1_a_process_that_hides_is_ended_and_told(supervised, tmp_path):
    """It has left the session and lost our mark, and other orphans are not ours."""
    file = file_of(tmp_path, HIDDEN)
    source = "import os, sys; print(os.path.exists(f'/proc/{open(sys.argv[1]).read().strip()}'))"
    words = ("--env-from", file, "--", sys.executable, "-c", source, str(tmp_path / "pid"))
    job = supervised("--standalone", "1", *words, before=AS_PID_1)
    assert job.end() == 0, job.stderr
    assert job.said(0) == ["False"]
    (told,) = job.all("diagnostic", source="--env-from")
    assert told["message"].startswith(f"{file}: it left processes, which were killed; ")


def test_the_output_of_a_file_is_a_diagnostic_and_with_check_on_stderr(supervised, tmp_path):
    file = file_of(tmp_path, "echo no driver >&2\n")
    sentence = f"--env-from: {file}: it succeeded, and its last output is: no driver"
    job = supervised("--standalone", "1", "--env-from", file, "--", "true")
    assert job.end() == 0
    assert job.wait_for("diagnostic")["msg"] == sentence
    with (tmp_path / "plan").open("wb") as plan:
        options = ("--check", "--standalone", "1", "--env-from", file)
        job = supervised(*options, "--", "true", stdout=plan.fileno())
        assert job.end() == 0
    assert job.stderr == f"ascend_supervisor: {sentence}\n"


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_signal_ends_the_wait_and_what_the_file_started(supervised, tmp_path, check):
    file = file_of(tmp_path, f"sleep 601 &\ntouch {tmp_path}/runs\nsleep 602\n")
    job: Running = supervised(*check, "--standalone", "1", "--env-from", file, "--", "true")
    wait_until((tmp_path / "runs").exists)
    job.send(signal.SIGTERM)
    assert job.end() == 143, job.stderr
    assert not job.all("process.started")
    assert job.survivors() == []


def waits_for(path: Path) -> str:
    return f"until [ -e {path} ]; do sleep 0.05; done\n"


def test_a_slow_file_is_reported_once(supervised, tmp_path):
    file = file_of(tmp_path, waits_for(tmp_path / "go") + "export A=1\n")
    job: Running = supervised("--standalone", "1", "--env-from", file, *shows("A"))
    slow = job.wait_for("diagnostic", source="--env-from")
    (tmp_path / "go").touch()
    assert slow["message"] == f"{file} has not ended after 5 s; it is killed after 60 s"
    assert told(job) == ["1"]
    assert job.all("diagnostic", source="--env-from") == [slow]


def test_a_slow_file_is_reported_by_the_check_too(supervised, tmp_path):
    file, stderr = file_of(tmp_path, waits_for(tmp_path / "go")), tmp_path / "stderr"
    words = ("--check", "--standalone", "1", "--env-from", file, "--", "true")
    job = supervised(*words, before=("sh", "-c", 'exec "$@" >/dev/null 2>"$0"', str(stderr)))
    slow = f"--env-from: {file} has not ended after 5 s; it is killed after 60 s"
    wait_until(lambda: stderr.exists() and slow in stderr.read_text())
    (tmp_path / "go").touch()
    assert job.end() == 0
    assert stderr.read_text() == f"ascend_supervisor: {slow}\n"


def test_killing_the_supervisor_ends_the_file_and_what_it_started(supervised, tmp_path):
    file = file_of(tmp_path, f"setsid sleep 601 &\ntouch {tmp_path}/runs\nsleep 602\n")
    job: Running = supervised("--standalone", "1", "--env-from", file, "--", "true")
    wait_until((tmp_path / "runs").exists)
    job.send(signal.SIGKILL)
    assert job.end() == 137
    wait_until(lambda: not job.survivors())


def test_the_plan_shows_what_ranks_get(supervised, tmp_path):
    file = file_of(tmp_path, "export ASCEND_HOME_PATH=/cann\nunset GONE\n")
    with (tmp_path / "plan").open("wb") as plan:
        options = ("--check", "--standalone", "1", "--env-from", file)
        job = supervised(*options, "--", "true", stdout=plan.fileno(), environ={"GONE": "1"})
        assert job.end() == 0, job.stderr
    (process,) = json.loads((tmp_path / "plan").read_text())["processes"]
    assert process["environment"]["ASCEND_HOME_PATH"] == "/cann"
    assert process["environment"]["GONE"] is None


# Where CANN is installed, and nobody names it.


def test_cann_that_nobody_names_is_told(tmp_path):
    set_env = Path(file_of(tmp_path, ""))
    hint = without_cann((), {"LD_LIBRARY_PATH": "/usr/lib"}, set_env)
    assert hint is not None
    assert hint.endswith(f"give --env-from {set_env}")
    assert without_cann((), {}, set_env) == hint


def test_nothing_is_told_where_it_is_named_or_not_there(tmp_path):
    set_env = Path(file_of(tmp_path, ""))
    assert without_cann((), {"LD_LIBRARY_PATH": "/x:/opt/Ascend/lib64"}, set_env) is None
    assert without_cann((tmp_path / "other.sh",), {}, set_env) is None
    assert without_cann((), {}, tmp_path / "none") is None


INSTALLED = """
mount -t tmpfs none /mnt
mkdir -p /mnt/up/Ascend/ascend-toolkit /mnt/work
: >/mnt/up/Ascend/ascend-toolkit/set_env.sh
mount -t overlay -o lowerdir=/usr/local,upperdir=/mnt/up,workdir=/mnt/work none /usr/local
exec "$@"
"""
WITH_CANN = ("unshare", "--mount", "sh", "-ec", INSTALLED, "sh")


@pytest.mark.parametrize("given", [(), ("--env-from", str(CANN))], ids=["not named", "named"])
def test_the_hint_follows_the_first_event(supervised, given):
    if subprocess.run((*WITH_CANN, "true"), check=False, capture_output=True).returncode:
        pytest.skip("no file can be put into /usr/local here")
    job = supervised("--standalone", "1", *given, "--", "true", before=WITH_CANN)
    assert job.end() == 0, job.stderr
    hints = job.all("diagnostic", source="CANN")
    assert hints == ([] if given else [job.events[1]])
