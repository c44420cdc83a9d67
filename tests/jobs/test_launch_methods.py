"""What a job may rely on, whatever the launch method: ends, signals, restarts, logs, nobody left.

The launchers are the real ones. What they start is a small script that needs no framework.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor.settings.options import METHODS as ALL
from tests.running import HIDE, Event, Running, wait_until

SCRIPT = """\
import os, signal, subprocess, sys, time

if os.environ.get("MS_ROLE") == "MS_SCHED":
    time.sleep(1)
    sys.exit(0)
names = ("RANK_ID", "RANK", "OMPI_COMM_WORLD_RANK")
rank = int(next(filter(None, map(os.environ.get, names)), 0))


def say(*words):
    line = " ".join(map(str, words)) + "\\n"
    os.write(1, line.encode())  # at once: a launcher's ranks share a pipe


say("rank", rank, "begins")
"""
STAY = SCRIPT + "while True: time.sleep(600)\n"


@dataclass(frozen=True)
class Method:
    """``ranks`` are those that it starts for two devices; ``program`` is what is no rank.

    ``knows_ranks``: it tells which rank has failed.
    """

    name: str
    ranks: tuple[int, ...] = (0, 1)
    program: str | None = None
    knows_ranks: bool = True

    @property
    def failing(self) -> int:
        """The rank that fails in tests of a failure."""
        return self.ranks[-1]

    @property
    def culprit(self) -> str:
        """Its name in the root cause."""
        return f"rank {self.failing}" if self.knows_ranks else str(self.program)


METHODS = {
    "ranktable": Method("ranktable"),
    "torchrun": Method("torchrun", program="torchrun"),
    "msrun": Method("msrun", program="msrun"),
    "mpirun": Method("mpirun", program="mpirun"),
    "mindspore": Method("mindspore", program="the scheduler"),
    "torch-ddp": Method("torch-ddp", ranks=(0,)),
    "tensorflow": Method("tensorflow", ranks=(0,)),
    "once": Method("once", ranks=(0,), program="the command", knows_ranks=False),
}
WITH_WORKERS = frozenset({"torchrun", "msrun", "mpirun", "once"})
"""What we start starts the ranks."""
WITH_ERROR_FILES = METHODS.keys() - {"msrun", "mpirun", "once"}
"""Their ranks are told where to write what they raise."""
WITH_DRAIN = {"ranktable", "mindspore"}
"""Several ranks, which only we end after a failure."""
MARKS = {"torchrun": pytest.mark.e2e, "msrun": pytest.mark.e2e_mindspore}
"""Of those whose launcher comes with a package that is installed beside this interpreter."""

Start = Callable[..., Running]


def test_every_method_is_tested():
    assert METHODS.keys() == set(ALL)


def of(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=MARKS.get(name, ())) for name in METHODS if name in names]


@pytest.fixture(params=of(METHODS))
def method(request: pytest.FixtureRequest) -> Method:
    name = str(request.param)
    launcher = Path(sys.executable).with_name(name)
    if name in MARKS and not launcher.exists():
        pytest.skip(f"{launcher} is not installed")
    if name == "mpirun" and shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed (Debian's package openmpi-bin)")
    return METHODS[name]


@pytest.fixture
def train(method: Method, supervised: Start, tmp_path: Path) -> Start:
    """``train(script, *options)`` runs it with two devices."""

    def start(script: str, *options: str, **more: Any) -> Running:
        path = tmp_path / "train.py"
        path.write_text(script)
        words = ("--standalone", "2", "--method", method.name, "--release-delay", "0")
        command = ("--", sys.executable, str(path), str(tmp_path))
        return supervised(*words, *options, *command, deadline=60.0, **more)

    return start


def lines(job: Running) -> list[str]:
    return [event["msg"] for event in job.all("output")]


def wait_for_line(job: Running, line: str) -> None:
    job.wait_for("output", msg=line)


def last(job: Running) -> Event:
    return job.events[-1]


def test_a_job_that_ends_well(train, method):
    job = train(SCRIPT)
    assert job.end() == 0
    assert set(lines(job)) >= {f"rank {rank} begins" for rank in method.ranks}
    assert [event["outcome"] for event in job.all("generation.ended")] == ["completed"]
    assert {event["program"] for event in job.all("process.started")} == {
        method.program,
        *([] if method.name in WITH_WORKERS else [None]),
    }
    assert not job.survivors()


def test_what_is_said_is_in_the_logs(train, method):
    job = train(SCRIPT)
    assert job.end() == 0
    logs = {Path(event["log"]) for event in job.all("process.started")}
    assert all(log.parent == job.log_dir and log.suffix == ".txt" for log in logs)
    workers = job.log_dir.glob("*/msrun/node_0/generation_0/worker_*.log")
    text = "".join(log.read_text() for log in [*logs, *workers])
    for rank in method.ranks:
        assert f"rank {rank} begins\n" in text


def test_the_steps_of_the_ranks_are_told(train, method):
    line = "f' iteration {step:8d}/      40 | elapsed time per iteration (ms): 20.0 |'"
    says = f"    if rank == {method.failing}: say({line})"
    job = train(f"{SCRIPT}for step in range(1, 41):\n    time.sleep(0.02)\n{says}\n")
    assert job.end() == 0
    (started,) = job.all("training.started")
    assert (started["step"], started["format"]) == (1, "megatron")
    assert job.all("training.progress")[-1]["step"] == 40
    assert [event["step"] for event in job.all("generation.ended")] == [40]
    assert last(job)["account"]["training"] > 0.5


@pytest.mark.parametrize(
    ("act", "code", "how"),
    [
        ("sys.exit(7)", 7, "it exited with status 7"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "it was killed by SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139, "it was killed by SIGSEGV"),
    ],
)
def test_a_failure_is_that_of_the_rank(train, method, act, code, how):
    job = train(f"{SCRIPT}if rank == {method.failing}: say('my last word'); {act}\n{STAY}")
    assert job.end() == code
    cause = last(job)["root_cause"]
    assert cause.startswith(f"{method.culprit} failed first, in generation 0: {how}")
    assert "\n  my last word" in cause
    told = method.failing if method.knows_ranks else None
    assert job.all("generation.ended")[0]["first_failed_rank"] == told
    assert not job.survivors()


@pytest.mark.parametrize("method", of(WITH_ERROR_FILES), indirect=True)
def test_what_a_rank_raised_is_told(train, method):
    raising = (
        "import json\n"
        f"if rank == {method.failing}:\n"
        "    path = os.environ.get('TORCHELASTIC_ERROR_FILE') or sys.exit('no file')\n"
        "    json.dump({'message': {'message': 'ValueError: bad shape'}}, open(path, 'w'))\n"
        "    sys.exit(1)\n"
    )
    job = train(SCRIPT + raising + STAY)
    assert job.end() == 1
    assert "\nit raised: ValueError: bad shape\n" in last(job)["root_cause"]
    assert last(job)["root_cause"].startswith(f"{method.culprit} failed first")


def test_a_restart_starts_all_anew(train, method):
    once = (
        "first = f'{sys.argv[1]}/{rank}'\n"
        "if not os.path.exists(first):\n"
        "    open(first, 'w').close()\n"
        f"    while not all(os.path.exists(f'{{sys.argv[1]}}/{{n}}') for n in {method.ranks}):\n"
        "        time.sleep(0.01)\n"
        "    time.sleep(0.2)\n"
        "    sys.exit(3)\n"
    )
    job = train(SCRIPT + once, "--restarts", "1", "--restart-delay", "0")
    assert job.end() == 0
    for rank in method.ranks:
        assert lines(job).count(f"rank {rank} begins") == 2
    ends = [(event["outcome"], event["next"]) for event in job.all("generation.ended")]
    assert ends == [("crashed", "restart"), ("completed", "stop")]


@pytest.mark.parametrize("method", of(WITH_DRAIN), indirect=True)
def test_the_others_have_the_drain_after_a_failure(train, method):
    job = train(
        f"{SCRIPT}if rank == 1: time.sleep(0.2); sys.exit(4)\n"
        "time.sleep(1)\nsay('dumped')\nsys.exit(2)\n",
        *("--drain", "600"),
    )
    assert job.end() == 4
    assert "dumped" in lines(job)


def test_the_plan_says_what_is_run(method, tmp_path):
    train = tmp_path / "train.py"
    train.touch()
    options = ("--standalone", "2", "--method", method.name, "--check", "--log-dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "ascend_supervisor", *options, "--", sys.executable, str(train)],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        timeout=60,
    )
    processes = json.loads(done.stdout)["processes"]
    ranks = [process["rank"] for process in processes if process["rank"] is not None]
    assert ranks == ([] if method.name in WITH_WORKERS else list(method.ranks))
    assert all(str(train) in process["argv"] for process in processes)


SAVES = (
    SCRIPT
    + """
def save(*_):
    say("rank", rank, "saves")
    time.sleep(0.3 + 2 * rank)
    say("rank", rank, "has saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
say("rank", rank, "is ready")
while True: time.sleep(0.05)  # a signal just before a sleep does not end it
"""
)


@pytest.mark.parametrize("hides", [False, True], ids=["", "as setproctitle does"])
def test_told_to_stop_ranks_have_the_grace(train, method, hides):
    job = train(SAVES.replace("def save", f"{HIDE}\n\ndef save") if hides else SAVES)
    for rank in method.ranks:
        wait_for_line(job, f"rank {rank} is ready")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    for rank in method.ranks:
        assert f"rank {rank} has saved" in lines(job)
    assert not job.survivors()


def test_ranks_that_ignore_sigterm_are_killed_after_the_grace(train, method):
    job = train(
        f"{SCRIPT}signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsay('deaf', rank)\n"
        "while True: time.sleep(600)\n",
        *("--grace", "0.5"),
    )
    for rank in method.ranks:
        wait_for_line(job, f"deaf {rank}")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert not job.survivors()


def test_nobody_who_left_his_session_is_left(train, method):
    job = train(
        f"{SCRIPT}subprocess.Popen(['setsid', 'sleep', '600'])\n"
        f"subprocess.Popen(['sleep', '601'])\n"
        f"if rank == {method.failing}: time.sleep(0.2); sys.exit(5)\n"
        "while True: time.sleep(600)\n"
    )
    assert job.end() == 5
    assert not job.survivors()


def test_a_signal_of_the_users_goes_to_the_ranks(train, method):
    job = train(
        f"{SCRIPT}signal.signal(signal.SIGUSR1, lambda *_: say('checkpoint', rank))\n"
        "say('listens', rank)\n"
        "while True: time.sleep(0.05)\n"
    )
    for rank in method.ranks:
        wait_for_line(job, f"listens {rank}")
    job.send(signal.SIGUSR1)
    for rank in method.ranks:
        wait_for_line(job, f"checkpoint {rank}")
    job.send(signal.SIGTERM)
    assert job.end() == 143


@pytest.mark.skipif(os.geteuid() != 0, reason="a supervisor that is killed is swept for by root")
def test_no_rank_outlives_a_supervisor_that_is_killed(train, method):
    job = train(STAY)
    for rank in method.ranks:
        wait_for_line(job, f"rank {rank} begins")
    job.send(signal.SIGKILL)
    assert job.end() == 137
    wait_until(lambda: not job.survivors())
