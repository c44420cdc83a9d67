"""What is refused before a rank is started, as whoever started us hears of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.test_operator import SCHEDULER
from tests.rank_tables import INTERLEAVED, TEMPLATE_1, data
from tests.running import DEADLINE_SECONDS, python, wait_until


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_scheduler_pod_beside_a_table_starts_no_ranks_of_another_pod(supervised, tmp_path, check):
    table = tmp_path / "hccl.json"
    table.write_bytes(data(TEMPLATE_1))
    words = ("--rank-table", str(table), "--method", "ranktable")
    job = supervised(*check, *words, *python("pass"), environ=SCHEDULER)
    assert job.end() == 64
    assert job.stderr.count("MS_ROLE=MS_SCHED") == 1
    assert [event["event"] for event in job.events] == ["supervisor.exited"]


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_pod_of_several_does_not_train_alone(supervised, check):
    environ = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
    job = supervised(*check, "--standalone", "1", *python("pass"), environ=environ)
    assert job.end() == 64
    assert job.stderr.count("WORLD_SIZE=16 with LOCAL_WORLD_SIZE=8") == 1
    assert [event["event"] for event in job.events] == ["supervisor.exited"]


@pytest.mark.parametrize("words", [(), ("--check",), ("--method", "once")], ids=str)
def test_a_cluster_that_keeps_ranks_itself_is_not_followed(supervised, words):
    environ = {"PROCESS_RECOVER": "on", "HIGH_AVAILABILITY": "dump,recover"}
    job = supervised("--follow-cluster", *words, *python("print('ran')"), environ=environ)
    assert job.end() == 64
    assert "PROCESS_RECOVER='on', by ClusterD, TaskD and MindIO; HIGH_" in job.stderr
    assert [event["event"] for event in job.events] == ["supervisor.exited"]


@pytest.mark.parametrize(
    "words",
    [
        ("--restarts", "three", "--", "true"),
        ("--check", "--standalone", "1", "--", "no-such-program"),
        ("--standalone", "1", "--method", "torchrun", "--", "true"),
        ("--standalone", "1", "--", "source", "set_env.sh"),
    ],
    ids=["a setting", "a plan", "a cluster", "a command"],
)
def test_a_refusal_is_told_where_console_says(supervised, tmp_path, words):
    """For people, once: on stdout."""
    environ = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"} if "torchrun" in words else {}
    with (tmp_path / "stdout").open("wb") as stdout:
        job = supervised("--console", "text", *words, environ=environ, stdout=stdout.fileno())
        code = job.end()
    (line,) = (tmp_path / "stdout").read_text().splitlines()
    assert line.endswith(f"; ending with exit code {code}")
    assert job.stderr == ""


@pytest.mark.parametrize(
    "words",
    [("--restarts", "three", "--", "true"), ("--standalone", "1", "--", "no-such-program")],
    ids=["before the start", "at the start"],
)
def test_a_refusal_is_told_once_where_stderr_is_stdout(tmp_path, words):
    with (tmp_path / "both").open("wb") as both:
        subprocess.run(
            [sys.executable, "-m", "ascend_supervisor", "--log-dir", str(tmp_path), *words],
            stdout=both,
            stderr=both,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
    events = [json.loads(line) for line in (tmp_path / "both").read_text().splitlines()]
    assert events[-1]["event"] == "supervisor.exited"


@pytest.mark.parametrize("check", [(), ("--check",)])
@pytest.mark.parametrize("method", ["msrun", "mindspore"])
def test_a_word_that_says_neither_table_nor_none_is_refused_by_name(supervised, check, method):
    words = (*check, "--standalone", "1", "--method", method, "--", "python", "train.py")
    job = supervised(*words, environ={"MS_RANKTABLE_ENABLE": "yes"})
    assert job.end() == 64
    assert job.stderr.count("MS_RANKTABLE_ENABLE: expected True") == 1


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["a run", "a plan"])
@pytest.mark.parametrize("option", ["--log-dir", "--work-dir"])
@pytest.mark.parametrize("below", ["", "logs/here"])
def test_a_file_where_a_directory_is_needed_is_refused_by_its_option(
    supervised, tmp_path, option, below, check
):
    (tmp_path / "file").touch()
    named = tmp_path / "file" / below
    job = supervised("--standalone", "1", option, str(named), *check, "--", "true")
    assert job.end() == 73
    assert job.stderr.splitlines() == [
        (
            f"ascend_supervisor: {option} {named}: expected a directory, found that "
            f"{tmp_path / 'file'} is not one; name another one with {option}"
        )
    ]


READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["a run", "a plan"])
@pytest.mark.parametrize("below", ["", "logs/here"])
def test_a_log_directory_that_cannot_be_written_is_refused_at_once(
    supervised, tmp_path, below, check
):
    if os.geteuid():
        pytest.skip("a read-only mount needs root")
    place = tmp_path / "read-only"
    place.mkdir()
    named = place / below
    before = ("unshare", "--mount", "sh", "-c", READ_ONLY, str(place))
    options = ("--standalone", "1", "--log-dir", str(named), *check)
    job = supervised(*options, "--", "true", before=before)
    assert job.end() == 73
    assert job.stderr.splitlines() == [
        (
            f"ascend_supervisor: --log-dir {named}: expected a directory, found that user 0 can "
            "neither write to it nor make it: Read-only file system; name another one with "
            "--log-dir"
        )
    ]
    assert [event["event"] for event in job.events] == ["supervisor.exited"]


@pytest.mark.parametrize("word", ["python3 train.py", "/usr/bin/python3 train.py"])
def test_a_command_in_one_word_is_told_from_a_program(supervised, word):
    job = supervised("--standalone", "2", "--", word)
    assert job.end() == 127
    (line,) = job.stderr.splitlines()
    assert line == (
        f"ascend_supervisor: rank 0: '{word}' is one word and no program; it looks like a whole "
        f"command: write it without quotes (-- {word}), or -- bash -c '{word}' if a shell is to "
        "read it"
    )


def test_a_word_before_the_dashes_that_no_option_takes_is_told_for_what_it_was_taken(supervised):
    job = supervised("--standalone", "all", "--", "python", "train.py")
    assert job.end() == 127
    (line,) = job.stderr.splitlines()
    assert line.startswith("ascend_supervisor: rank 0: 'all' was not found in PATH (")
    assert line.endswith("is no value of an option, so it was taken for the command")


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["a run", "a plan"])
@pytest.mark.parametrize("method", ["ranktable", "once"])
@pytest.mark.parametrize(
    "words",
    [("two", "--console", "text", "--log-dir=logs"), ("two", "ranks", "--check")],
    ids=["values", "words"],
)
def test_a_command_that_begins_among_our_options_is_told_with_its_first_word(
    supervised, words, method, check
):
    """``--standalone`` takes a number or nothing, so the command begins at ``two``."""
    options = ("--method", method, *check) + (() if method == "once" else ("--standalone",))
    job = supervised(*options, *words, "--", "python3", "x.py")
    assert job.end() == 64
    (line,) = job.stderr.splitlines()
    assert line.startswith("ascend_supervisor: COMMAND begins at 'two', which was not found in")
    assert f"{words[-1].partition('=')[0]} behind it is an option of the supervisor" in line
    assert not job.all("generation.started")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sh", "-c", "exit 3", "--console", "text", "--", "x"), 3),
        (("--", "no-such-program", "--nnodes=1", "--standalone", "--", "x.py"), 127),
        (("--", "no-such-program", "--lr", "1", "--", "x.py"), 127),
        (("--", "no-such-program", "--standalone"), 127),
        (("./no-such-program", "--standalone", "--", "x.py"), 127),
    ],
)
def test_a_command_may_have_options_like_ours_and_dashes(supervised, words, code):
    job = supervised("--method", "once", *words)
    assert job.end() == code
    assert "COMMAND begins" not in job.stderr


@pytest.mark.parametrize("method", ["torchrun", "msrun", "mpirun"])
def test_a_launcher_that_is_not_installed_is_one_sentence_and_127(supervised, tmp_path, method):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "setsid").symlink_to("/usr/bin/setsid")
    (programs / "python").write_text("#!/bin/sh\n")
    (programs / "python").chmod(0o755)
    words = ("--standalone", "1", "--method", method, "--", "python", "train.py")
    job = supervised(*words, environ={"PATH": str(programs), "HOME": str(tmp_path)})
    assert job.end() == 127
    assert not job.all("process.started")
    (sentence,) = job.stderr.splitlines()
    assert method in sentence
    assert "was not found in PATH" in sentence
    assert ("nor in its packages; name the one that has it" in sentence) == (method != "mpirun")


def test_where_no_table_is_the_wait_and_the_refusal_name_the_places(supervised, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "ranks.json").write_bytes(data(TEMPLATE_1))
    environ = {"RANK_TABLE_FILE": str(tmp_path / "config")}
    job = supervised("--rank-table-timeout", "0.5", *python("pass"), environ=environ)
    assert job.end() == 75
    told = (
        f"there is no such file; looked for {tmp_path}/config/jobstart_hccl.json or "
        f"{tmp_path}/config/hccl.json (the directory holds 'ranks.json'); no variables of Ascend "
        "Operator or Kubeflow are set either (WORLD_SIZE, MS_ROLE, CM_WORKER_SIZE, "
        "PET_NNODES); without a cluster, use --standalone"
    )
    assert job.wait_for("rank_table.waiting")["reason"] == told
    assert told in job.events[-1]["reason"]
    assert job.stderr.count(told) == 1


def test_warnings_about_a_table_are_in_the_event_and_in_the_plan(supervised, tmp_path):
    table = tmp_path / "hccl.json"
    table.write_bytes(data(INTERLEAVED))
    words = ("--rank-table", str(table), "--node-rank", "0", *python("pass"))
    with (tmp_path / "plan").open("wb") as plan:
        planned = supervised("--check", *words, stdout=plan.fileno())
        assert planned.end() == 0
    job = supervised(*words, environ={"MASTER_ADDR": "127.0.0.1"})
    assert job.end() == 0
    ready = job.wait_for("rank_table.ready")
    assert ready["level"] == "warning"
    (warning,) = ready["warnings"]
    assert "ranks that interleave" in warning
    assert ready["msg"].endswith(warning)
    assert json.loads((tmp_path / "plan").read_bytes())["rank_table"]["warnings"] == [warning]


TRAIN_START = """\
#!/bin/bash
set -e
if [ $# -lt 1 ]; then echo "usage: $0 SCRIPT"; exit 1; fi
torchrun --nproc_per_node=4 "$@" 2>&1 | tee train.log
"""


@pytest.mark.parametrize("check", [(), ("--check",)])
@pytest.mark.parametrize(
    "words", [("bash", "start.sh"), ("./start.sh",), ("timeout", "9", "./start.sh")]
)
def test_a_shell_script_that_starts_a_launcher_is_no_rank(supervised, tmp_path, words, check):
    """Each of the four ranks would start four."""
    script = tmp_path / "start.sh"
    script.write_text(TRAIN_START)
    script.chmod(0o755)
    command = (*words, "train.py")
    job = supervised(*check, "--standalone", "4", "--", *command)
    assert job.end() == 64
    assert f"found {words[-1]}, a shell script that calls torchrun, which " in job.stderr
    assert job.stderr.count(f"start it once, with --method once -- {' '.join(command)}") == 1
    assert "process.started" not in [event["event"] for event in job.events]


REFUSED: tuple[tuple[int, tuple[str, ...], dict[str, str]], ...] = (
    (64, ("--restarts", "three", "--standalone", "1", "--", "true"), {}),
    (64, ("--", "source", "set_env.sh"), {}),
    (64, ("--standalone", "1"), {}),
    (64, ("--standalone", "1", "--", "true"), {"ASCEND_SUPERVISOR_GRACE": "long"}),
    (64, ("--config", "nowhere.toml", "--", "true"), {}),
    (73, ("--standalone", "1", "--log-dir", os.devnull, "--", "true"), {}),
    (65, ("--rank-table", "wrong.json", "--rank-table-timeout", "9", "--", "true"), {}),
)


@pytest.mark.parametrize("is_there", [True, False], ids=["empty", "missing"])
@pytest.mark.parametrize(("code", "words", "environ"), REFUSED)
def test_kubelet_reads_why_a_start_was_refused(
    supervised, tmp_path, code, words, environ, is_there
):
    (tmp_path / "wrong.json").write_text('{"status": "completed", "version": "1.0"}')
    log = tmp_path / "termination-log"
    if is_there:
        log.touch()
    job = supervised("--termination-log", str(log), *words, environ=environ)
    assert job.end() == code
    assert log.read_text() == f"{job.events[-1]['root_cause']}\n"


def test_kubelet_reads_it_where_a_variable_names_the_file(supervised, tmp_path):
    log = tmp_path / "termination-log"
    environ = {"ASCEND_SUPERVISOR_TERMINATION_LOG": str(log)}
    job = supervised("--restart", "1", "--", "true", environ=environ)
    assert job.end() == 64
    assert "--restart" in log.read_text()


@pytest.mark.parametrize(
    "words", [("--restarts", "three", "--", "true"), ("--", "no-such-program")]
)
def test_a_question_leaves_the_termination_log_alone(supervised, tmp_path, words):
    log = tmp_path / "termination-log"
    log.touch()
    options = ("--check", "--standalone", "1", "--termination-log", str(log))
    assert supervised(*options, *words).end() in {64, 127}
    assert log.read_text() == ""


def test_a_second_start_does_not_overwrite_what_the_first_has_told(supervised, tmp_path):
    log = tmp_path / "termination-log"
    words = ("--standalone", "1", "--termination-log", str(log))
    assert supervised(*words, "--", "sh", "-c", "exit 3").end() == 3
    told = log.read_text()
    assert "exited with status 3" in told
    assert supervised(*words, "--restarts", "three", "--", "true").end() == 64
    assert log.read_text() == told


def test_of_two_starts_that_are_refused_the_second_is_told(supervised, tmp_path):
    """Its exit code is that of the container."""
    log = tmp_path / "termination-log"
    log.touch()
    if not has_attributes(log):
        pytest.skip("this file system has no extended attributes")
    words = ("--standalone", "1", "--termination-log", str(log))
    for wrong in (("--restarts", "three"), ("--log-dir", os.devnull), ("--grace", "x")):
        job = supervised(*words, *wrong, "--", "true")
        assert job.end() in {64, 73}
        assert log.read_text() == f"{job.events[-1]['root_cause']}\n"
    with log.open("a") as file:
        file.write("the user's own words")
    told = log.read_text()
    assert supervised(*words, "--restarts", "three", "--", "true").end() == 64
    assert log.read_text() == told


def has_attributes(path: Path) -> bool:
    try:
        os.setxattr(path, "user.test", b"")
    except OSError:
        return False
    return True


@pytest.mark.parametrize("code", [64, 69])
def test_a_second_start_leaves_the_file_to_the_one_that_runs(supervised, tmp_path, code):
    log = tmp_path / "termination-log"
    log.touch()
    gate = tmp_path / "gate"
    words = ("--standalone", "1", "--termination-log", str(log))
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    first = supervised(*words, "--", "sh", "-c", wait)
    first.wait_for("process.started")
    wrong = ("--restarts", "three") if code == 64 else ()
    assert supervised(*words, *wrong, "--", "true").end() == code
    assert log.read_text() == ""
    gate.touch()
    assert first.end() == 0
    assert log.read_text() == ""


@pytest.mark.parametrize("signal_number", [0, signal.SIGKILL], ids=["a success", "a kill"])
def test_what_was_told_before_a_later_job_is_not_told_after_it(supervised, tmp_path, signal_number):
    """Of the starts in a container the last one that ran a job counts."""
    log = tmp_path / "termination-log"
    words = ("--standalone", "1", "--termination-log", str(log))
    assert supervised(*words, "--", "sh", "-c", "exit 3").end() == 3
    later = supervised(*words, "--", "sleep", "9" if signal_number else "0")
    later.wait_for("process.started")
    if signal_number:
        wait_until(lambda: not log.read_text())
        later.process.send_signal(signal_number)
    assert later.end() == (128 + signal_number if signal_number else 0)
    assert log.read_text() == ""
    assert supervised(*words, "--restarts", "three", "--", "true").end() == 64
    assert "--restarts" in log.read_text()
