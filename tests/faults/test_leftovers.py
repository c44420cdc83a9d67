"""Whatever the ranks fork, and however the supervisor ends, nothing of it is left."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from ascend_supervisor.processes import proc
from tests.faults.facilities import cgroup, inside
from tests.faults.ways import NOBODY, ORDINARY, PID_1, Way, unprivileged
from tests.running import (
    DEADLINE_SECONDS,
    END_MAIN_THREAD,
    HIDE,
    Running,
    begins_in_python,
    python,
    wait_until,
)

DATA = Path(__file__).parents[1] / "data" / "rank_tables"

FAMILY = """
import os, signal, subprocess, sys, time
leash = os.open(sys.argv[1], os.O_WRONLY)
os.set_inheritable(leash, True)
STAY = "import signal, sys, time; sys.argv[1] == 'deaf' and signal.signal(signal.SIGTERM, " \\
    "signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


def child(hearing, **how):
    stay = subprocess.Popen(
        [sys.executable, "-S", "-c", STAY, hearing], close_fds=False, stdout=subprocess.PIPE, **how
    )
    stay.stdout.readline()
    return stay


def daemon():
    heard, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(told, b"up")
            time.sleep(600)
        os._exit(0)
    os.wait()
    os.read(heard, 2)


for number in range(int(sys.argv[2])):
    child("deaf")
    child("deaf", start_new_session=True)
    child("deaf", env={})
    child("hears", start_new_session=True, env={})
    os.kill(child("deaf", start_new_session=True).pid, signal.SIGSTOP)
    os.kill(child("hears").pid, signal.SIGSTOP)
    if os.fork() == 0:
        os._exit(0)  # a zombie, for as long as we live
    daemon()
print("all", flush=True)
"""
ENDS = {
    "its leader ends well": ("os._exit(0)", 0),
    "its leader fails": ("os._exit(3)", 3),
    "told to stop, it does not listen": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
        143,
    ),
    "told to stop, it stands still": ("os.kill(os.getpid(), signal.SIGSTOP)", 143),
}


@contextmanager
def leash(place: Path, uid: int):
    """A pipe that every descendant holds: its end is read when, and only when, none is left."""
    path = place / "leash"
    os.mkfifo(path)
    os.chown(path, uid, -1)
    read_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield path, read_end
    finally:
        os.close(read_end)


def is_free(read_end: int) -> bool:
    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    return any(what & select.POLLHUP for _, what in poll.poll(DEADLINE_SECONDS * 1000))


@pytest.mark.parametrize("end", ENDS)
def test_of_descendants_of_all_kinds_none_is_left(bad_day, place, way, end):
    """Forty of one rank, and a second rank without any."""
    last, code = ENDS[end]
    family = place / "family.py"
    family.write_text(f"{FAMILY}{last}\n")
    with leash(place, way.uid) as (path, read_end):
        words = (sys.executable, "-S", str(family), str(path))
        script = 'if [ "$RANK" = 0 ]; then exec "$@" 5; else exec "$@" 0; fi'
        options = ("--standalone", "2", "--grace", "0.5", "--drain", "600")
        job = bad_day(*options, "--", "sh", "-c", script, "sh", *words)
        for rank in range(2):
            job.wait_for("output", rank=rank, msg="all")
        if code == 143:
            job.send(signal.SIGTERM)
        assert job.end() == code
        assert is_free(read_end)
        # A stopped process hears TERM and CONT. The sweep ends the daemons, and what has escaped
        # from a rank that ends by itself.
        assert job.wait_for("orphans.killed")["count"] >= (5 if code == 143 else 20)


BOMB = """
import os, signal, sys
os.nice(19)  # it is to hit its own job, and no test that waits for something beside it
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.environ["RANK"] == "0":
    open(sys.argv[1]).close()  # a pipe: until the other rank is there
    print("lit", flush=True)
    while True:
        try:
            if os.fork() == 0:
                os.getpid() % 2 and os.setsid()
        except OSError:
            pass
open(sys.argv[1], "w").close()
signal.pause()
"""


# A bomb keeps both cores busy: each way has one, and why the ranks end decides nothing about how.
@pytest.mark.parametrize(
    ("way", "told"),
    [("ordinary", True), ("ordinary", False), ("pid_1", False), ("unprivileged", True)],
    indirect=["way"],
)
def test_a_fork_bomb_ends_with_its_job(bad_day, place, told):
    os.mkfifo(place / "fuse")
    (place / "fuse").chmod(0o666)
    with cgroup("pids", max="60") as group:
        options = ("--standalone", "2", "--grace", "0.2")
        job = bad_day(*options, *python(BOMB), str(place / "fuse"), before=inside(group))
        job.wait_for("output", rank=0, msg="lit")
        other = job.seen_from_here(job.wait_for("process.started", rank=1)["child_pid"])
        while int((group / "pids.current").read_text()) < 60:
            assert job.process.poll() is None
        if told:
            job.send(signal.SIGTERM)
        else:
            os.kill(other, signal.SIGKILL)
        assert job.end() == (143 if told else 137)
        assert (group / "cgroup.procs").read_text() == ""


WAITS = "import os, subprocess, time; print('up', flush=True); "
GRANDCHILD = "subprocess.Popen(['setsid', 'sleep', '600']); "


def test_a_killed_supervisor_leaves_nothing_in_the_way_of_the_next(bad_day, place):
    """Its table, its state and its logs lie there; of its ranks none lives."""
    table = ("--rank-table", str(DATA / "template1-two-servers.json"), "--node-rank", "0")
    job = bad_day(*table, *python(WAITS + GRANDCHILD + "time.sleep(600)"))
    for rank in range(4):
        job.wait_for("output", rank=rank)
    ranks = [job.seen_from_here(event["child_pid"]) for event in job.all("process.started")]
    job.kill_guardians()
    os.kill(job.pid, signal.SIGKILL)
    job.end()
    end = time.monotonic() + DEADLINE_SECONDS
    while any(map(is_alive, ranks)):
        assert time.monotonic() < end
    state = next(place.rglob("*-supervisor-*.json"))
    state.with_name(f".{state.name}.abcdefgh").touch()  # it may be killed while it writes
    again = bad_day(*table, *python("print('again')"))
    assert again.end() == 0
    assert not job.survivors()
    assert [again.said(rank) for rank in range(4)] == [["again"]] * 4
    for rank in range(4):
        assert b"again\n" in again.log(rank).read_bytes()
        assert b"up\n" in again.log(rank).with_suffix(".txt.1").read_bytes()
    assert not [path.name for path in place.rglob("*") if path.name.startswith(".")]


AWAY = """
import subprocess, time
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("up", flush=True)
time.sleep(600)
"""


# A supervisor in a PID namespace of its own takes its leftovers with it.
@pytest.mark.parametrize("way", ["ordinary", "unprivileged"], indirect=True)
def test_a_killed_supervisor_that_nobody_has_waited_for_is_no_more(bad_day, way):
    job = bad_day("--standalone", "1", *python(AWAY))
    job.wait_for("output", rank=0)
    job.kill_guardians()
    os.kill(job.pid, signal.SIGKILL)
    os.waitid(os.P_PID, job.process.pid, os.WEXITED | os.WNOWAIT)
    wait_until(job.survivors)  # a process that is still in execve shows no environment
    again = bad_day("--standalone", "1", *python("print('again')"))
    assert again.end() == 0
    assert not job.survivors()
    assert again.wait_for("orphans.killed")["earlier_start"]
    assert job.process.poll() == -signal.SIGKILL


GOES_ON = f"""
import signal, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Thread(target=time.sleep, args=(600,)).start()
{END_MAIN_THREAD}
"""
"""Its main thread has ended: /proc/PID/stat says that it is a zombie."""
HEADLESS = f"""
import os, pathlib, subprocess, sys, time
if len(sys.argv) > 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
    sys.exit()
child = subprocess.Popen([sys.executable, "-c", {GOES_ON!r}], start_new_session=True)
stat = pathlib.Path("/proc", str(child.pid), "stat")
while stat.read_text().rpartition(")")[2].split()[0] != "Z":
    time.sleep(0.01)
print("up", flush=True)
if len(sys.argv) > 1:
    sys.exit(3)
time.sleep(600)
"""


def test_of_a_process_whose_main_thread_has_ended_nothing_is_left_by_a_stop(bad_day):
    job = bad_day("--standalone", "1", "--grace", "0.2", *python(HEADLESS))
    job.wait_for("output", rank=0)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert len(job.wait_for("grace.ended")["remaining"]) == 1
    assert not job.survivors()


def test_of_a_process_whose_main_thread_has_ended_nothing_is_left_by_a_restart(bad_day):
    options = ("--standalone", "1", "--restarts", "1", "--restart-delay", "0")
    job = bad_day(*options, *python(HEADLESS), "fails")
    assert job.end() == 0
    assert job.wait_for("orphans.killed")["count"] == 1


@pytest.mark.parametrize("guarded", [True, False])
def test_of_a_process_whose_main_thread_has_ended_nothing_is_left_by_a_killed_supervisor(
    bad_day, way, guarded
):
    job = bad_day("--standalone", "1", *python(HEADLESS))
    job.wait_for("output", rank=0)
    if not guarded:
        job.kill_guardians()
    os.kill(job.pid, signal.SIGKILL)
    job.end()
    if guarded or way.is_pid_1:
        wait_until(lambda: not job.survivors())
    else:
        again = bad_day("--standalone", "1", *python("print('again')"))
        assert again.end() == 0
        assert not job.survivors()
        assert again.wait_for("orphans.killed")["earlier_start"]


DAEMON = f"""
import os, pathlib, sys, time
heard, told = os.pipe()
hide = compile({HIDE!r}, "hide", "exec")
if sys.argv[1] == "first":
    exec(hide)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        exec(hide)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.write(told, b"%d" % os.getpid())
        time.sleep(600)
    os._exit(0)
os.wait()
number = os.read(heard, 20).decode()
while pathlib.Path("/proc", number, "stat").read_text().split()[3] == "0":
    time.sleep(0.01)
assert not pathlib.Path("/proc", number, "environ").read_bytes().strip(b"\\0")
pathlib.Path(sys.argv[2]).write_text(number)
print("up", number, flush=True)
"""
"""A daemon, whose parent has ended, in a session of its own, with an environment of its own."""
HIDES = pytest.mark.parametrize("when", ["first", "then"], ids=["its parent too", "itself"])
ADOPTERS = {
    "ordinary": (),
    "with children from before": ("sh", "-c", 'sleep 600 > /dev/null 2>&1 & exec "$@"', "sh"),
    "pid 1": PID_1.before,
}


@HIDES
@pytest.mark.parametrize("before", ADOPTERS)
def test_a_daemon_that_has_hidden_its_mark_does_not_outlive_its_generation(
    supervised, tmp_path, before, when
):
    looks = tmp_path / "looks.py"
    looks.write_text(
        f"import os, sys\nif os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        f"    exec({DAEMON!r})\n    os._exit(1)\n"
        "print(os.path.exists('/proc/' + open(sys.argv[2]).read()), flush=True)\n"
    )
    job = supervised(
        *("--standalone", "1", "--restarts", "1", "--restart-delay", "0"),
        *("--", sys.executable, str(looks), when, str(tmp_path / "number")),
        before=ADOPTERS[before],
    )
    assert job.end() == 0
    assert job.said(0, 1) == ["False"]
    assert job.wait_for("orphans.killed")["pids"] == [int((tmp_path / "number").read_text())]


@HIDES
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "guardian killed too"])
@pytest.mark.parametrize("way", ["ordinary", "unprivileged"], indirect=True)
def test_a_daemon_that_has_hidden_its_mark_does_not_outlive_a_killed_supervisor(
    bad_day, place, guarded, when
):
    words = (*python(f"{DAEMON}\ntime.sleep(600)"), when, str(place / "number"))
    job = bad_day("--standalone", "1", *words)
    job.wait_for("output", rank=0)
    daemon = int((place / "number").read_text())
    if not guarded:
        job.kill_guardians()
    os.kill(job.pid, signal.SIGKILL)
    job.end()
    if not guarded:
        assert is_alive(daemon)
        assert bad_day("--standalone", "1", *python("print('again')")).end() == 0
    wait_until(lambda: not is_alive(daemon))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


HOLDER = """
import hashlib, os, subprocess, sys
subprocess.Popen(["sleep", "600"], start_new_session=True)
words = b"".join(b"%d\\n" % number for number in range(150_000))
sys.stdout.buffer.write(words)
sys.stdout.flush()
os._exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("status", [0, 3])
def test_an_end_is_heard_although_a_grandchild_holds_the_output(bad_day, status):
    job = bad_day("--standalone", "1", "--grace", "600", *python(HOLDER), str(status))
    assert job.end() == status
    written = job.log(0).read_bytes()
    words = b"".join(b"%d\n" % number for number in range(150_000))
    said = b"".join(
        line for line in written.splitlines(keepends=True) if not line.startswith(b"[ascend")
    )
    assert sha256(said).digest() == sha256(words).digest()
    assert job.wait_for("process.exited")["runtime_seconds"] < DEADLINE_SECONDS


BEFORE = """
sleep 600 > /dev/null 2>&1 &
echo $! > child
setsid sh -c 'until [ -e go ]; do sleep 0.05; done; sleep 600 & echo $! > orphan' > out 2>&1 &
exec "$@"
"""
"""A child from before, and one that leaves an orphan in a session of its own when it is told to."""
COUNTS = """
import os, pathlib, subprocess, sys, time
place = pathlib.Path(sys.argv[1])


def stat(name):
    try:
        number = (place / name).read_text().strip()
        return pathlib.Path("/proc", number, "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["gone", ""]


if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    away = subprocess.Popen(["setsid", "sleep", "600"])
    (place / "away").write_text(str(away.pid))
    (place / "go").touch()
    while stat("orphan")[1] != str(os.getppid()):
        time.sleep(0.01)
    os._exit(1)
for name in ("child", "orphan", "away"):
    print(name, stat(name)[0], flush=True)
"""


@pytest.mark.parametrize("before", [ORDINARY, PID_1], ids=lambda way: way.name)
def test_what_others_started_is_left_alone(supervised, tmp_path, before: Way):
    """What a rank forked is ended all the same, although it has left the rank's session."""
    if before.missing is not None:
        pytest.skip(before.missing)
    job: Running = supervised(
        *("--standalone", "1", "--restarts", "1", "--restart-delay", "0"),
        *python(COUNTS),
        str(tmp_path),
        before=(*before.before, "sh", "-c", BEFORE, "sh"),
    )
    assert job.end() == 0
    assert job.said(0, 1) == ["child S", "orphan S", "away gone"]
    (killed,) = job.all("orphans.killed")
    assert killed["pids"] == [int((tmp_path / "away").read_text())]
    if not before.is_pid_1:  # else the kernel has ended all
        for name in ("child", "orphan"):
            os.kill(int((tmp_path / name).read_text()), signal.SIGTERM)


TORCHRUN = """{begins}
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: None)  # it takes its time
worker = subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path({place!r}, "worker").write_text(f"{{worker.pid}}\\n")
worker.wait()
time.sleep(600)
"""
RECYCLES = """
import os, pathlib, signal, subprocess, sys, time
place, last = pathlib.Path(sys.argv[1]), pathlib.Path("/proc/sys/kernel/ns_last_pid")
job = subprocess.Popen(sys.argv[2:])
worker = place / "worker"
while not (worker.exists() and worker.read_text().endswith("\\n")):
    time.sleep(0.01)
number = int(worker.read_text())
job.send_signal(signal.SIGTERM)
while pathlib.Path("/proc", str(number)).exists():
    time.sleep(0.01)
while True:
    last.write_text(str(number - 1))
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=2)
    if stranger.pid == number:
        break
    stranger.kill()
    stranger.wait()
job.send_signal(signal.SIGQUIT)  # we have no patience
code = job.wait()
(place / "stranger").write_text(str(stranger.poll()))
sys.exit(code)
"""
NS_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


@pytest.mark.skipif(
    os.geteuid() != 0 or not NS_LAST_PID.exists(),
    reason="to choose the next pid needs root and a kernel with CONFIG_CHECKPOINT_RESTORE",
)
def test_the_number_of_a_dead_worker_is_not_signalled_when_somebody_else_has_it(
    supervised, tmp_path
):
    if PID_1.missing is not None:
        pytest.skip(PID_1.missing)
    launcher = tmp_path / "torchrun"
    launcher.write_text(TORCHRUN.format(begins=begins_in_python("-S"), place=str(tmp_path)))
    launcher.chmod(0o755)
    recycles = tmp_path / "recycles.py"
    recycles.write_text(RECYCLES)
    (tmp_path / "train.py").touch()
    job = supervised(
        *("--standalone", "1", "--method", "torchrun", "--grace", "600", "--"),
        str(tmp_path / "train.py"),
        before=(*PID_1.before, sys.executable, str(recycles), str(tmp_path)),
        environ={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert job.end() == 143, job.stderr
    assert (tmp_path / "stranger").read_text() == "None"


# Ranks that are executed with privileges of their own: the kernel forgets to tell them of our
# death, and we may not read their environment.

ANOTHER_GROUP = 54321


@pytest.fixture
def nobody(tmp_path_factory):
    """Words that start a supervisor as nobody, and let what it starts gain privileges."""
    if os.geteuid():
        pytest.skip("to start a supervisor as another user, and to make programs privileged: root")
    way = unprivileged(tmp_path_factory.mktemp("shown"))
    if way.missing is not None:
        pytest.skip(way.missing)
    kept = {"--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"}
    return tuple(word for word in way.before if word not in kept)


@pytest.fixture
def home():
    """A directory of nobody's, where privileged programs may be."""
    directory = Path(tempfile.mkdtemp(prefix="bad-day-"))
    logs = directory / "modelarts" / "log"
    logs.mkdir(parents=True)
    for made in (directory, logs.parent, logs):
        os.chown(made, NOBODY, -1)
    if os.statvfs(directory).f_flag & os.ST_NOSUID:
        pytest.skip(f"{directory} is on a file system without privileged programs (nosuid)")
    yield directory
    shutil.rmtree(directory)


def with_a_group(program: Path) -> None:
    os.chown(program, -1, ANOTHER_GROUP)
    program.chmod(0o2755)


def with_a_capability(program: Path) -> None:
    if shutil.which("setcap") is None:
        pytest.skip("setcap is missing (Debian's package libcap2-bin)")
    subprocess.run(("setcap", "cap_net_bind_service+ep", str(program)), check=True)


def a_copy(name: str, home: Path, privilege) -> Path:
    found = shutil.which(name)
    assert found is not None
    program = home / f"copy-of-{name}"
    shutil.copy(found, program)
    privilege(program)
    return program


@pytest.mark.parametrize("privilege", [with_a_group, with_a_capability])
@pytest.mark.parametrize("script", ['exec "$@"', '"$@"; exit'], ids=["rank", "child of a rank"])
def test_a_rank_with_privileges_does_not_outlive_a_killed_supervisor(
    supervised, nobody, home, privilege, script
):
    program = a_copy("sleep", home, privilege)
    words = ("sh", "-c", script, "sh", str(program), "600")
    job = supervised("--standalone", "2", "--", *words, root=home, before=nobody)
    for rank in range(2):
        job.wait_for("process.started", rank=rank)
    wait_until(lambda: len(running(program)) == 2)
    os.kill(job.pid, signal.SIGKILL)
    job.end()
    wait_until(lambda: not running(program))


def test_the_next_start_waits_until_privileged_ranks_are_ended(supervised, nobody, home):
    """It lets a guardian go on that somebody has stopped."""
    program = a_copy("sleep", home, with_a_group)
    job = supervised("--standalone", "1", "--", str(program), "600", root=home, before=nobody)
    job.wait_for("process.started")
    wait_until(lambda: len(running(program)) == 1)
    (guardian,) = job.guardians
    os.kill(guardian, signal.SIGSTOP)
    os.kill(job.pid, signal.SIGKILL)
    job.end()
    again = supervised("--standalone", "1", "--", "true", root=home, before=nobody)
    again.wait_for("process.started")
    assert not running(program)
    assert again.end() == 0


def test_a_guardian_that_was_stopped_ends_with_its_supervisor(supervised, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    job = supervised("--standalone", "1", "--", "sh", "-c", f"read line <{go}")
    job.wait_for("process.started")
    (guardian,) = job.guardians
    os.kill(guardian, signal.SIGSTOP)
    go.write_text("on\n")
    assert job.end() == 0
    wait_until(lambda: proc.stat(guardian) is None or proc.is_zombie(guardian))


def test_there_is_no_start_beside_a_rank_that_cannot_be_ended(supervised, nobody, home):
    """It has become root altogether, and we are nobody."""
    program = a_copy("setpriv", home, lambda program: program.chmod(0o4755))
    words = (str(program), "--reuid=0", "--regid=0", "--clear-groups", "sleep", "600")
    job = supervised("--standalone", "1", "--", *words, root=home, before=nobody)
    pid = job.wait_for("process.started")["child_pid"]
    wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    os.kill(job.pid, signal.SIGKILL)
    job.end()
    again = supervised(
        "--standalone", "1", "--", "true", root=home, before=nobody, deadline=3 * DEADLINE_SECONDS
    )
    assert again.end() == 69
    sentence = "what an earlier start left behind cannot be ended: "
    assert re.search(rf"{sentence}{pid} \(state S.*\): sleep 600", again.events[-1]["root_cause"])
    assert not again.all("process.started")
    os.kill(pid, signal.SIGKILL)


def running(program: Path) -> list[int]:
    """The processes that run it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "exe").readlink() == program:
                found.append(int(process.name))
    return found
