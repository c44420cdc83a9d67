"""The control socket under attack: honest clients are answered, and the ranks never notice."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.control.asking import ask, connected, read_line, socket_of
from tests.faults.facilities import hanging
from tests.faults.ways import NOBODY
from tests.running import DEADLINE_SECONDS, Running, python, wait_until

RANKS = 2
COUNTS = """
import os, sys, time
number = 0
while not os.path.exists("enough"):
    for _ in range(50):
        number += 1
        print(number)
    sys.stdout.flush()
    time.sleep(0.01)
print("all", number)
"""


@contextmanager
def counting(bad_day: Callable[..., Running], *options: str) -> Iterator[tuple[Running, Path]]:
    """A job whose ranks write numbered lines meanwhile; afterwards every line is in its log."""
    words = ("--standalone", str(RANKS), "--console-ranks", "none", *options)
    job = bad_day(*words, *python(COUNTS))
    for rank in range(RANKS):
        job.wait_for("process.started", rank=rank)
    path = socket_of(job)
    wait_until(path.exists)
    yield job, path
    assert ask(path, "ready")["ready"] is True
    (job.root / "enough").touch()
    assert job.end() == 0
    assert not [*job.all("supervisor.defect"), *job.all("diagnostic"), *job.all("log.lost")]
    assert not path.exists()
    for rank in range(RANKS):
        lines = [line for line in job.log(rank).read_text().splitlines() if line[0] != "["]
        assert lines[:-1] == [str(number + 1) for number in range(len(lines) - 1)]
        assert lines[-1] == f"all {len(lines) - 1}"


CONNECT = """
import array, os, resource, signal, socket, sys, threading, time

most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
os.chdir(os.path.dirname(sys.argv[1]))

def connected():
    client = socket.socket(socket.AF_UNIX)
    client.connect(os.path.basename(sys.argv[1]))
    return client

def say(client, words):
    try:
        client.send(words)
    except OSError:
        pass  # it has made room for another one

def there():
    os.write(1, b"there\\n")
    time.sleep(600)

"""


@contextmanager
def attacker(
    source: str, target: Path | int, connect: str = CONNECT
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has said ``there``, and lives on."""
    words = [sys.executable, "-c", connect + source, str(target)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


ATTACKS = {
    "a thousand connections": "clients = [connected() for _ in range(1000)]; there()",
    "half lines": """
clients = [connected() for _ in range(100)]
for client in clients:
    say(client, b'{"version":1,"req')
there()
""",
    "descriptors": """
clients = [connected() for _ in range(15)]
for client in clients:
    rights = array.array("i", [0] * 250)
    client.sendmsg([b'{"version":1'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
there()
""",
    "nobody reads": """
clients = []
for _ in range(300):
    clients.append(connected())
    say(clients[-1], b'{"version":1,"request":"status"}\\n')
there()
""",
    "all are stopped": """
clients = [connected() for _ in range(16)]
os.write(1, b"there\\n")
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(600)
""",
    "for ever": """
def attack():
    while True:
        try:
            connected().send(b"{")
        except OSError:
            time.sleep(0.1)
threading.Thread(target=attack, daemon=True).start()
there()
""",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_clients_do_others_are_answered_and_no_rank_notices(bad_day, way, attack):
    with counting(bad_day) as (job, path), attacker(ATTACKS[attack], path):
        for _ in range(5):
            assert ask(path, "ping")["ok"] is True
        assert len(ask(path, "status")["ranks"]) == RANKS
        connections = [name for name in job.open_files if name.startswith("socket:")]
        assert len(connections) < 50


HUNDRED_MEGABYTES = """
client = connected()
try:
    for _ in range(100):
        client.sendall(b"x" * (1 << 20))
except (BrokenPipeError, ConnectionResetError):
    os.write(1, b"there\\n")
time.sleep(600)
"""


def test_a_hundred_megabytes_without_a_newline_are_not_kept(bad_day, way):
    with counting(bad_day) as (job, path):
        ask(path, "ping")
        before = job.memory
        with attacker(HUNDRED_MEGABYTES, path):
            assert ask(path, "ping")["ok"] is True
            assert job.memory < before + (8 << 20)


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_without_a_free_descriptor_it_answers_and_stops(bad_day, way):
    with counting(bad_day) as (job, path):
        ask(path, "ping")
        with no_free_descriptor(job):
            idle = connected(path)
            for _ in range(3):
                assert ask(path, "status")["ok"] is True
            assert b"expected a line" in read_line(idle)
            idle.close()


@contextmanager
def no_free_descriptor(job: Running) -> Iterator[None]:
    taken = {int(link.name) for link in Path(f"/proc/{job.pid}/fd").iterdir()}
    free = next(number for number in range(len(taken) + 1) if number not in taken)
    usual = resource.prlimit(job.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(job.pid, resource.RLIMIT_NOFILE, (free, usual[1]))
    try:
        yield
    finally:
        resource.prlimit(job.pid, resource.RLIMIT_NOFILE, usual)


AS_ANOTHER = """
client = connected()
client.sendall(b'{"version":1,"request":"stop"}\\n')
sys.stdout.write(client.makefile().readline())
"""


def asked_by_another(path: Path) -> subprocess.CompletedProcess[str]:
    # The directory is entered as root; then the user is changed.
    words = [sys.executable, "-c", f"{CONNECT}os.setuid({NOBODY})\n{AS_ANOTHER}", str(path)]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_another_user_may_not_ask_whatever_the_mode_is(bad_day, way):
    if os.geteuid():
        pytest.skip("becoming another user needs root")
    with counting(bad_day) as (job, path):
        assert "PermissionError" in asked_by_another(path).stderr
        path.chmod(0o666)
        refused = json.loads(asked_by_another(path).stdout)
        assert refused["ok"] is False
        assert refused["error"] == (
            f"user {NOBODY} may not ask; ask as user 0, the supervisor's, or root"
        )
        assert not job.all("control.requested")


ASKS = """
import os, time
os.write(1, os.environ["NOTIFY_SOCKET"].encode() + b"\\n")
while not os.path.exists("enough"):
    time.sleep(0.01)
"""


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_a_file_system_that_hangs_at_first_has_the_socket_later(bad_day, way, place):
    with hanging(place, way.uid, "disk") as (disk,):
        disk.freeze()
        state = disk.target / "state.json"
        job = bad_day("--standalone", "1", "--state-file", str(state), *python(ASKS))
        # The ranks do not wait for it: they get a notify socket that needs no file.
        assert job.wait_for("output", rank=0)["msg"].startswith("@ascend_supervisor.")
        told = job.wait_for("diagnostic", source="the control socket")
        assert told["message"] == (
            f"{state}.sock: the file system does not answer; it is there as soon as that does"
        )
        disk.thaw()
        path = disk.target / "state.json.sock"
        wait_until(path.exists)
        assert ask(path, "ready")["ready"] is True
        (job.root / "modelarts").parent.joinpath("enough").touch()
        assert job.end() == 0
        left = [file.name for file in disk.source.iterdir()]
        assert not [name for name in left if name.endswith((".sock", ".notify"))]


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_a_file_system_that_hangs_to_the_end_ends_no_later_for_it(bad_day, way, place):
    with hanging(place, way.uid, "disk") as (disk,):
        disk.freeze()
        state = disk.target / "state.json"
        job = bad_day("--standalone", "1", "--state-file", str(state), *python(ASKS))
        job.wait_for("diagnostic", source="the control socket")
        job.send(signal.SIGTERM)
        assert job.end() == 143
        assert not job.all("supervisor.defect")


# Looks ------------------------------------------------------------------------------------------


def dumped(job: Running, path: Path) -> str:
    """What a dump says of two ranks that go on; they have files of their own."""
    answer = ask(path, "dump")
    assert answer["ok"] is True, answer
    told = job.wait_for("stacks.taken")
    assert answer["summary"] == told["summary"]
    return str(answer["summary"])


def test_a_look_needs_no_privileges(bad_day, way):
    with counting(bad_day) as (job, path):
        assert "rank" in dumped(job, path)
        (taken,) = job.all("stacks.taken")
        assert taken["files"] == ["rank-0.txt", "rank-1.txt"]
        for name in taken["files"]:
            page = Path(taken["directory"], name).read_text()
            assert "  Thread " in page or "  Python thread " in page


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_a_look_without_a_free_descriptor_says_where_the_ranks_are(bad_day, way):
    with counting(bad_day) as (job, path):
        ask(path, "ping")
        with no_free_descriptor(job):
            assert "rank" in dumped(job, path)


def test_a_supervisor_that_is_stopped_answers_when_it_goes_on(bad_day, way):
    with counting(bad_day) as (job, path):
        job.send(signal.SIGSTOP)
        with connected(path) as client:
            client.sendall(b'{"version":1,"request":"ping"}\n')
            client.settimeout(0.5)
            with pytest.raises(TimeoutError):
                client.recv(1)
            job.send(signal.SIGCONT)
            client.settimeout(DEADLINE_SECONDS)
            assert json.loads(read_line(client))["ok"] is True


def test_a_stop_is_heard_while_others_attack(bad_day, way):
    job = bad_day("--standalone", "1", *python("import time; print('up'); time.sleep(600)"))
    path = socket_of(job)
    wait_until(path.exists)
    with attacker(ATTACKS["a thousand connections"], path):
        assert ask(path, "stop")["ok"] is True
        assert job.end() == 143
