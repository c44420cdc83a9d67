"""In which order the processes of a rank, or of a command, are told to stop and are killed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from tests.control.asking import ask_job
from tests.running import Running, begins_in_python, python, seconds_between, wait_until

SAVES = """\
import os, signal, subprocess, sys, time


def say(*words):  # a signal may come in the middle of a print, and a print in it would fail
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())


def save(*_):
    for part in range(10):
        say("part", part)
        time.sleep(0.05)
    open("saved", "w").close()
    say("has saved")
    sys.exit(0)


for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, save)
"""
STAY = "say('up')\nopen('ready', 'w').close()\nwhile True: time.sleep(0.02)\n"
LOGGER = """\
import sys
with open("log", "w") as log:
    for line in sys.stdin:
        log.write(line)
        log.flush()
        sys.stdout.write(line)
        sys.stdout.flush()
"""
WRAPPER = """\
import subprocess, sys
rank = subprocess.Popen([sys.executable, "train.py"], stdout=subprocess.PIPE, text=True)
with open("log", "w") as log:
    for line in rank.stdout:
        log.write(line)
        log.flush()
        print(line, end="", flush=True)
sys.exit(rank.wait())
"""
LAUNCHER = """\
import subprocess, sys
workers = [subprocess.Popen([sys.executable, "train.py"]) for _ in range(2)]
sys.exit(max(worker.wait() for worker in workers))
"""
CARRIERS = {
    "tee": "{python} train.py 2>&1 | tee log",
    "tee in a pipe of three": "{python} train.py 2>&1 | tee log | cat",
    "three stages": "{python} train.py 2>&1 | cat | grep --line-buffered . | tee log",
    "a loop of the shell": "{python} train.py | while read -r line; do echo $line; done | tee log",
    "a logger": "{python} train.py 2>&1 | {python} logger.py",
    "a substitution": "{python} train.py > >(tee log) 2>&1",
    "a substitution for all": "exec > >(tee log) 2>&1; {python} train.py",
    "a substitution and exec": "exec > >(tee log) 2>&1; exec {python} train.py",
    "a wrapper": "{python} wrapper.py",
    "a launcher": "{python} launcher.py 2>&1 | tee log",
    "a fifo": "mkfifo pipe; tee log < pipe & {python} train.py > pipe",
    "a substitution that is read": "cat < <({python} train.py) > log",
    "behind timeout": "timeout 60 {python} train.py 2>&1 | tee log",
    "a trap": "trap 'echo leaving' EXIT; {python} train.py 2>&1 | tee log",
}
AWAY = {
    "setsid and tee": "setsid {python} train.py 2>&1 | tee log",
    "nohup": "nohup setsid {python} train.py > log 2>&1 & wait",
    "setsid that waits": "setsid --wait {python} train.py 2>&1 | tee log; true",
    "timeout": "setsid timeout 60 {python} train.py 2>&1 | tee log",
    "two sessions": "setsid bash -c 'setsid {python} train.py; true' 2>&1 | tee log",
}
"""They leave the session of their rank."""
QUICK = ("--release-delay", "0", "--restart-delay", "0", "--min-uptime", "0", "--grace", "600")

Script = Callable[..., Running]


@pytest.fixture
def script(supervised: Callable[..., Running], tmp_path: Path) -> Script:
    """``script(text, *options)`` runs a script of bash in ``tmp_path``, beside train.py."""
    sources = {
        "train.py": SAVES + STAY,
        "logger.py": LOGGER,
        "wrapper.py": WRAPPER,
        "launcher.py": LAUNCHER,
    }
    for name, source in sources.items():
        (tmp_path / name).write_text(source)

    def start(text: str, *options: str, rank: bool = False, **more) -> Running:
        where = ("--standalone", "1") if rank else ("--method", "once")
        words = ("bash", "-c", f"cd {tmp_path}; {text.replace('{python}', sys.executable)}")
        return supervised(*where, *QUICK, *options, "--", *words, **more)

    return start


def up(job: Running) -> None:
    """Wait until the ranks have said so, wherever their words go."""
    wait_until(
        lambda: (
            ((job.root / "log").exists() and "up" in (job.root / "log").read_text())
            or "up" in said(job)
        )
    )


def said(job: Running) -> list[str]:
    return [event["msg"] for event in job.all("output")]


def up_from(job: Running, processes: int) -> None:
    """Wait until so many have said so."""
    assert len(list(islice(job.each("output", msg="up"), processes))) == processes


@pytest.mark.parametrize("rank", [False, True], ids=["once", "rank"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_what_carries_the_output_outlives_those_who_write_it(script, carrier, rank):
    job = script(CARRIERS[carrier], rank=rank)
    up(job)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert (job.root / "saved").exists()
    assert "has saved" in (job.root / "log").read_text()
    assert not job.all("grace.ended")
    assert not job.survivors()


@pytest.mark.parametrize("rank", [False, True], ids=["once", "rank"])
@pytest.mark.parametrize("text", AWAY)
def test_what_left_the_session_of_its_rank_may_save(script, text, rank):
    job = script(AWAY[text], rank=rank)
    up(job)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert (job.root / "saved").exists()
    assert not job.all("orphans.killed")
    assert not job.all("grace.ended")
    assert not job.survivors()


@pytest.mark.parametrize("rank", [False, True], ids=["once", "rank"])
def test_a_daemon_is_told_where_all_belongs_to_one_command(script, rank):
    """Its parent has ended, so nothing says whose it is."""
    job = script("( setsid {python} train.py > log 2>&1 & ); sleep 600", rank=rank)
    up(job)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert (job.root / "saved").exists() is not rank
    assert len(job.all("orphans.killed")) == rank
    assert not job.survivors()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT], ids=lambda n: n.name)
@pytest.mark.parametrize("rank", [False, True], ids=["once", "rank"])
@pytest.mark.parametrize("carrier", ["tee", "a logger", "a substitution and exec"])
def test_so_it_is_with_every_signal_to_stop(script, carrier, rank, number):
    job = script(CARRIERS[carrier], rank=rank)
    up(job)
    job.send(number)
    assert job.end() == 128 + number
    assert "has saved" in (job.root / "log").read_text()
    assert not job.survivors()


FAILS_BESIDE = """\
import os, sys, time
while not os.path.exists("up0"): time.sleep(0.02)
os.remove("up0")  # in the next generation, too, it waits for the other rank
sys.exit(3)
"""


def test_a_drain_and_a_restart_leave_it_alone_too(script, tmp_path):
    """Two ranks in a script: one fails, and the other one saves when it is told to stop."""
    (tmp_path / "fails.py").write_text(FAILS_BESIDE)
    (tmp_path / "train.py").write_text(SAVES + "open('up0', 'w').close()\n" + STAY)
    text = "{python} train.py 2>&1 | tee log & {python} fails.py"
    job = script(text, "--restarts", "1", "--drain", "0.2", rank=False)
    assert job.end() == 3
    assert (tmp_path / "saved").exists()
    assert [event["next"] for event in job.all("generation.ended")] == ["restart", "stop"]
    assert "has saved" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("request_", ["stop", "restart"])
@pytest.mark.parametrize("rank", [False, True], ids=["once", "rank"])
def test_so_it_is_where_an_operator_asks_for_it(script, rank, request_):
    job = script(CARRIERS["tee"], rank=rank)
    up(job)
    ask_job(job, request_)
    if request_ == "restart":
        job.wait_for("generation.started", generation=1)
        assert (job.root / "saved").exists()
        job.send(signal.SIGKILL)
        return
    assert job.end() == 143
    assert (job.root / "saved").exists()


def test_so_it_is_at_a_hang(script):
    limits = ("--hang-timeout", "1", "--startup-timeout", "60")
    job = script(CARRIERS["tee"], *limits, rank=True)
    assert job.end() == 124
    assert "has saved" in (job.root / "log").read_text()


ENDLESS = """\
import sys, time
sys.stdin.read()
print("has read all", flush=True)
time.sleep(600)
"""
IGNORES = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (2, 3, 15)]\n"


@pytest.mark.parametrize("ignores", ["", IGNORES], ids=["told", "killed"])
def test_a_reader_that_does_not_end_is_told_and_then_killed(script, tmp_path, ignores):
    (tmp_path / "logger.py").write_text(ignores + ENDLESS)
    job = script("{python} train.py > >({python} logger.py)", "--grace", "4")
    wait_until((tmp_path / "ready").exists)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert (tmp_path / "saved").exists()
    assert "has read all" in [event["msg"] for event in job.all("output")]
    assert len(job.all("grace.ended")) == bool(ignores)
    assert not job.survivors()


STUBBORN = (
    "import os, signal, time\n"
    "for n in (2, 3, 15): signal.signal(n, lambda *_: os.write(1, b'told\\n'))\n"
    "print('up', flush=True)\n"
    "while True: time.sleep(0.02)"
)


def test_stubborn_ranks_in_front_of_readers_share_one_grace(supervised, tmp_path):
    (tmp_path / "train.py").write_text(STUBBORN)
    text = f"{sys.executable} {tmp_path}/train.py | tee log"
    job = supervised("--standalone", "4", "--grace", "5", "--", "bash", "-c", text)
    for rank in range(4):
        job.wait_for("output", rank=rank, msg="up")
    began = time.monotonic()
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert time.monotonic() - began >= 5
    told = [job.wait_for("output", rank=rank, msg="told") for rank in range(4)]
    asked, (grace,) = job.wait_for("signal.received"), job.all("grace.ended")
    assert max(event["seq"] for event in told) < grace["seq"]
    left = grace["remaining"]
    assert all(any(one.startswith(f"rank {rank}: ") for one in left) for rank in range(4))
    assert seconds_between(asked, job.events[-1]) < 15  # four in a row are 20
    assert not job.survivors()


SLOW = "import sys, time; time.sleep(0.4); sys.stdout.write(sys.stdin.read())"
NOT_WAITED_FOR = {
    "a substitution": "{python} train.py > >({python} logger.py)",
    "a fifo": "mkfifo pipe; {python} logger.py < pipe & {python} train.py > pipe",
    "a fifo elsewhere": "mkfifo pipe; {python} logger.py pipe & {python} train.py > pipe",
}
"""The shell may end while these readers have not read all."""


@pytest.mark.parametrize("carrier", ["a substitution", "a fifo"])
def test_all_that_was_written_is_read_before_the_end(script, tmp_path, carrier):
    (tmp_path / "train.py").write_text("print('x' * 60000); print('the last line')")
    (tmp_path / "logger.py").write_text(SLOW)
    job = script(NOT_WAITED_FOR[carrier])
    assert job.end() == 0
    assert said(job)[-1] == "the last line"


@pytest.mark.parametrize("rank", [False, True], ids=["once", "rank"])
@pytest.mark.parametrize("carrier", NOT_WAITED_FOR)
def test_who_reads_slowly_reads_the_last_words_of_who_was_stopped(script, tmp_path, carrier, rank):
    slow = "import sys\nif sys.argv[1:]: sys.stdin = open(sys.argv[1])\n"
    slow += "for line in sys.stdin:\n    sys.stdout.write(line)\n    sys.stdout.flush()\n"
    slow += "    if 'part 9' in line: import time; time.sleep(0.4)\n"
    (tmp_path / "logger.py").write_text(slow)
    job = script(NOT_WAITED_FOR[carrier], rank=rank)
    up(job)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert said(job)[-1] == "has saved"
    assert not job.survivors()


ANSWERS = "yes | {python} train.py"


def test_what_is_fed_by_a_helper_saves_before_it_ends(script, tmp_path):
    job = script(ANSWERS)
    up(job)
    job.send(signal.SIGTERM)
    job.wait_for("output", msg="part 0")
    assert job.end() == 143


# Who stops its own children in order.

MANAGER = """\
import os, signal, subprocess, sys, time
SERVICE = (
    "import os, signal, sys, time; signal.signal(15, lambda *_: sys.exit(9))\\n"
    "os.write(1, b'up\\\\n')\\nwhile True: time.sleep(0.02)"  # one write: all share a pipe
)
services = [
    subprocess.Popen([sys.executable, "-c", SERVICE], start_new_session=True) for _ in range(2)
]


def stop(*_):
    for service in services:
        time.sleep(0.5)
        if service.poll() is not None:
            os.write(1, b"was ended by another\\n")
        service.terminate()
        service.wait()
    os.write(1, b"all ended in order\\n")
    sys.exit(0)


signal.signal(signal.SIGTERM, stop)
os.write(1, b"ready\\n")
while True: time.sleep(0.02)
"""


@pytest.mark.parametrize(
    "text",
    [
        "{python} manager.py",
        "exec {python} manager.py",
        "env A=1 nice {python} manager.py | tee log",
    ],
)
def test_who_ends_its_own_children_in_order_may_do_so(script, tmp_path, text):
    (tmp_path / "manager.py").write_text(MANAGER)
    job = script(text)
    wait_until(lambda: sorted(said(job)) == ["ready", "up", "up"])
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert "all ended in order" in said(job)
    assert "was ended by another" not in said(job)
    assert not job.all("grace.ended")


def test_a_rank_that_saves_keeps_its_helpers(supervised):
    """A data loader's death would be an exception in the rank."""
    source = (
        "import os, signal, subprocess, sys, time\n"
        "helper = subprocess.Popen((sys.executable, '-c', 'import time; time.sleep(600)'))\n"
        "def save(*_):\n"
        "    time.sleep(1)\n"
        "    print('helper', helper.poll(), flush=True)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "os.write(1, b'up\\n')\n"
        "while True: time.sleep(0.02)"
    )
    job = supervised("--standalone", "2", "--grace", "600", *python(source))
    for rank in range(2):
        job.wait_for("output", rank=rank, msg="up")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert [job.said(rank) for rank in range(2)] == [["up", "helper None"]] * 2
    assert not job.all("grace.ended")


DOES_NOT_FORWARD = """\
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: None)
trains = subprocess.Popen([sys.executable, "train.py"])
"""
WAITS = "sys.exit(trains.wait())\n"
POLLS = """\
import time
while trains.poll() is None:
    time.sleep(0.05)
sys.exit(trains.returncode)
"""


@pytest.mark.parametrize(
    ("how", "grace", "seconds"), [(WAITS, "600", 1), (POLLS, "24", 12)], ids=["waits", "polls"]
)
def test_who_ends_nobody_is_not_waited_for_long(script, tmp_path, how, grace, seconds):
    """For a second, or for half of the grace."""
    (tmp_path / "manager.py").write_text(DOES_NOT_FORWARD + how)
    job = script("{python} manager.py", "--grace", grace)
    up(job)
    began = time.monotonic()
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert (tmp_path / "saved").exists()
    assert time.monotonic() - began >= seconds
    assert not job.all("grace.ended")


# What only waits for the end of the ranks.

SHARED = """\
import os, signal, sys, time
from multiprocessing.shared_memory import SharedMemory

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
SharedMemory("NAME" + os.environ.get("RANK", ""), True, 10)
print("up\\n", end="", flush=True)  # one write: workers of torchrun share a pipe
time.sleep(600)
"""


@pytest.fixture
def shared(tmp_path: Path):
    """A program that needs a name in /dev/shm of its own; it ignores SIGTERM."""
    name = f"stop-order-{tmp_path.name}-{time.monotonic_ns()}"
    (tmp_path / "shared.py").write_text(SHARED.replace("NAME", name))
    yield lambda: list(Path("/dev/shm").glob(f"{name}*"))
    for left in Path("/dev/shm").glob(f"{name}*"):
        left.unlink()


@pytest.mark.parametrize(
    "before", [(), ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")], ids=["", "1"]
)
@pytest.mark.parametrize("text", ["", "{python} shared.py", "{python} shared.py 2>&1 | tee log"])
def test_shared_memory_of_killed_ranks_is_removed(supervised, shared, tmp_path, text, before):
    words: tuple[str, ...] = (sys.executable, f"{tmp_path}/shared.py")
    if text:
        words = ("bash", "-c", f"cd {tmp_path}; {text.replace('{python}', sys.executable)}")
    options = ("--restarts", "1", "--grace", "0.5", "--release-delay", "0", "--restart-delay", "0")
    job = supervised("--standalone", "2", *options, "--", *words, before=before)
    for generation in range(2):
        for rank in range(2):
            job.wait_for("output", rank=rank, msg="up", generation=generation)
        if not generation:
            ask_job(job, "restart")
    assert len(shared()) == 2
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert not shared()
    assert not job.survivors()


TORCHRUN = """\
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
words = [sys.executable, sys.argv[-1]]
for rank in "0", "1":
    subprocess.Popen(words, start_new_session=True, env={**os.environ, "RANK": rank})
while True:
    os.wait()
"""
"""Its workers lead sessions."""
STOPS = {
    "SIGQUIT": ("--standalone", "2"),
    "hang": ("--standalone", "1", "--hang-timeout", "1", "--startup-timeout", "60"),
    "once": ("--method", "once"),
    "torchrun": ("--standalone", "2", "--method", "torchrun"),
}


@pytest.mark.parametrize("how", STOPS)
def test_shared_memory_of_killed_ranks_is_removed_however_they_are_stopped(
    supervised, shared, tmp_path, how
):
    program = tmp_path / "bin" / "torchrun"
    program.parent.mkdir()
    program.write_text(f"{begins_in_python()}\n{TORCHRUN}")
    program.chmod(0o755)
    job = supervised(
        *STOPS[how],
        *("--grace", "0.5", "--", sys.executable, f"{tmp_path}/shared.py"),
        environ={"PATH": f"{program.parent}:{os.environ['PATH']}"},
    )
    up_from(job, 1 if how in {"once", "hang"} else 2)
    if how != "hang":
        job.send(signal.SIGQUIT if how == "SIGQUIT" else signal.SIGTERM)
    assert job.end() == {"SIGQUIT": 131, "hang": 124}.get(how, 143)
    assert job.all("grace.ended")
    assert not shared()
    assert not job.survivors()


LEAVES_A_DAEMON = """\
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
"""


def test_a_daemon_that_holds_the_pipe_of_the_tracker_does_not_keep_it(supervised, shared, tmp_path):
    program = tmp_path / "shared.py"
    source = program.read_text()
    program.write_text(source.replace('print("up', f'{LEAVES_A_DAEMON}print("up'))
    job = supervised("--standalone", "1", "--grace", "0.5", "--", sys.executable, str(program))
    up_from(job, 2)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert not shared()
    assert job.wait_for("orphans.killed")["count"] == 1


def test_shared_memory_is_removed_by_the_next_start(supervised, shared, tmp_path):
    """Where the guardian was killed, too: the kernel ends only what we have started ourselves."""
    below = f"{sys.executable} {tmp_path}/shared.py & wait"
    job = supervised("--standalone", "1", "--", "bash", "-c", below)
    job.wait_for("output", msg="up")
    job.kill_guardians()
    job.send(signal.SIGKILL)
    job.end()
    assert shared()
    assert supervised("--standalone", "1", *python("print('again')")).end() == 0
    assert not shared()
    assert not job.survivors()


MANAGER_OF_MEMORY = """\
exec {nothing}<> <(:)
while [ -e /proc/$1/exe ]; do read -t 0.1 -u $nothing; done
read -t 2 -u $nothing
> removed
read -u $nothing
"""
"""PyTorch's daemon for its strategy file_system removes what its client had 2 s after the end of
that. It reads no pipe that others hold, and has no children."""
HAS_A_MANAGER = """\
words = ["./torch_shm_manager", "-c", "MANAGER", "-", str(os.getpid())]
subprocess.Popen(words, start_new_session=True)
below = subprocess.Popen(["sleep", "600"])


def save(*_):
    below.wait()  # until what is below us is told
    open("saved", "w").close()
    sys.exit(0)


if "ignores" in sys.argv:
    save = signal.SIG_IGN
signal.signal(signal.SIGTERM, save)
"""


@pytest.mark.parametrize("carrier", ["", " 2>&1 | tee log"], ids=["", "tee"])
@pytest.mark.parametrize("how", ["saves", "ignores"])
@pytest.mark.parametrize("rank", [False, True], ids=["once", "rank"])
def test_a_manager_of_shared_memory_outlives_the_ranks(script, tmp_path, how, rank, carrier):
    shutil.copy(shutil.which("bash") or "", tmp_path / "torch_shm_manager")
    source = HAS_A_MANAGER.replace('"MANAGER"', repr(MANAGER_OF_MEMORY))
    (tmp_path / "train.py").write_text(SAVES + source + STAY)
    grace = "8" if how == "saves" else "0.5"
    job = script(f"{{python}} train.py {how}{carrier}", "--grace", grace, rank=rank)
    wait_until((tmp_path / "ready").exists)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert (tmp_path / "saved").exists() is (how == "saves")
    assert (tmp_path / "removed").exists()
    assert not job.survivors()


def test_shared_memory_is_removed_where_the_supervisor_is_killed(supervised, shared, tmp_path):
    job = supervised("--method", "once", "--", sys.executable, f"{tmp_path}/shared.py")
    job.wait_for("output", msg="up")
    job.send(signal.SIGKILL)
    job.end()
    wait_until(lambda: not job.survivors())
    assert not shared()


CLEANS_UP = """\
import os, sys, time
open("tracked", "w").close()
sys.stdin.read()
os.close(0)
time.sleep(0.2)
os.remove("tracked")
"""
"""Like Python's resource tracker, and slower: it closes its pipe before it removes anything."""
IS_TRACKED = """\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "cleans_up.py"], stdin=subprocess.PIPE, start_new_session=True)
while not os.path.exists("tracked"): time.sleep(0.02)
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_what_has_closed_its_pipe_may_still_clean_up(script, tmp_path, number):
    """The rank is below a shell: what we have started itself is killed by the kernel, too."""
    (tmp_path / "cleans_up.py").write_text(CLEANS_UP)
    (tmp_path / "train.py").write_text(IS_TRACKED)
    job = script("{python} train.py; true", "--grace", "0.5", rank=True)
    up(job)
    job.send(number)
    assert job.end() == 128 + number
    wait_until(lambda: not job.survivors())
    assert not (tmp_path / "tracked").exists()


def test_who_ended_by_itself_is_not_among_the_killed(supervised):
    """With a grace of nothing SIGKILL follows SIGTERM at once."""
    source = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(0))\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(0.02)"
    )
    job = supervised("--standalone", "4", "--grace", "0", *python(source))
    for rank in range(4):
        job.wait_for("output", rank=rank, msg="up")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    killed = {e["rank"] for e in job.all("process.exited") if e["signal"] == "SIGKILL"}
    told = [one for event in job.all("grace.ended") for one in event["remaining"]]
    assert {int(one.split(":")[0].removeprefix("rank ")) for one in told} == killed
    assert not any("(gone)" in one or "(state Z" in one for one in told)
