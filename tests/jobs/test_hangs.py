"""Hung jobs, from outside: noticed, told, ended, and started again or given up with 124.

A rank has a minute for its start, so that a slow machine is not taken for a hang.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.control.asking import ask_job, socket_of
from tests.running import Running, begins_in_python, python, wait_until

Start = Callable[..., Running]

LIMITS = ("--hang-timeout", "1", "--startup-timeout", "60")
BEGIN = "import os, signal, sys, time\nrank = os.environ.get('RANK')\nos.write(1, b'begun\\n')\n"
READS = BEGIN + "os.read(os.pipe()[0], 1)"
COMPUTES = BEGIN + "end = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
WAITS_FOR_A_LOCK = (
    BEGIN + "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()"
)
IN_UNINTERRUPTIBLE_SLEEP = (
    BEGIN + "fifo = f'never-opened-{rank}'\nos.mkfifo(fifo)\n"
    # The parent waits in vfork until its child has executed; the child waits before that.
    "opens = [(os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)]\n"
    "os.posix_spawn('/bin/true', ['true'], {}, file_actions=opens)"
)


def spoken(job: Running) -> str:
    """Why it ended, as the last event says it."""
    return str(job.events[-1]["root_cause"])


@pytest.mark.parametrize("source", [READS, COMPUTES, WAITS_FOR_A_LOCK, IN_UNINTERRUPTIBLE_SLEEP])
def test_a_job_whose_ranks_are_all_silent_ends_with_124_and_says_why(supervised, source):
    job = supervised("--standalone", "2", *LIMITS, "--grace", "2", *python(source))
    assert job.end() == 124
    (hang,) = job.all("hang.noticed")
    assert hang["source"] == "silence"
    assert (set(hang["ranks"]), hang["last_lines"]) == ({0, 1}, ["begun", "begun"])
    assert hang["reason"].startswith(
        "no rank on this server has written anything for 1 s (--hang-timeout)"
    )
    assert spoken(job).startswith(hang["reason"])
    assert "; if the ranks were only slow, raise the limit; if not, look " in job.events[-1]["msg"]
    assert [end["outcome"] for end in job.all("generation.ended")] == ["fault"]
    assert not job.survivors()


def test_a_rank_in_uninterruptible_sleep_is_one(supervised):
    """The case above is what it says."""
    job = supervised("--standalone", "1", "--grace", "0", *python(IN_UNINTERRUPTIBLE_SLEEP))
    pid = job.wait_for("process.started")["child_pid"]
    wait_until(lambda: " D " in Path(f"/proc/{pid}/stat").read_text())
    job.send(signal.SIGTERM)
    assert job.end() == 143


def test_one_silent_rank_is_noticed_while_the_others_write(supervised):
    source = (
        BEGIN + "if rank == '1': os.kill(os.getpid(), signal.SIGSTOP)\n"
        "while True:\n    os.write(1, b'step\\n')\n    time.sleep(0.1)"
    )
    job = supervised(
        *("--standalone", "3", "--rank-hang-timeout", "5", "--startup-timeout", "60"),
        *python(source),
    )
    assert job.end() == 124
    (hang,) = job.all("hang.noticed")
    assert (hang["source"], hang["ranks"]) == ("rank_silence", [1])
    assert spoken(job).startswith(
        "rank 1 has written nothing for 5 s (--rank-hang-timeout); the last sign of life of another"
    )
    assert not job.survivors()


def test_ranks_that_begin_late_are_waited_for(supervised):
    source = "import time\ntime.sleep(2.5)\nprint('compiled')"
    job = supervised("--standalone", "2", *LIMITS, *python(source))
    assert job.end() == 0
    assert job.all("hang.noticed") == []


def test_a_rank_that_never_begins_ends_the_job(supervised):
    source = "import os, time\nwhile True:\n    os.environ['RANK'] == '0' and os.write(1, b'.')\n"
    source += "    time.sleep(0.1)"
    job = supervised("--standalone", "2", "--startup-timeout", "8", *python(source))
    assert job.end() == 124
    assert spoken(job).startswith(
        "rank 1 has not given a sign of life within 8 s of its start (--startup-timeout)"
    )


def test_without_a_limit_for_the_start_the_others_count_from_it(supervised):
    job = supervised(
        "--standalone", "1", "--hang-timeout", "1", *python("import time; time.sleep(600)")
    )
    assert job.end() == 124
    (hang,) = job.all("hang.noticed")
    assert hang["last_lines"] == [""]


def test_a_watchdog_that_hears_nothing_ends_the_job_although_ranks_write(supervised):
    source = BEGIN + "while True:\n    os.write(1, b'step\\n')\n    time.sleep(0.1)"
    job = supervised("--standalone", "2", "--watchdog", "2", *python(source))
    assert job.end() == 124
    assert spoken(job).startswith("ranks 0, 1 have not sent WATCHDOG=1 for 2 s (--watchdog)")


def test_a_hung_generation_is_followed_by_another_at_the_cost_of_a_restart(supervised):
    source = BEGIN + "os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and time.sleep(600)"
    job = supervised(
        *("--standalone", "2", "--restarts", "1", "--restart-delay", "0", *LIMITS), *python(source)
    )
    assert job.end() == 0
    assert len(job.all("hang.noticed")) == 1
    assert job.all("restart.scheduled")[0]["restarts_left"] == 0
    assert [end["outcome"] for end in job.all("generation.ended")] == ["fault", "completed"]


def test_a_spent_budget_gives_the_code_and_the_cause(supervised):
    job = supervised(
        *("--standalone", "1", "--restarts", "1", "--restart-delay", "0", *LIMITS), *python(READS)
    )
    assert job.end() == 124
    assert [hang["generation"] for hang in job.all("hang.noticed")] == [0, 1]
    assert "the restart budget of 1 is used up" in job.events[-1]["reason"]
    assert spoken(job).startswith("rank 0 has not written anything for 1 s (--hang-timeout)")
    (record,) = job.log_dir.glob("*-supervisor-*.json")
    assert json.loads(record.read_text())["root_cause"] == spoken(job)


def test_a_drain_is_not_taken_for_a_hang(supervised):
    """Rank 0 writes a last checkpoint, for longer than it may be silent."""
    source = BEGIN + "if rank == '1': sys.exit(3)\ntime.sleep(4)\nprint('saved')"
    job = supervised("--standalone", "2", "--drain", "600", *LIMITS, *python(source))
    assert job.end() == 3
    assert job.all("hang.noticed") == []
    assert "saved" in job.said(0)


def test_a_grace_is_not_taken_for_a_hang(supervised):
    source = BEGIN + (
        "def save(*_):\n    time.sleep(3)\n    os.write(1, b'saved\\n')\n    os._exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\nos.write(1, b'ready\\n')\n"
        "while True:\n    os.write(1, b'step\\n')\n    time.sleep(0.1)"
    )
    job = supervised("--standalone", "1", *LIMITS, *python(source))
    job.wait_for("output", msg="ready")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert job.all("hang.noticed") == []
    assert "saved" in job.said(0)


# Ranks that a launcher starts.

LAUNCHER = """{begins}
import os, subprocess, sys
logs = [word.partition("=")[2] for word in sys.argv if word.startswith("--log_dir=")]
workers = [
    subprocess.Popen(
        [sys.executable, "-c", {source!r}],
        env={{**os.environ, "RANK_ID": str(rank), "RANK": str(rank)}},
        stdout=open(f"{{logs[0]}}/worker_{{rank}}.log", "wb") if {has_logs} else None,
        start_new_session=True,
    )
    for rank in range(2)
]
sys.exit(max(worker.wait() for worker in workers))
"""
"""As torchrun and msrun do it: workers that lead sessions; those of msrun have logs."""


@pytest.fixture
def launched(supervised: Start, tmp_path: Path) -> Start:
    """``launched(method, source, *options)``: our own launcher of this name, with two workers."""

    def start(method: str, source: str, *options: str) -> Running:
        program = tmp_path / method
        has_logs = method == "msrun"
        program.write_text(
            LAUNCHER.format(begins=begins_in_python(), source=source, has_logs=has_logs)
        )
        program.chmod(0o755)
        (tmp_path / "train.py").touch()
        words = ("--standalone", "2", "--method", method, *options, "--", "train.py")
        return supervised(*words, environ={"PATH": f"{tmp_path}:{os.environ['PATH']}"})

    return start


@pytest.mark.parametrize(("method", "lines"), [("torchrun", 1), ("msrun", 2)])
def test_a_launchers_workers_that_are_silent_hang(launched, method, lines):
    job = launched(method, READS, *LIMITS)
    assert job.end() == 124
    (hang,) = job.all("hang.noticed")
    assert (set(hang["ranks"]), hang["last_lines"]) == ({0, 1}, ["begun"] * lines)
    assert not job.survivors()


@pytest.mark.parametrize("method", ["torchrun", "msrun"])
def test_a_launcher_that_is_stopped_hangs_although_its_workers_have_ended(launched, method):
    source = BEGIN + (
        "time.sleep(1)\n"  # until they were seen
        "os.kill(os.getppid(), signal.SIGSTOP)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    job = launched(method, source, "--hang-timeout", "3", "--startup-timeout", "60")
    assert job.end() == 124
    (hang,) = job.all("hang.noticed")
    assert (hang["source"], hang["ranks"]) == ("silence", [])
    reason = spoken(job)
    assert reason.startswith(f"{method} has not written anything for 3 s (--hang-timeout); ")
    assert f"; {method} is stopped (state T)" in reason
    assert not job.survivors()


def test_a_worker_that_is_silent_is_told_from_one_that_has_ended(launched):
    source = BEGIN + (
        "if rank == '0': sys.exit(0)\n"
        "for _ in range(80):\n    os.write(1, b'step\\n')\n    time.sleep(0.1)\n"
        "os.kill(os.getpid(), signal.SIGSTOP)"
    )
    options = ("--rank-hang-timeout", "5", "--startup-timeout", "60")
    job = launched("msrun", source, *options)
    assert job.end() == 124
    (hang,) = job.all("hang.noticed")
    assert (hang["source"], hang["ranks"]) == ("rank_silence", [1])


def test_a_command_whose_ranks_are_unknown_hangs_as_a_whole(supervised):
    job = supervised("--standalone", "2", "--method", "once", *LIMITS, *python(READS))
    assert job.end() == 124
    (hang,) = job.all("hang.noticed")
    assert (hang["ranks"], hang["last_lines"]) == ([], ["begun"])
    assert spoken(job).startswith("the command has not written anything for 1 s (--hang-timeout)")


NOTIFIES = (
    "import os, socket, time\n"
    "def notify(text, address=os.environ['NOTIFY_SOCKET']):\n"
    "    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:\n"
    "        name = address if address[0] == '/' else '\\0' + address[1:]\n"
    "        sender.sendto(text.encode(), name)\n"
)


@pytest.mark.parametrize("rank", [None, "0"])
def test_a_command_of_which_no_rank_is_known_notifies_for_itself(supervised, rank):
    source = NOTIFIES + "for _ in range(70):\n    notify('WATCHDOG=1')\n    time.sleep(0.1)"
    job = supervised(
        *("--standalone", "--method", "once", "--watchdog", "5", "--startup-timeout", "60"),
        *python(source),
        environ={} if rank is None else {"RANK": rank},
    )
    assert job.end() == 0
    assert not job.all("hang.noticed")


def test_ranks_that_never_print_are_no_hang_while_another_one_does(supervised):
    source = (
        "import os, time\n"
        "for _ in range(100):\n"
        "    os.environ['RANK'] == '0' and os.write(1, b'step\\n')\n    time.sleep(0.1)"
    )
    job = supervised(
        *("--standalone", "2", "--hang-timeout", "60", "--startup-timeout", "8"), *python(source)
    )
    assert job.end() == 0
    assert not job.all("hang.noticed")


IGNORES_SIGTERM = (
    "import os, signal\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.write(1, b'begun\\n')\n"
    "os.read(os.pipe()[0], 1)"
)


def test_a_hang_is_the_root_cause_of_a_job_that_is_stopped_while_it_is_ended(supervised):
    job = supervised("--standalone", "2", *LIMITS, "--grace", "3", *python(IGNORES_SIGTERM))
    job.wait_for("hang.noticed")
    assert "hangs: no rank" in wait_for_why(job)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert spoken(job).startswith("no rank on this server has written anything for 1 s")


def test_stacks_can_be_asked_for_while_the_job_is_stopped(supervised):
    job = supervised("--standalone", "2", "--grace", "20", *python(IGNORES_SIGTERM))
    for rank in (0, 1):
        job.wait_for("output", rank=rank, msg="begun")
    assert ask_job(job, "stop")["ok"]
    # Right after their line, the ranks may still run instead of waiting.
    seen = ask_job(job, "dump")["summary"]
    assert "ranks" in seen
    assert "<string>:" in seen
    assert ask_job(job, "stop", grace=0)["ok"]
    assert job.end() == 143


def state_file_of(job: Running) -> Path:
    return Path(str(socket_of(job)).removesuffix(".sock"))


def wait_for_why(job: Running) -> str:
    """Why the job is in its phase, as the state file says it during a hang."""
    found: list[str] = []

    def look() -> bool:
        found.append(json.loads(state_file_of(job).read_text())["why"])
        return "hangs" in found[-1]

    wait_until(look)
    return found[-1]


ONE_TELLS = """
import os, time
if os.environ["RANK"] == "1":
    for step in range(1, 16):
        print(f" iteration {step:8d}/      40 | lm loss: 2.382640E+00 |", flush=True)
        time.sleep(0.1)
time.sleep(600)
"""
"""As with Megatron-LM, only the last rank prints, and then all of them hang."""


def test_a_rank_that_never_prints_is_not_said_to_have_stopped_first(supervised):
    job = supervised("--standalone", "2", "--hang-timeout", "3", *python(ONE_TELLS))
    assert job.end() == 124
    hang = job.all("hang.noticed")[0]
    assert hang["silent_seconds"] >= 4
    assert hang["reason"] == (
        "no rank on this server has written anything for 3 s (--hang-timeout)"
    )
    assert "stopped first" not in job.events[-1]["msg"]
