"""The invariants of docs/ARCHITECTURE.md that need processes, by their numbers there.

1, 2 and 11 are held by test_architecture.py.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path, PurePath
from shutil import which

import pytest

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.job_files import place_of
from ascend_supervisor.launchers import Here
from ascend_supervisor.settings.options import METHODS
from ascend_supervisor.settings.precedence import Settings, read_settings
from tests.job_settings import launcher
from tests.running import DEADLINE_SECONDS, python, seconds_between

OURS = re.compile(rb"^\[ascend_supervisor\] [^\n]*\n", re.MULTILINE)

FORKS = """
import os, signal, subprocess, sys, time
HOLD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
hold = [sys.executable, "-c", HOLD, os.environ["TEST_CASE_MARK"]]
subprocess.Popen(hold)                              # stays in the process group
subprocess.Popen(hold, start_new_session=True)      # leaves it
if os.fork() == 0:                                  # a daemon, forked twice
    os.setsid()
    if os.fork() == 0:
        os.execv(hold[0], hold)
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""
HIDES = 'subprocess.Popen(["setsid", "env", "-i", *hold])\n'
"""Leaves its session, and has no mark of ours in its environment."""
SAYS_SO = 'print("forked", flush=True)\n'
ESCAPES = FORKS + HIDES + SAYS_SO
WAIT = "import time; time.sleep(600)"


# 3. When run_generation returns, nothing that the ranks started is left.


@pytest.mark.parametrize("last_words", ["os._exit(0)", "os._exit(3)", WAIT])
def test_3_nothing_is_left_whatever_the_ranks_forked(supervised, last_words):
    options = ("--standalone", "2", "--drain", "600", "--grace", "0.5")
    job = supervised(*options, *python(ESCAPES + last_words))
    for rank in range(2):
        job.wait_for("output", rank=rank, msg="forked")
    if last_words == WAIT:
        job.send(signal.SIGTERM)
    assert job.end() == {"os._exit(0)": 0, "os._exit(3)": 3, WAIT: 143}[last_words]
    assert not job.survivors()
    assert not naming(job.mark)


def test_3_nothing_of_a_generation_is_left_when_the_next_one_starts(supervised):
    source = f"""
import os, pathlib
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    exec({ESCAPES!r})
    os._exit(1)
mine, left = os.environ["TEST_CASE_MARK"].encode(), 0
for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        left += mine in (process / "cmdline").read_bytes()
    except OSError:  # a stranger that has just ended
        pass
print("left:", left, flush=True)
"""
    options = ("--restarts", "1", "--restart-delay", "0", "--grace", "0.2")
    job = supervised("--standalone", "1", *options, *python(source))
    assert job.end() == 0
    assert job.said(0, 1) == ["left: 0"]
    # One is surely out of its group by then; the others may still be in it when TERM comes.
    assert job.wait_for("orphans.killed")["count"] >= 1


LEAVES_THREE = """
import os, signal, sys, time
def leave(words, *, escapes):
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        if escapes:
            os.setsid()
        saves = lambda *_: (os.write(1, words), os._exit(0))
        signal.signal(signal.SIGTERM, saves if words else signal.SIG_IGN)
        os.write(write_end, b"!")
        while True:
            time.sleep(600)
    os.read(read_end, 1)
leave(b"saved\\n", escapes=False)
leave(b"", escapes=False)
leave(b"escaped\\n", escapes=True)
"""


def test_3_what_a_rank_leaves_in_its_group_has_the_grace_of_a_rank(supervised):
    """What has left the group has none."""
    job = supervised("--standalone", "1", "--grace", "0.5", *python(LEAVES_THREE))
    assert job.end() == 0
    assert job.said(0) == ["saved"]
    (ended,) = job.all("grace.ended")
    assert len(ended["remaining"]) == 1
    (killed,) = job.all("orphans.killed")
    assert killed["count"] == 1


def naming(mark: str) -> list[str]:
    """Processes that name the case in their command line: ``env -i`` has hidden their mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


# 4. A rank never waits for what makes no progress.

TALK = "import os, sys\nfor _ in range(400): os.write(1, b'x' * 65535 + b'\\n')\n"


def test_4_a_rank_does_not_wait_for_a_stdout_that_nobody_reads(supervised, tmp_path):
    read_end, write_end = os.pipe()
    job = supervised("--standalone", "1", *python(TALK), stdout=write_end)
    os.close(write_end)
    log = job.log(0)
    end = time.monotonic() + DEADLINE_SECONDS
    while not log.exists() or log.stat().st_size < 400 * 65536:
        assert time.monotonic() < end
        time.sleep(0.05)
    lines = b""
    while piece := os.read(read_end, 1 << 20):
        lines += piece
    os.close(read_end)
    assert job.end() == 0
    assert b'"event":"output.dropped"' in lines
    assert b'"event":"supervisor.exited"' in lines


def test_4_a_rank_does_not_wait_for_a_log_that_blocks(supervised, tmp_path):
    fifo = tmp_path / "modelarts" / "log" / "modelarts-job-test-proc-rank-0-device-0.txt"
    fifo.parent.mkdir(parents=True)
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    job = supervised("--standalone", "1", *python(TALK))
    assert job.end() == 0
    os.close(reader)
    exited = job.wait_for("process.exited", rank=0)
    assert exited["runtime_seconds"] < DEADLINE_SECONDS
    assert job.wait_for("log.blocked", rank=0)["reason"] == "a write has not returned for 5 s"
    assert sum(event["bytes"] for event in job.all("log.lost", rank=0)) > 0


def test_4_a_full_disk_stops_no_rank_and_the_log_says_how_much_is_missing(supervised, small_disk):
    source = (
        "import os, pathlib, sys, time\n"
        "for _ in range(200): os.write(1, b'x' * 65535 + b'\\n')\n"
        "print('all written', file=open(sys.argv[1] + '/../written', 'w'), flush=True)\n"
        "while not os.path.exists(sys.argv[1] + '/../room'): time.sleep(0.01)\n"
        "print('after')\n"
    )
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        file.write(b"x" * (3 << 20))
    job = supervised(
        *("--standalone", "1", "--log-dir", str(small_disk), "--console", "json"),
        *python(source),
        str(small_disk),
    )
    wait_until((small_disk.parent / "written").exists)
    assert job.wait_for("log.blocked", rank=0)["reason"] == "No space left on device"
    # Space comes back: rotated files make room for what is in the buffer.
    ballast.unlink()
    (small_disk / "modelarts-job-test-proc-rank-0-device-0.txt").write_bytes(b"")
    job.wait_for("log.lost", rank=0)
    (small_disk.parent / "room").touch()
    assert job.end() == 0
    lost = sum(event["bytes"] for event in job.all("log.lost", rank=0))
    assert 0 < lost <= 200 * 65536
    text = (small_disk / "modelarts-job-test-proc-rank-0-device-0.txt").read_bytes()
    assert b"bytes are missing here: No space left on device" in text
    assert text.endswith(b"after\n")


def test_4_a_log_directory_that_is_removed_is_made_again(supervised):
    source = (
        "import os, shutil, sys\n"
        "print('before', flush=True); sys.stdin.close()\n"
        "os.path.exists(sys.argv[1]) or os._exit(9)\n"
        "while os.path.exists(sys.argv[1]): shutil.rmtree(sys.argv[1], ignore_errors=True)\n"
        "print('after', flush=True)"
    )
    job = supervised("--standalone", "1", "--log-dir", "logs", *python(source), "logs")
    assert job.end() == 0
    text = (job.root / "logs" / job.log(0).name).read_text()
    assert text.endswith("after\n")


def wait_until(true) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# 5. No byte that a rank wrote before its end is missing from its log.


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_5_every_byte_is_in_the_log(supervised, ending):
    source = (
        "import hashlib, os, random\n"
        "rank = int(os.environ['RANK']); dice = random.Random(rank); told = hashlib.sha256()\n"
        "for _ in range(60):\n"
        "    block = dice.randbytes(dice.randrange(1, 1 << 18)); told.update(block)\n"
        "    while block: block = block[os.write(1, block):]\n"
        "open(os.path.join(os.getcwd(), 'sha256'), 'w').write(told.hexdigest())\n" + ending
    )
    # Every rank ends at once, and nobody may be killed before it has written all: a long drain.
    options = ("--standalone", "4", "--rank-dir", "device", "--drain", "600")
    job = supervised(*options, "--console-ranks", "none", *python(source))
    assert job.end() in {0, 137}
    for rank in range(4):
        data = OURS.sub(b"", job.log(rank).read_bytes())
        told = (job.root / "modelarts" / "workspace" / f"device{rank}" / "sha256").read_text()
        assert hashlib.sha256(data).hexdigest() == told


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_5_what_is_in_the_pipe_at_the_end_is_in_the_log(supervised, ending):
    """The last words come in one write that no single read takes, and nobody waits after them."""
    words = 900 * 1024
    source = (
        "import fcntl, os, sys\n"
        f"fcntl.fcntl(1, 1031, 1 << 20); assert os.write(1, b'x' * {words}) == {words}\n{ending}"
    )
    job = supervised("--standalone", "1", "--console-ranks", "none", *python(source))
    assert job.end() in {0, 137}
    assert OURS.sub(b"", job.log(0).read_bytes()) == b"x" * words


# 6. Killing the supervisor with SIGKILL leaves no rank alive.


def test_6_no_rank_outlives_a_supervisor_that_was_killed(supervised):
    job = supervised("--standalone", "3", *python("print('up', flush=True); " + WAIT))
    for rank in range(3):
        job.wait_for("output", rank=rank)
    job.send(signal.SIGKILL)
    assert job.end() == 137
    wait_until(lambda: not job.survivors())


def test_6_nor_does_what_a_rank_has_forked(supervised):
    """Unless whoever killed us has killed the guardian, too."""
    job = supervised("--standalone", "2", *python(FORKS + SAYS_SO + WAIT))
    for rank in range(2):
        job.wait_for("output", rank=rank, msg="forked")
    job.send(signal.SIGKILL)
    assert job.end() == 137
    wait_until(lambda: not job.survivors())


def test_6_the_next_start_ends_what_a_killed_one_left(supervised):
    forks = (
        "import subprocess, sys, time\n"
        "hold = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "subprocess.Popen(hold, start_new_session=True)\n"
        "print('up', flush=True); time.sleep(600)"
    )
    killed = supervised("--standalone", "1", *python(forks))
    killed.wait_for("output", rank=0)
    killed.kill_guardians()
    killed.send(signal.SIGKILL)
    killed.end()
    assert killed.survivors()
    following = supervised("--standalone", "1", *python("print('clean start')"))
    assert following.end() == 0
    assert following.wait_for("orphans.killed")["earlier_start"]
    assert not killed.survivors()
    assert following.said(0) == ["clean start"]
    assert killed.log(0).with_name(f"{killed.log(0).name}.1").exists()


# 7. The exit code is the job's when the job decided, ours when we did, 128 + n for signals.


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--standalone", "2", *python("raise SystemExit(5)")), 5),
        (("--standalone", "2", *python("import os; os.abort()")), 134),
        (("--standalone", "2", "--", "no-such-program"), 127),
        (("--standalone", "2", "--", "/"), 126),
        (("--standalone", "2", "--", "/etc/passwd"), 126),
        (("--standalone", "2", "--no-such-option", "--", "true"), 64),
        (("--rank-table", "/nowhere.json", "--rank-table-timeout", "0.2", "--", "true"), 75),
        (("--standalone", "1", "--work-dir", "/dev/null/x", "--", "true"), 73),
        (("--standalone", "1", "--log-dir", "/dev/null/x", "--", "true"), 73),
        (("--rank-table", "wrong.json", "--", "true"), 65),
    ],
)
def test_7_the_exit_code_says_who_decided(supervised, tmp_path, arguments, code):
    (tmp_path / "wrong.json").write_text('{"status": "completed", "server_list": 1}')
    job = supervised(*arguments)
    assert job.end() == code
    assert job.events[-1]["event"] == "supervisor.exited"
    assert job.events[-1]["exit_code"] == code
    assert job.events[-1]["level"] == "error"
    assert len(job.events[-1]["root_cause"]) > 20
    assert "Traceback" not in job.stderr


def test_7_a_job_that_is_told_to_stop_never_ends_with_0(supervised):
    polite = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0))\n"
        "print('up', flush=True)\nwhile True: time.sleep(0.05)"
    )
    job = supervised("--standalone", "2", *python(polite))
    for rank in range(2):
        job.wait_for("output", rank=rank)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert {event["status"] for event in job.all("process.exited")} == {0}


# 9. N stubborn ranks cost one grace period, not N.

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('up', flush=True); time.sleep(600)"
)


def test_9_stubborn_ranks_share_one_grace_period(supervised):
    job = supervised("--standalone", "6", "--grace", "4", *python(STUBBORN))
    for rank in range(6):
        job.wait_for("output", rank=rank)
    began = time.monotonic()
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert time.monotonic() - began >= 4
    first, *_, last = job.all("process.exited")
    assert seconds_between(first, last) < 12  # in a row there would be 4 s between two
    assert {event["signal"] for event in job.all("process.exited")} == {"SIGKILL"}


def test_9_an_impatient_signal_cuts_the_grace_short(supervised):
    job = supervised("--standalone", "2", "--grace", "600", *python(STUBBORN))
    for rank in range(2):
        job.wait_for("output", rank=rank)
    job.send(signal.SIGTERM)
    job.wait_for("signal.received")
    job.send(signal.SIGQUIT)
    assert job.end() == 143


# 10. Every line on stdout is one JSON event; every generation that starts also logs its end.


@pytest.mark.parametrize("when", ["output", "process.exited", "restart.scheduled"])
def test_10_every_generation_that_starts_logs_its_end(supervised, when):
    job = supervised(
        *(
            "--standalone",
            "2",
            "--restarts",
            "1000",
            "--restart-delay",
            "0.05",
            "--min-uptime",
            "0",
        ),
        *python("print('up', flush=True); raise SystemExit(1)"),
    )
    job.wait_for("generation.started", generation=2)
    job.wait_for(when)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    started = [event["generation"] for event in job.all("generation.started")]
    assert started == [event["generation"] for event in job.all("generation.ended")]
    assert started == list(range(len(started)))
    assert [event["seq"] for event in job.events] == list(range(len(job.events)))


# 12. What the supervisor did not start, and what did not come from its ranks, is never signalled.

WITNESS = """
import os, signal, time
told = [n for n in signal.valid_signals() if n not in {signal.SIGKILL, signal.SIGSTOP}]
for number in told:
    signal.signal(number, lambda number, _: os.write(1, b"%d\\n" % number))
os.write(1, b"here\\n")
while True:
    time.sleep(0.05)
"""
BESIDE = """
"$0" -S -c "$1" > child 2>&1 &
setsid "$0" -S -c "$1" > daemon 2>&1 &
until grep -q here child && grep -q here daemon; do sleep 0.01; done
shift
exec "$@"
"""


@pytest.mark.parametrize("end", ["raise SystemExit(1)", WAIT])
def test_12_what_was_there_before_is_never_signalled(supervised, tmp_path, end):
    """``sh -c 'sshd & exec ascend-supervisor ...'``: its children are ours from then on."""
    job = supervised(
        *("--standalone", "2", "--restarts", "1", "--restart-delay", "0", "--min-uptime", "0"),
        *("--grace", "0.5"),
        *python(ESCAPES + end),
        before=("sh", "-c", BESIDE, sys.executable, WITNESS),
    )
    if end == WAIT:
        for rank in range(2):
            job.wait_for("output", rank=rank, msg="forked")
        for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM):
            job.send(number)
    assert job.end() == {"raise SystemExit(1)": 1, WAIT: 143}[end]
    assert len(job.survivors()) == 2
    assert [(tmp_path / name).read_text() for name in ("child", "daemon")] == ["here\n"] * 2


def test_stopping_signals_reach_ranks_that_are_stopped(supervised):
    job = supervised(
        "--standalone", "1", "--grace", "600", *python("print('up', flush=True); " + WAIT)
    )
    job.wait_for("output", rank=0)
    os.kill(job.wait_for("process.started")["child_pid"], signal.SIGSTOP)
    job.send(signal.SIGTERM)
    assert job.end() == 143


def test_user_signals_are_forwarded(supervised):
    source = (
        "import signal, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('checkpoint', flush=True))\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(0.05)"
    )
    job = supervised("--standalone", "2", *python(source))
    for rank in range(2):
        job.wait_for("output", rank=rank, msg="up")
    job.send(signal.SIGUSR1)
    for rank in range(2):
        job.wait_for("output", rank=rank, msg="checkpoint")


def test_as_pid_1_strangers_are_reaped_and_nothing_is_left(supervised):
    if os.geteuid():
        pytest.skip("a PID namespace needs root")
    orphan = (
        "import os\nif os.fork() == 0:\n    os.fork() or os._exit(0)\n    os._exit(0)\nos._exit(4)"
    )
    job = supervised(
        *("--standalone", "3", *python(orphan)),
        before=("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"),
    )
    assert job.end() == 4
    assert job.events[0]["pid"] == 1
    assert not job.survivors()


# 8. Exactly one layer restarts.


def test_8_what_is_started_is_the_command_itself_and_nothing_that_restarts_it(supervised):
    source = (
        "import os; print(*open('/proc/self/cmdline').read().split(chr(0)), sep='|'); "
        "print(os.getppid())"
    )
    job = supervised("--standalone", "1", "--restarts", "3", *python(source))
    assert job.end() == 0
    assert job.said(0) == ["|".join([*python(source)[1:], ""]), str(job.process.pid)]


@pytest.mark.parametrize("method", METHODS)
def test_8_what_could_restart_by_itself_is_told_not_to(method):
    """All that is planned is the command, or a launcher that does not, or is told so."""
    if method == "mpirun" and which("mpirun") is None:
        pytest.skip("mpirun is not installed (Debian's package openmpi-bin)")
    table = standalone_table(2).table
    place = place_of({}, "here", mounted_log_exists=False, here=PurePath("/"))
    settings = read_settings(("--method", method, "--", "train.py"), {}, lambda _: b"")
    assert isinstance(settings, Settings)
    specs = launcher(settings, os.environ).plan(table, Here(0, table.entries[0], place), 0)
    assert specs
    for spec in specs:
        names = {PurePath(word).name for word in spec.argv}
        assert spec.argv[0] == "train.py" or {method, "train.py"} <= names
        assert method != "torchrun" or "--max_restarts=0" in names
