"""The command line, and what only a process of its own shows: streams, signals, memory, imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_supervisor import __version__
from ascend_supervisor.ctl.arguments import command_line
from ascend_supervisor.ctl.commands import COMMANDS
from tests import rank_tables
from tests.ctl.calling import ENVIRON, PROGRAM, own_state, process, rank_of, refused
from tests.rank_tables import LAB, TWELVE_PODS
from tests.running import DEADLINE_SECONDS

MEMORY_KIB = 150_000
LARGE_BYTES = 192 * 1024 * 1024


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ((), "no command"),
        (("dance",), "dance"),
        (("status", "--jso"), "--jso"),
        (("logs", "first"), "first"),
        (("logs", "-1"), "-1"),
        (("logs", "9" * 30), "999"),
        (("logs", "3-1"), "3-1"),
        (("logs", "all"), "all"),
        (("logs", "--tail", "-1"), "-1"),
        (("logs", "--tail", "9" * 10), "999"),
        (("stop", "--grace", "soon"), "soon"),
        (("restart", "now"), "now"),
        (("check-table",), "FILE"),
        (("convert", "a", "b"), "b"),
        (("status", "--state-file"), "--state-file"),
    ],
)
def test_a_bad_command_line_gives_64(arguments, about):
    assert about in refused(64, *arguments)


@pytest.mark.parametrize(
    ("words", "told", "usage"),
    [
        (["statsu"], "statsu is not known; did you mean status?", "[--log-dir DIR] COMMAND ..."),
        (["status", "--wtach"], "--wtach is not known; did you mean --watch?", "status [-h] "),
        (["--jsn", "status"], "--jsn is not known; did you mean --json?", "status [-h] "),
        (["stop", "--grace"], "argument --grace: expected one argument", "stop [-h] [--grace S]"),
        (["x"], "x is not known; expected one of status, health, ", "[-h] [--version] "),
        (["dump", "3"], "3 is not known; see ascend-supervisorctl dump --help", "dump [-h] "),
    ],
)
def test_a_bad_command_line_is_told_with_the_nearest_name_and_the_usage(words, told, usage):
    sentence, line = process(*words).stderr.splitlines()
    assert sentence.startswith(f"ascend-supervisorctl: {told}")
    assert line.startswith("ascend-supervisorctl: usage: ascend-supervisorctl ")
    assert usage in line


def test_the_help_names_every_command_and_the_version_is_ours():
    found = process("--help")
    assert found.returncode == 0
    for command in COMMANDS.keys() - {"", "version"}:
        assert command in found.stdout
        assert process(command, "--help").returncode == 0
    assert process("--version").stdout == f"ascend-supervisorctl {__version__}\n"


def test_the_installed_program_is_the_module():
    program = Path(sys.executable).with_name("ascend-supervisorctl")
    found = subprocess.run(
        [program, "--version"], capture_output=True, timeout=DEADLINE_SECONDS, check=True
    )
    assert found.stdout.decode().split() == ["ascend-supervisorctl", __version__]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("probe", ["health", "ready"])
def test_a_probe_imports_no_event_loop_and_nothing_that_it_does_not_use(tmp_path, probe, named):
    ranks = [rank_of(tmp_path / "log")]
    path = own_state(tmp_path / "job-supervisor-pod-0.json", ranks=ranks)
    environ = {"ASCEND_SUPERVISOR_LOG_DIR": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ascend_supervisor.ctl", probe],
        env=environ | ({"ASCEND_SUPERVISOR_STATE_FILE": str(path)} if named else {}),
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
        text=True,
    )
    assert found.returncode == 0
    modules = {line.rpartition("|")[2].strip() for line in found.stderr.splitlines()}
    imported = {name.split(".")[0] for name in modules}
    assert "ascend_supervisor" in imported
    assert not imported & {"anyio", "asyncio", "structlog", "tempfile", "watchfiles"}
    assert "ascend_supervisor.processes.secrets" not in modules
    assert not {name for name in modules if name.startswith("ascend_supervisor.events.")} - {
        "ascend_supervisor.phrases"
    }
    only_to_find = {"ascend_supervisor.job_files", "ascend_supervisor.settings.precedence"}
    assert modules & only_to_find == (set() if named else only_to_find)


@pytest.mark.parametrize("probe", ["health", "ready"])
def test_a_probe_prepares_no_other_command_and_is_refused_as_any(probe):
    everything, own = command_line(), command_line(probe)
    assert set(own.commands) == {probe} < set(everything.commands)
    assert own.of(probe).format_help() == everything.of(probe).format_help()
    assert "--state-fil is not known; did you mean --state-file?" in refused(
        64, probe, "--state-fil", "x"
    )


def test_a_table_may_come_over_stdin():
    table = rank_tables.data(TWELVE_PODS).decode()
    assert "template 2" in process("check-table", "-", input=table).stdout


def test_a_table_over_stdin_that_is_not_completed_gives_75():
    found = process("convert", "-", input="")
    assert (found.returncode, found.stdout) == (75, "")
    assert "on stdin is not ready" in found.stderr


@pytest.mark.parametrize("command", ["check-table", "convert"])
def test_a_full_disk_under_stdout_gives_73(tmp_path, command):
    (tmp_path / "table").write_bytes(rank_tables.data(LAB))
    with Path("/dev/full").open("wb") as full:
        found = process(command, str(tmp_path / "table"), stdout=full)
    assert found.returncode == 73
    assert found.stderr == (
        "ascend-supervisorctl: stdout cannot be written: No space left on device\n"
    )


def test_following_without_a_stdout_gives_73_though_there_is_nothing_to_print_yet(tmp_path):
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log")])
    closed = ("sh", "-c", 'exec "$@" >&-', "sh")
    found = process("logs", "-f", "--state-file", str(path), before=closed)
    assert found.returncode == 73
    assert found.stderr == "ascend-supervisorctl: stdout cannot be written: Bad file descriptor\n"


@pytest.mark.parametrize("rank", [[], ["0"], ["0", "--tail", "5"]])
def test_a_log_larger_than_the_memory_is_printed(tmp_path, rank):
    with (tmp_path / "log").open("wb") as log:
        log.truncate(LARGE_BYTES)
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log")])
    limit = ("sh", "-c", f'ulimit -v {MEMORY_KIB}; exec "$@"', "sh")
    with Path(os.devnull).open("wb") as nowhere:
        arguments = ("logs", *rank, "--state-file", str(path))
        assert process(*arguments, before=limit, stdout=nowhere).returncode == 0


@pytest.fixture
def following(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """``logs -f``, which has printed what there is."""
    (tmp_path / "log").write_text("one\n")
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log")])
    with subprocess.Popen(
        [*PROGRAM, "logs", "-f", "--state-file", str(path)],
        env=ENVIRON,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "[rank 0] one\n"
        yield process
        process.kill()


def test_following_ends_quietly_when_nobody_reads_even_if_nothing_comes(following):
    following.stdout.close()
    assert following.wait(DEADLINE_SECONDS) == -signal.SIGPIPE
    assert following.stderr.read() == ""


def test_following_ends_quietly_on_ctrl_c(following):
    following.send_signal(signal.SIGINT)
    assert following.wait(DEADLINE_SECONDS) == -signal.SIGINT
    assert following.stderr.read() == ""
