"""--warm through whole jobs: what starts warm, what does not and why, and that nothing is left.

``TABLE_SECONDS=10`` completes the rank table so late; the imports take three quarters of that.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from ascend_supervisor.workers.standby import ANSWER_SECONDS, KILLED
from ascend_supervisor.workers.standbys import LOOK_SECONDS, TOO_EARLY
from tests.cluster.test_kubeflow_pods import TWO_NPUS
from tests.running import Running, wait_until

TABLE_SECONDS = float(os.environ.get("TABLE_SECONDS", "6"))
BUSY_SECONDS = 90.0
"""Standbys give way, also to the other tests of a busy machine."""
NO_DELAY = ("--restart-delay", "0", "--release-delay", "0", "--min-uptime", "0")
AS_PID_1 = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
TRAINS = """
import large
import os, sys, time
def line(step):
    print(f" iteration {step:8d}/      60 | consumed samples: 16 | elapsed time per iteration "
        f"(ms): 20.0 | lm loss: 2.382640E+00 |", flush=True)
print("rank", os.environ["RANK"], sys.argv[1:], *sorted({*sys.modules} & {"large"}), flush=True)
line(1)
generation = os.environ["TORCHELASTIC_RESTART_COUNT"]
if generation in os.environ.get("FAILING", "0"):
    while not os.path.exists("fail" + generation):
        time.sleep(0.02)
    os._exit(3)
"""
LARGE = "import os, time; print('large for', os.environ['RANK'], flush=True); time.sleep(0.3)"


@pytest.fixture
def place(tmp_path):
    """Where the script is; ``large`` is an installed package."""
    packages = tmp_path / "env" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "large.py").write_text(LARGE)
    return tmp_path


def train(place: Path) -> list[str]:
    (place / "train.py").write_text(TRAINS)
    return ["--", sys.executable, "train.py", "--lr", "1"]


def environ(place: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(place / "env" / "site-packages")}


def warm(
    supervised: Callable[..., Running], place: Path, *options: str, before: Sequence[str] = ()
) -> Running:
    return supervised(
        *("--standalone", "2", "--restarts", "1", "--warm", *NO_DELAY, *options),
        *train(place),
        environ=environ(place),
        before=before,
        deadline=BUSY_SECONDS,
    )


def fail(place: Path) -> None:
    """Generation 0 does."""
    (place / "fail0").touch()


@pytest.mark.parametrize("before", [(), AS_PID_1], ids=["", "1"])
def test_the_next_generation_starts_from_processes_that_have_made_their_imports(
    supervised, place, before
):
    job = warm(supervised, place, before=before)
    ready = job.wait_for("standbys.ready")
    assert ready["standbys"] == 2
    assert ready["seconds"] >= 0.6  # one after another
    assert ready["memory_bytes"] > 10_000_000
    assert "the next generation starts warm" in ready["msg"]
    fail(place)
    assert job.end() == 0
    cold, started = ([e["warm"] for e in job.all("process.started", generation=n)] for n in (0, 1))
    assert (cold, started) == ([False] * 2, [True] * 2)
    first, second = job.all("training.started")
    assert (first["warm"], second["warm"]) == (False, True)
    assert first["start_seconds"] >= 0.3 > second["start_seconds"]
    assert f"{second['start_seconds']:.1f} s after the warm start" in second["msg"]
    for rank in range(2):
        said = job.said(rank, generation=1)
        assert said[:2] == [f"large for {rank}", f"rank {rank} ['--lr', '1'] large"]
        assert f"large for {rank}" in job.log(rank).read_text()
    assert job.all("diagnostic") == []
    assert not job.survivors()


BUILT_FOR_AN_OLD_C_LIBRARY = """
import os, signal
for module, *names in (
    (os, "memfd_create", "pidfd_open", "preadv", "pwritev", "eventfd", "copy_file_range", "splice"),
    (os, "posix_spawn", "getrandom", "O_TMPFILE", "P_PIDFD", "MFD_CLOEXEC", "setns", "unshare"),
    (signal, "pidfd_send_signal"),
):
    for name in names:
        module.__dict__.pop(name, None)
"""
"""As sitecustomize: the Pythons of conda lack these names, whatever the kernel has."""


def test_a_python_that_was_built_for_an_old_c_library_starts_warm_too(supervised, place):
    (place / "env" / "site-packages" / "sitecustomize.py").write_text(BUILT_FOR_AN_OLD_C_LIBRARY)
    job = warm(supervised, place)
    job.wait_for("standbys.ready")
    fail(place)
    assert job.end() == 0
    assert [e["warm"] for e in job.all("process.started", generation=1)] == [True] * 2
    assert job.all("diagnostic") == []


def test_without_restarts_left_none_is_made(supervised, place):
    job = warm(supervised, place, "--restarts", "0")
    job.wait_for("training.started")
    time.sleep(1.0)
    fail(place)
    assert job.end() == 3
    assert job.all("standbys.ready") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_none_is_left_by_a_supervisor_that_ends_or_is_killed(supervised, place, number):
    job = warm(supervised, place)
    job.wait_for("standbys.ready")
    assert len(standbys(job)) == 2
    job.send(number)
    job.end()
    wait_until(lambda: not job.survivors())


WAITS_IN_STANDBYS = """
import os, pathlib, time
print("before the word", flush=True)
if b"warm_rank.py" in pathlib.Path("/proc/self/cmdline").read_bytes():
    pathlib.Path("begun").touch()
    while not os.path.exists("go on"):
        time.sleep(0.01)
print("behind it", flush=True)
"""


def test_a_standby_that_is_still_making_its_imports_becomes_the_rank_all_the_same(
    supervised, place
):
    (place / "env" / "site-packages" / "large.py").write_text(WAITS_IN_STANDBYS)
    job = warm(supervised, place)
    job.wait_for("training.started")
    wait_until((place / "begun").exists)
    (made,) = standbys(job)
    fail(place)
    job.wait_for("process.started", generation=1, rank=1)
    (place / "go on").touch()
    assert job.end() == 0
    started = job.all("process.started", generation=1)
    assert [event["warm"] for event in started] == [False, False]
    assert started[0]["child_pid"] == made
    assert job.all("standbys.ready") == []
    assert not job.all("training.started", generation=1)[0]["warm"]
    assert job.said(0, generation=1)[:3] == [
        "before the word",
        "behind it",
        "rank 0 ['--lr', '1'] large",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take back that a process is nice")
def test_a_standby_gives_way_until_it_is_ready_and_then_it_is_as_a_rank(supervised, place):
    (place / "env" / "site-packages" / "large.py").write_text(f"{LARGE}; time.sleep(1)")
    job = warm(supervised, place, "--standalone", "1")
    nice = os.getpriority(os.PRIO_PROCESS, 0)

    def standing() -> tuple[int, str, int | None] | None:
        for pid in standbys(job):
            given = Path(f"/proc/{pid}/oom_score_adj").read_text()
            return os.getpriority(os.PRIO_PROCESS, pid), given, session_nice(pid)
        return None

    wait_until(lambda: standing() in {(19, "1000\n", 19), (19, "1000\n", None)})
    job.wait_for("standbys.ready")
    assert standing() in {(nice, "1000\n", session_nice("self") or 0), (nice, "1000\n", None)}
    job.send(signal.SIGTERM)
    assert job.end() == 143


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import os; f = open('/dev/ptmx')", "its imports have opened /dev/ptmx"),
        ("import subprocess as s; s.Popen(['sleep', '60'])", "its imports have started "),
        (
            "import socket as s; x = s.socket(); x.bind(('127.0.0.1', 0)); x.listen()",
            "its imports listen at port ",
        ),
        (
            "import os\nif b'warm_rank.py' in open('/proc/self/cmdline', 'rb').read(): os._exit(0)",
            "its imports have ended it",
        ),
    ],
)
def test_a_standby_that_holds_what_one_process_may_have_is_ended_and_ranks_start_cold(
    supervised, place, source, why
):
    (place / "env" / "site-packages" / "large.py").write_text(source)
    job = warm(supervised, place)
    told = job.wait_for("diagnostic", source="--warm")
    assert told["message"].startswith(f"rank 0 has no standby: {why}")
    fail(place)
    assert job.end() == 0
    assert [e["warm"] for e in job.all("process.started")] == [False] * 4
    assert not job.survivors()


@pytest.mark.parametrize("words", [("sh", "-c", "exec {} train.py"), ("./train.py",)])
def test_a_command_that_is_not_python_starts_cold_and_says_why(supervised, place, words):
    """A shebang is read by the kernel."""
    python = train(place)[1]
    (place / "train.py").write_text(f"#!{python}\n{TRAINS}")
    (place / "train.py").chmod(0o755)
    job = supervised(
        *("--standalone", "1", "--restarts", "1", "--warm", *NO_DELAY),
        *("--", *(word.format(python) for word in words)),
        environ=environ(place),
    )
    told = job.wait_for("diagnostic", source="--warm")
    assert told["message"] == (
        "rank 0 has no standby: COMMAND does not begin with python and a script or a module (-m)"
    )
    fail(place)
    assert job.end() == 0


def test_a_generation_that_fails_before_its_first_step_leaves_none_and_that_is_told(
    supervised, place
):
    fails = "import os, sys; sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] == '0')"
    (place / "fails.py").write_text(fails)
    job = supervised(
        *("--standalone", "2", "--restarts", "1", "--warm", *NO_DELAY),
        *("--", sys.executable, "fails.py"),
    )
    assert job.end() == 0
    (told,) = job.all("diagnostic", source="--warm")
    assert told["message"] == f"rank 0 has no standby: {TOO_EARLY}"
    assert [e["warm"] for e in job.all("process.started")] == [False] * 4


def test_a_variable_that_is_read_once_and_differs_makes_it_useless(supervised, place):
    job = warm(supervised, place, "--rank-env", "ASCEND_X={generation}")
    job.wait_for("standbys.ready")
    fail(place)
    assert job.end() == 0
    (told,) = job.all("diagnostic", source="--warm")
    assert told["message"] == (
        "rank 0 has no standby: it was started with another ASCEND_X, which is read only once"
    )
    assert [e["warm"] for e in job.all("process.started")] == [False] * 4


def test_standbys_that_no_longer_fit_are_replaced(supervised, place):
    given = ("--rank-env", "ASCEND_X={generation}", "--rank-env", "FAILING=01")
    job = warm(supervised, place, *given, "--restarts", "2")
    job.wait_for("standbys.ready")
    assert [variables(pid)["ASCEND_X"] for pid in standbys(job)] == ["0", "0"]
    fail(place)
    wait_until(lambda: len(job.all("standbys.ready")) == 2)
    assert [variables(pid)["ASCEND_X"] for pid in standbys(job)] == ["1", "1"]
    job.send(signal.SIGTERM)
    assert job.end() == 143


@pytest.mark.parametrize("library", [None, "libascendcl.so"])
def test_where_cann_logs_matters_to_a_standby_that_has_loaded_cann(supervised, place, library):
    if library is not None:
        ctypes.CDLL(ctypes.util.find_library("m"))
        maps = Path("/proc/self/maps").read_text().splitlines()
        shutil.copy(next(line.split()[-1] for line in maps if "/libm" in line), place / library)
        load = f"import ctypes; held = ctypes.CDLL({str(place / library)!r})"
        (place / "env" / "site-packages" / "large.py").write_text(load)
    job = warm(supervised, place, "--rank-env", "ASCEND_PROCESS_LOG_PATH={log_dir}/{generation}")
    job.wait_for("standbys.ready")
    fail(place)
    assert job.end() == 0
    assert [e["warm"] for e in job.all("process.started", generation=1)] == [not library] * 2


def test_a_standby_that_is_killed_is_told_and_its_rank_starts_cold(supervised, place):
    job = warm(supervised, place)
    job.wait_for("standbys.ready")
    os.kill(standbys(job)[0], signal.SIGKILL)
    assert job.wait_for("diagnostic")["message"].endswith(f"has no standby: {KILLED}")
    fail(place)
    assert job.end() == 0
    assert sorted(e["warm"] for e in job.all("process.started", generation=1)) == [False, True]


def test_a_standby_that_does_not_answer_is_told_and_its_rank_starts_cold(supervised, place):
    job = warm(supervised, place)
    job.wait_for("standbys.ready")
    stopped = standbys(job)[0]
    os.kill(stopped, signal.SIGSTOP)
    fail(place)
    assert job.end() == 0
    assert sorted(e["warm"] for e in job.all("process.started", generation=1)) == [False, True]
    assert job.all("diagnostic", source="--warm")[0]["message"].endswith("it does not answer")
    assert not job.survivors()


def test_a_standby_that_no_longer_answers_is_told_long_before_its_rank_would_wait(
    supervised, place
):
    job = warm(supervised, place)
    job.wait_for("standbys.ready")
    for standby in standbys(job):
        os.kill(standby, signal.SIGSTOP)
    told = job.wait_for("diagnostic", source="--warm")
    assert told["message"] == "rank 0 has no standby: it does not answer"
    wait_until(lambda: not standbys(job))
    fail(place)
    assert job.end() == 0
    assert [e["warm"] for e in job.all("process.started", generation=1)] == [False] * 2


def test_standbys_are_made_although_a_rank_has_stepped_before_all_have_started(supervised, place):
    job = warm(supervised, place, "--restarts", "2", "--rank-env", "FAILING=01")
    ready = job.each("standbys.ready")
    next(ready)
    (second,) = (one for one in standbys(job) if variables(one)["LOCAL_RANK"] == "1")
    os.kill(second, signal.SIGSTOP)  # its rank starts late
    fail(place)
    job.wait_for("process.started", generation=1, rank=1)
    (stepped,) = job.all("training.started", generation=1)
    assert stepped["seq"] < job.all("process.started", generation=1, rank=1)[0]["seq"]
    next(ready)
    (place / "fail1").touch()
    assert job.end() == 0
    assert [e["warm"] for e in job.all("process.started", generation=2)] == [True] * 2


def test_standbys_that_wait_for_long_are_still_warm(supervised, place):
    """They were asked more often than one may leave open."""
    job = warm(supervised, place)
    job.wait_for("standbys.ready")
    time.sleep(4 * LOOK_SECONDS)
    fail(place)
    assert job.end() == 0
    assert [e["warm"] for e in job.all("process.started", generation=1)] == [True] * 2
    assert job.all("diagnostic") == []


def test_ranks_start_warm_where_their_directory_is_named_by_a_link(supervised, place):
    (place / "real").mkdir()
    (place / "link").symlink_to("real")
    job = supervised(
        *("--standalone", "2", "--restarts", "1", "--warm", *NO_DELAY),
        *("--work-dir", str(place / "link")),
        *train(place)[:2],
        *(str(place / "train.py"), "--lr", "1"),
        environ=environ(place),
    )
    job.wait_for("standbys.ready")
    for rank in range(2):
        (place / "real" / f"device{rank}" / "fail0").touch()
    assert job.end() == 0
    assert [e["warm"] for e in job.all("process.started", generation=1)] == [True] * 2
    assert job.said(1, generation=1)[:2] == ["large for 1", "rank 1 ['--lr', '1'] large"]
    assert job.all("diagnostic") == []


def test_a_standby_that_cannot_be_the_rank_is_told_and_what_it_has_said_is_not(supervised, place):
    """What its imports have changed in the environment is another one in the next generation."""
    changes = "import os; print('large', flush=True); os.environ['X'] = 'changed'"
    (place / "env" / "site-packages" / "large.py").write_text(changes)
    job = warm(supervised, place, "--rank-env", "X={generation}")
    job.wait_for("standbys.ready")
    fail(place)
    assert job.end() == 0
    assert [e["warm"] for e in job.all("process.started", generation=1)] == [False] * 2
    assert [e["message"] for e in job.all("diagnostic", source="--warm")] == [
        "rank 0 has no standby: its imports have changed X, which is another one now"
    ]
    assert job.said(0, generation=1)[:2] == ["large", "rank 0 ['--lr', '1'] large"]


def test_a_standby_that_cannot_be_the_rank_costs_no_time_and_leaves_it_nothing_open(
    supervised, place
):
    """Each rank waited ANSWER_SECONDS, because the socket of its standby was open in the rank."""
    shows = "print([n for n in os.listdir('/proc/self/fd') if int(n) > 2][:-1], flush=True)"
    changes = "import os; os.environ['X'] = 'changed'"
    (place / "env" / "site-packages" / "large.py").write_text(changes)
    words = train(place)
    (place / "train.py").write_text(TRAINS.replace("line(1)", f"line(1); {shows}"))
    job = supervised(
        *("--standalone", "2", "--restarts", "1", "--warm", *NO_DELAY, "--rank-env"),
        *("X={generation}", *words),
        environ=environ(place),
        deadline=BUSY_SECONDS,
    )
    job.wait_for("standbys.ready")
    fail(place)
    assert job.end() == 0
    assert [e["warm"] for e in job.all("process.started", generation=1)] == [False] * 2
    assert "[]" in job.said(1, generation=1)
    begun, *_, last = (
        datetime.fromisoformat(e["ts"])
        for e in (*job.all("generation.started"), *job.all("process.started"))
        if e["generation"] == 1
    )
    assert (last - begun).total_seconds() < 2 * ANSWER_SECONDS


def test_standbys_that_are_of_no_use_end_as_soon_as_all_ranks_have_started(supervised, place):
    given = ("--rank-env", "ASCEND_X={generation}", "--rank-env", "FAILING=01")
    job = warm(supervised, place, *given)
    job.wait_for("standbys.ready")
    fail(place)
    job.wait_for("training.started", generation=1)
    wait_until(lambda: not standbys(job))
    assert job.all("generation.ended", generation=1) == []
    job.send(signal.SIGTERM)
    assert job.end() == 143


def test_standbys_end_with_the_first_request_to_stop(supervised, place):
    source = "import signal; signal.signal(signal.SIGTERM, lambda *_: print('heard', flush=True))"
    (place / "env" / "site-packages" / "large.py").write_text(source)
    job = warm(supervised, place, "--grace", "600")
    job.wait_for("standbys.ready")
    job.send(signal.SIGTERM)
    job.wait_for("output", msg="heard")
    wait_until(lambda: not standbys(job))
    assert job.all("process.exited") == []
    fail(place)
    assert job.end() == 143


@pytest.mark.skipif(os.geteuid() != 0, reason="a /dev of our own needs root")
@pytest.mark.parametrize("where", [(), ("--rank-dir", "same")], ids=["device", "same"])
def test_from_the_table_to_the_first_step_a_warm_start_takes_a_quarter_of_a_cold_one(
    supervised, place, where
):
    imports = f"import time; time.sleep({TABLE_SECONDS * 0.75})"
    (place / "env" / "site-packages" / "large.py").write_text(imports)
    (place / "train.py").write_text(ONE_STEP)
    table = place / "table.json"
    (devices := place / "devices").mkdir()
    before = ("unshare", "--mount", "sh", "-e", "-c", TWO_NPUS, "sh", str(devices))
    cold, job = (
        supervised(
            *("--rank-table", str(table), *warm, *where, *NO_DELAY),
            *("--", sys.executable, str(place / "train.py")),
            environ=environ(place),
            before=before,
            root=place / f"job{len(warm)}",
        )
        for warm in ((), ("--warm",))
    )
    until = time.monotonic() + TABLE_SECONDS
    assert job.wait_for("standbys.ready")["standbys"] == 2
    time.sleep(max(0.0, until - time.monotonic()))
    completed = time.time()
    (place / "new.json").write_text(TABLE)
    (place / "new.json").rename(table)
    assert first_step(job) - completed <= 0.25 * (first_step(cold) - completed)
    assert [job.end(), cold.end()] == [0, 0]
    assert [e["warm"] for e in job.all("process.started")] == [True] * 2
    assert not job.all("diagnostic")


def standbys(job: Running) -> list[int]:
    return [int(one.split()[0]) for one in job.survivors() if "warm_rank.py" in one]


def variables(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def session_nice(who: int | str) -> int | None:
    """Of its autogroup (sched(7)); None if it has none, as the first session has."""
    path = Path(f"/proc/{who}/autogroup")
    words = path.read_text().split() if path.exists() else []
    return int(words[-1]) if words else None


def first_step(job: Running) -> float:
    """When it was told (time.time)."""
    told: str = job.wait_for("training.started")["ts"]
    return datetime.fromisoformat(told.replace("Z", "+00:00")).timestamp()


ONE_STEP = """
import large
print(" iteration        1/      60 | elapsed time per iteration (ms): 20.0 |", flush=True)
"""
TABLE = """{"version": "1.0", "status": "completed", "server_count": "1", "server_list": [
{"server_id": "127.0.0.1", "device": [
{"device_id": "0", "device_ip": "10.0.0.1", "rank_id": "0"},
{"device_id": "1", "device_ip": "10.0.0.2", "rank_id": "1"}]}]}"""
