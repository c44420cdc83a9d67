"""The notify socket of a whole job: who finds it, and what becomes of it."""

from __future__ import annotations

import json
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent

import pytest

from tests.checking import Check
from tests.running import Running, python

NAMES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
SHOWS = python(
    f"import json, os; print(json.dumps([os.environ.get(name) for name in {NAMES}]), flush=True)"
)
INHERITED = {"NOTIFY_SOCKET": "/run/systemd/notify", "WATCHDOG_USEC": "5", "WATCHDOG_PID": "7"}
UP = python("import time; print('up', flush=True); time.sleep(600)")


def socket_of(job: Running) -> Path:
    (found,) = job.log_dir.glob("*-supervisor-*.json.notify")
    return found


def shown(job: Running, rank: int = 0) -> list[str | None]:
    assert job.end() == 0, job.stderr
    values: list[str | None] = json.loads(job.said(rank)[0])
    return values


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path is short enough for the socket to be a file."""
    with TemporaryDirectory(prefix="n-", dir="/tmp") as root:
        yield Path(root)


def test_ranks_find_a_socket_of_ours_and_nothing_that_was_inherited(short, supervised):
    job = supervised("--standalone", "2", *SHOWS, environ=INHERITED, root=short)
    place = job.log_dir / "modelarts-job-test-supervisor-job-test-0.json.notify"
    assert shown(job) == json.loads(job.said(1)[0]) == [str(place), None, None]


def test_the_watchdog_is_told(supervised):
    job = supervised("--standalone", "1", "--watchdog", "3600", *SHOWS, environ=INHERITED)
    assert shown(job)[1:] == ["3600000000", None]


def test_a_variable_of_the_users_wins(supervised):
    job = supervised("--standalone", "1", "--rank-env", "NOTIFY_SOCKET=/mine", *SHOWS)
    assert shown(job)[0] == "/mine"


@pytest.mark.parametrize(("options", "is_told"), [((), False), (("--watchdog", "3600"), True)])
def test_a_command_keeps_its_environment_unless_an_option_needs_messages(
    supervised, options, is_told
):
    job = supervised("--method", "once", *options, *SHOWS, environ=INHERITED)
    assert job.end() == 0
    (line,) = [event["msg"] for event in job.all("output")]
    usual = list(INHERITED.values())
    found = json.loads(line)
    assert (found != usual) == is_told
    assert not is_told or found[1:] == ["3600000000", None]


def test_the_plan_shows_where_it_will_be(check: Check):
    options = ("--standalone", "1", "--state-file", "/short/state.json")
    (process,) = check.plan(INHERITED, *options).processes
    expected = {"NOTIFY_SOCKET": "/short/state.json.notify"}
    assert process.has(*NAMES) == {**dict.fromkeys(NAMES), **expected}
    assert not Path("/short").exists()


def test_a_watchdog_is_refused_where_ranks_cannot_reach_the_socket(check: Check):
    environ = {"VC_WORKER_HOSTS": "w-0,w-1", "VC_TASK_INDEX": "0", "MA_NUM_HOSTS": "2"}
    environ |= {"MA_NUM_GPUS": "2"}
    sentence = check.refusal(environ, "--method", "mpirun", "--watchdog", "60")
    assert "--watchdog cannot be used with --method mpirun on several servers" in sentence


def test_only_its_user_may_write_to_its_file(short, supervised):
    before = ("sh", "-c", 'umask 0; exec "$@"', "sh")
    job = supervised("--standalone", "1", *UP, root=short, before=before)
    job.wait_for("output", msg="up")
    assert stat.S_IMODE(socket_of(job).stat().st_mode) == 0o600
    job.send(signal.SIGTERM)
    assert job.end() == 143


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--standalone", "1", "--", "true"), 0),
        (("--standalone", "1", "--", "false"), 1),
        (("--standalone", "1", "--", "/no/such/program"), 127),
        (("--rank-table", "table", "--", "true"), 65),
    ],
    ids=str,
)
def test_the_file_of_the_socket_is_removed_at_every_end(short, supervised, options, code):
    (short / "table").write_text('{"status": "completed", "version": "1.0"}')
    job = supervised(*options, root=short)
    assert job.end() == code
    assert not list(job.log_dir.glob("*.notify"))
    assert list(job.log_dir.glob("*.json.lock"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_is_removed_when_we_are_told_to_stop(short, supervised, number):
    job = supervised("--standalone", "1", *UP, root=short)
    job.wait_for("output", msg="up")
    assert socket_of(job).is_socket()
    job.send(number)
    assert job.end() == 128 + number
    assert not list(job.log_dir.glob("*.notify"))


def test_what_a_killed_supervisor_left_is_replaced(short, supervised):
    job = supervised("--standalone", "1", *UP, root=short)
    job.wait_for("output", msg="up")
    left = socket_of(job)
    job.send(signal.SIGKILL)
    job.end()
    assert left.is_socket()
    barrier = "import os, socket\n" + BARRIER
    again = supervised("--standalone", "1", *python(barrier), root=short)
    assert again.end() == 0, again.stderr
    assert again.said(0) == ["read"]


BARRIER = """\
reading, writing = os.pipe()
address = os.environ["NOTIFY_SOCKET"]
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
    sender.connect(address if address[0] == "/" else chr(0) + address[1:])
    socket.send_fds(sender, [b"BARRIER=1"], [writing])
os.close(writing)
assert os.read(reading, 1) == b""
print("read", flush=True)
"""
"""Ends when the supervisor has read the message: the kernel closes what came with it."""


def test_messages_are_read_in_the_back_off(short, supervised):
    """Whoever still speaks must not wait."""
    options = ("--standalone", "1", "--restarts", "1", "--restart-delay", "600")
    job = supervised(*options, "--release-delay", "600", "--", "false", root=short)
    job.wait_for("restart.scheduled")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(30)
        sender.connect(str(socket_of(job)))
        for _ in range(1000):  # more than the queue holds
            sender.send(b"WATCHDOG=1")
    job.send(signal.SIGTERM)
    assert job.end() == 143


LAST_WORDS = f"""\
import os, signal, socket
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("up", flush=True)
signal.sigwait([signal.SIGTERM])
for _ in range(50):
{indent(BARRIER, "    ")}
"""


def test_messages_are_read_while_a_generation_is_ended(supervised):
    job = supervised("--standalone", "1", "--grace", "600", *python(LAST_WORDS))
    job.wait_for("output", msg="up")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert job.said(0).count("read") == 50


FLOOD = """\
import os, socket, sys, time
address = os.environ["NOTIFY_SOCKET"]
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
    sender.connect(address if address[0] == "/" else chr(0) + address[1:])
    for number in range(1000): sender.send(b"STATUS=%d" % number)
    print("floods", flush=True)
    end = time.monotonic() + 100
    while time.monotonic() < end: sender.send(b"STATUS=flood")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_flood_keeps_no_signal_from_acting(supervised, number):
    job = supervised("--standalone", "2", *python(FLOOD))
    for rank in range(2):
        job.wait_for("output", rank=rank, msg="floods")
    job.send(number)
    assert job.end() == 128 + number
    job.wait_for("signal.received", signal=number.name)
    assert not job.survivors()


WAITS = """\
import os, socket, time
address = os.environ["NOTIFY_SOCKET"]
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
    sender.connect(address if address[0] == "/" else chr(0) + address[1:])
    print("up", flush=True)
    while not os.path.exists("go"): time.sleep(0.01)
    for _ in range(1000): sender.send(b"WATCHDOG=1")
print("sent", flush=True)
"""


def test_ranks_that_waited_for_a_stopped_supervisor_go_on_with_it(supervised):
    job = supervised("--standalone", "1", "--rank-dir", "same", *python(WAITS))
    job.wait_for("output", msg="up")
    job.send(signal.SIGSTOP)
    (job.root / "go").touch()
    job.send(signal.SIGCONT)
    assert job.end() == 0
    assert job.said(0) == ["up", "sent"]
