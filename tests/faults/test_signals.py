"""A signal to stop is obeyed in every state, within what that state promises, however often."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor import events
from ascend_supervisor.events.generations import ProcessStarted
from ascend_supervisor.outcome import Interrupted
from ascend_supervisor.processes.kernel import become_subreaper
from ascend_supervisor.processes.proc import descendants
from ascend_supervisor.stop_requests import IMPATIENT_SECONDS
from tests.faults.ways import Way
from tests.running import DEADLINE_SECONDS, Event, Running, begins_in_python, python, wait_until
from tests.workers.test_generation import Stage

FOR_EVER = "1000h"
"""What no test could wait for; a back-off of it is random, and short in one of millions."""

SAVES = """
import os, signal, time
asked = []
def ask(number, _):
    asked.append(number)
    os.write(1, b"asked\\n")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, ask)
os.write(1, b"up\\n")
while not (asked and os.path.exists("../../../room")):
    time.sleep(0.01)
open("checkpoint", "w").close()
"""
"""A rank that is asked to end, and does so with 0 as soon as the test makes room for it."""

Reach = Callable[[Running], object]


def everybody_is_up(job: Running, ranks: int = 2) -> None:
    for rank in range(ranks):
        job.wait_for("output", rank=rank, msg="up")


def rank_1_has_failed(job: Running) -> None:
    everybody_is_up(job)
    failing = job.wait_for("process.started", rank=1)["child_pid"]
    os.kill(job.seen_from_here(failing), signal.SIGKILL)
    job.wait_for("process.exited", rank=1, first_failure=True)


def the_grace_runs(job: Running) -> None:
    rank_1_has_failed(job)
    job.wait_for("output", rank=0, msg="asked")


def it_records(job: Running) -> None:
    job.wait_until_it_catches(signal.SIGQUIT)  # the last of the three


def it_begins_to_listen(job: Running) -> None:
    it_records(job)  # before, a shell of its way may catch the same signal
    job.wait_until_it_catches(signal.SIGCHLD)  # the first that the event loop listens to


@dataclass(frozen=True, slots=True)
class State:
    """``reach`` waits until a supervisor with these ``options`` is in it.

    The ranks ``saving`` are asked to end and may take for ever, until an impatient signal.
    ``cause`` begins the root cause; None where nothing has failed. ``generations`` have been
    started.
    """

    name: str
    options: tuple[str, ...]
    reach: Reach
    saving: tuple[int, ...] = ()
    cause: str | None = None
    generations: int | None = 1


APART = ("--standalone", "2", "--rank-dir", "device")
SAVING = (*APART, *python(SAVES))
FAILING = ("--standalone", "1", "--restarts", "5", "--", "false")
RANK_0_FAILED = "rank 0 failed first, in generation 0: it exited with status 1"
RANK_1_FAILED = "rank 1 failed first, in generation 0: it was killed by SIGKILL"

HARDLY_STARTED = State(
    "before anything is imported",
    ("--standalone", "1", "--", "sleep", "600"),
    it_records,
    generations=0,
)
LISTENING = State(
    "as its event loop begins to listen",
    HARDLY_STARTED.options,
    it_begins_to_listen,
    generations=None,  # it goes on while we look
)
WAITING = State(
    "while it waits for the table",
    ("--rank-table", "table.json", "--rank-table-timeout", FOR_EVER, "--", "true"),
    lambda job: job.wait_for("rank_table.waiting"),
    generations=0,
)
RUNNING = State(
    "while the ranks run", ("--grace", FOR_EVER, *SAVING), everybody_is_up, saving=(0, 1)
)
DRAINING = State(
    "in the drain",  # the rest of which is theirs who save, whatever the grace
    ("--drain", FOR_EVER, "--grace", "0", *SAVING),
    rank_1_has_failed,
    saving=(0,),
    cause=RANK_1_FAILED,
)
IN_GRACE = State(
    "in the grace",
    ("--grace", FOR_EVER, *SAVING),
    the_grace_runs,
    saving=(0,),
    cause=RANK_1_FAILED,
)
BACKING_OFF = State(
    "in the back-off",
    ("--restart-delay", FOR_EVER, "--restart-delay-max", FOR_EVER, *FAILING),
    lambda job: job.wait_for("restart.scheduled"),
    cause=RANK_0_FAILED,
)
RELEASING = State(
    "in the release wait",
    ("--restart-delay", "0", "--release-delay", FOR_EVER, *FAILING),
    lambda job: job.wait_for("restart.scheduled"),
    cause=RANK_0_FAILED,
)
STATES = (
    HARDLY_STARTED,
    LISTENING,
    WAITING,
    RUNNING,
    DRAINING,
    IN_GRACE,
    BACKING_OFF,
    RELEASING,
)


def named(*states: State) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("state", states, ids=[state.name for state in states])


@pytest.fixture
def in_state(bad_day, place: Path) -> Callable[[State], Running]:
    def start(state: State) -> Running:
        (place / "table.json").write_text('{"status": "initializing"}')
        job: Running = bad_day(*state.options)
        state.reach(job)
        return job

    return start


@named(*STATES)
def test_once(in_state, state):
    stop_once(in_state(state), state, signal.SIGTERM)


TIMES = 10


# Privileges decide whom we may signal, and a single signal has shown that.
@pytest.mark.parametrize("way", ["ordinary", "pid_1"], indirect=True)
@named(*STATES)
def test_a_repeated_sigterm_is_the_same_request(in_state, state):
    job = in_state(state)
    job.send(signal.SIGTERM)
    if state.saving:
        wait_until_they_are_asked(job, state)
    for times in range(2, TIMES + 1):
        with suppress(ProcessLookupError):  # where one was enough, it may be over
            job.send(signal.SIGTERM)
        if state.saving:
            heard(job, times)
    make_room(job)
    has_ended_by(signal.SIGTERM, job, state)
    for rank in state.saving:
        assert job.wait_for("process.exited", rank=rank)["status"] == 0
        assert job.said(rank).count("asked") == 1  # a launcher's second one may be its last


@pytest.mark.parametrize("way", ["ordinary", "pid_1"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGINT])
@named(RUNNING, DRAINING, IN_GRACE)
def test_an_impatient_signal_kills_what_is_left(in_state, state, number):
    job = in_state(state)
    job.send(signal.SIGTERM)
    wait_until_they_are_asked(job, state)
    if number == signal.SIGINT:
        time.sleep(IMPATIENT_SECONDS)  # sooner, it is the same request
    job.send(number)
    has_ended_by(signal.SIGTERM, job, state)
    killed = {event["rank"] for event in job.all("process.exited", signal="SIGKILL")}
    assert killed >= set(state.saving)


# A pod is deleted: a preStop hook signals the processes, then kubelet signals PID 1.


def hook_signals(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # when one has died, we end the others
            os.kill(pid, signal.SIGTERM)


def test_a_hook_that_signals_all_of_us_and_kubelet_are_one_request(bad_day):
    job = bad_day("--grace", FOR_EVER, *SAVING)
    everybody_is_up(job)
    hook_signals(*(pid for pid in job.pids() if is_python(pid)))
    wait_until_they_are_asked(job, RUNNING)
    job.send(signal.SIGTERM)
    heard(job, 2)
    make_room(job)
    has_ended_by(signal.SIGTERM, job, RUNNING)
    # Our own SIGTERM may still end one that has saved, and is about to end with 0.
    assert not job.all("process.exited", signal="SIGKILL")
    assert len(list(job.root.glob("modelarts/workspace/device*/checkpoint"))) == 2


def is_python(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().startswith("python")


RANK_1_ENDS = f"""
import os, time
if os.environ["RANK"] == "1":
    os.write(1, b"up\\n")
    time.sleep(600)
{SAVES}
"""


@pytest.mark.parametrize(
    ("source", "saving"),
    [(RANK_1_ENDS, (0,)), ("import time; print('up', flush=True); time.sleep(600)", ())],
    ids=["one of them saves", "none of them listens"],
)
def test_ranks_that_a_hook_has_ended_are_no_failure_when_kubelet_stops_us(bad_day, source, saving):
    restarts = ("--restarts", "3", "--restart-delay", "0", "--release-delay", "0")
    job = bad_day("--grace", FOR_EVER, *restarts, *APART, *python(source))
    everybody_is_up(job)
    ranks = [event["child_pid"] for event in job.all("process.started")]
    hook_signals(*map(job.seen_from_here, ranks))
    job.wait_for("process.exited", rank=1, signal="SIGTERM")
    job.send(signal.SIGTERM)
    heard(job)
    make_room(job)
    has_ended_by(signal.SIGTERM, job, replace(RUNNING, saving=saving))
    (ended,) = job.all("generation.ended")
    assert (ended["outcome"], ended["first_failed_rank"]) == ("interrupted", None)
    assert not job.all("process.exited", signal="SIGKILL")
    assert len(list(job.root.glob("modelarts/workspace/device*/checkpoint"))) == len(saving)


# How a signal is heard has nothing to do with who we are.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
@named(WAITING, RUNNING, BACKING_OFF)
def test_another_signal_to_stop(in_state, state, number):
    stop_once(in_state(state), state, number)


def stop_once(job: Running, state: State, number: signal.Signals) -> None:
    job.send(number)
    if state.saving:
        wait_until_they_are_asked(job, state)
        make_room(job)
    has_ended_by(number, job, state)
    assert [event["signal"] for event in job.all("signal.received")] == [number.name]
    for rank in state.saving:
        assert job.wait_for("process.exited", rank=rank)["status"] == 0


def wait_until_they_are_asked(job: Running, state: State) -> None:
    """And the supervisor has heard: two signals that are pending together are one."""
    heard(job)
    for rank in state.saving:
        job.wait_for("output", rank=rank, msg="asked")


def heard(job: Running, times: int = 1) -> None:
    list(islice(job.each("signal.received"), times))


def make_room(job: Running) -> None:
    (job.root / "room").touch()


def has_ended_by(number: signal.Signals, job: Running, state: State) -> None:
    end = told_end(job, 128 + number)
    assert end["reason"].endswith(f"told to stop by {number.name}")
    started = len(job.all("generation.started"))
    assert end["generations"] == started
    assert state.generations in {started, None}
    if state.cause is None:
        assert end["root_cause"] is None
    else:
        assert end["root_cause"].startswith(state.cause)


def told_end(job: Running, code: int) -> Event:
    """The last event, when it has ended with ``code`` and told everything that belongs to it."""
    assert job.end() == code, job.events[-1:]
    assert [event["seq"] for event in job.events] == list(range(len(job.events)))
    (end,) = job.all("supervisor.exited")
    assert end is job.events[-1]
    assert end["exit_code"] == code
    started = [event["generation"] for event in job.all("generation.started")]
    assert [event["generation"] for event in job.all("generation.ended")] == started
    processes = sorted(event["child_pid"] for event in job.all("process.started"))
    assert sorted(event["child_pid"] for event in job.all("process.exited")) == processes
    assert state_of(job)["phase"] == "ended"
    assert state_of(job)["exit_code"] == code
    return end


def state_file(job: Running) -> Path:
    return job.log_dir / "modelarts-job-test-supervisor-job-test-0.json"


def state_of(job: Running) -> Any:
    return json.loads(state_file(job).read_text())


LISTENS = """
import os, signal
from ascend_supervisor.cli import main
set_wakeup_fd = signal.set_wakeup_fd

def set_and_send(*arguments, **options):
    signal.set_wakeup_fd = set_wakeup_fd
    before = set_wakeup_fd(*arguments, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    return before

signal.set_wakeup_fd = set_and_send
main()
"""
"""The program, to which SIGTERM is sent as soon as the event loop is told of signals."""


def test_a_signal_that_comes_between_two_listeners_is_heard_once(tmp_path):
    (tmp_path / "log").mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", LISTENS, *HARDLY_STARTED.options],
        env={"PATH": os.environ["PATH"], "MA_MOUNT_PATH": str(tmp_path)},
        cwd=tmp_path,
        check=False,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
    )
    told = [json.loads(line)["event"] for line in ended.stdout.splitlines()]
    assert told == ["supervisor.started", "signal.received", "supervisor.exited"]
    assert ended.returncode == 143


# A grace that somebody needs is waited for, and not longer.


def test_ranks_that_ignore_it_are_killed_after_the_grace(bad_day):
    job = bad_day("--grace", "0.5", *SAVING)
    everybody_is_up(job)
    began = time.monotonic()
    job.send(signal.SIGTERM)
    has_ended_by(signal.SIGTERM, job, RUNNING)
    assert time.monotonic() - began >= 0.5
    assert {event["signal"] for event in job.all("process.exited")} == {"SIGKILL"}


# Before the first start somebody may hold a device: /dev is ours here, and has one.

HELD = """
cd "$1"
touch null davinci0
mount --bind /dev/null null
mount --rbind . /dev
sleep 600 < /dev/davinci0 > /dev/null 2>&1 &
shift
exec "$@"
"""


# As PID 1 it would not see the holder, nor as somebody else what the holder has opened.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
@pytest.mark.parametrize("times", [1, 2])
def test_while_a_device_is_held(bad_day, tmp_path, times):
    if os.geteuid():
        pytest.skip("a /dev of our own needs root")
    # Two cases may run at the same time, and each sees the holder of the other.
    held = HELD.replace("davinci0", f"davinci{times}")
    before = ("unshare", "--mount", "sh", "-e", "-c", held, "sh", str(tmp_path))
    job = bad_day("--standalone", "1", "--", "true", before=before)
    holder = int(job.wait_for("release.waiting")["remaining"][0].split()[0])
    for _ in range(times):
        job.send(signal.SIGTERM)
    has_ended_by(signal.SIGTERM, job, WAITING)
    os.kill(holder, signal.SIGKILL)  # it was there before the supervisor, and is none of its own
    wait_until(lambda: not job.survivors())


# While the last bytes of the ranks are drained.

WORDS = 1500 * (999 * b"x" + b"\n")
"""More than fits into the pipe that is the log, or our stdout; less than is kept for a disk."""
SAYS_MUCH = f"""
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}})
open("up", "w").close()
sys.argv[1] == "asked" and signal.sigwait({{signal.SIGTERM}})
words = {len(WORDS)} // 1000 * (999 * b"x" + b"\\n")
while words:
    words = words[os.write(1, words):]
os._exit(int(sys.argv[2]))
"""
TALKING = ("--standalone", "1", *python(SAYS_MUCH))
OURS = re.compile(rb"^\[ascend_supervisor\] [^\n]*\n", re.MULTILINE)


@pytest.fixture
def fifo(place: Path, way: Way) -> Iterator[int]:
    with pipe_for_log(place, way.uid) as reader:
        yield reader


@contextmanager
def pipe_for_log(place: Path, uid: int) -> Iterator[int]:
    """The reading end of what will be the log of rank 0."""
    log = place / "modelarts" / "log" / "modelarts-job-test-proc-rank-0-device-0.txt"
    log.parent.mkdir(parents=True)
    os.mkfifo(log)
    os.chown(log, uid, -1)
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield reader
    finally:
        os.close(reader)


@pytest.mark.parametrize("times", [1, 2])
def test_while_the_last_bytes_are_drained(bad_day, fifo, times):
    job = bad_day(*TALKING, "asked", "0")
    wait_until((job.root / "up").exists)
    job.send(signal.SIGTERM)
    job.wait_for("generation.ended", outcome="interrupted")
    for sent in range(times):
        job.send(signal.SIGTERM)
        heard(job, 1 + sent + 1)
    assert OURS.sub(b"", the_rest(fifo)) == WORDS
    has_ended_by(signal.SIGTERM, job, RUNNING)
    assert not job.all("log.lost")


# When a signal comes has nothing to do with who we are.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
@pytest.mark.parametrize("code", [0, 3])
def test_what_a_job_has_come_to_before_the_signal_stands(bad_day, fifo, code):
    job = bad_day(*TALKING, "at once", str(code))
    job.wait_for("generation.ended", next="stop")
    job.send(signal.SIGTERM)
    heard(job)
    assert OURS.sub(b"", the_rest(fifo)) == WORDS
    told_end(job, code)


# One way is enough to wait for the seconds that a writer may stand still.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_last_bytes_that_nobody_takes_are_not_waited_for(bad_day, fifo):
    read_end, write_end = os.pipe()
    job = bad_day(*TALKING, "asked", "0", stdout=write_end)
    os.close(write_end)
    wait_until((job.root / "up").exists)
    job.send(signal.SIGTERM)
    wait_until(lambda: state_file(job).exists() and state_of(job)["ranks"][:1] != [])
    wait_until(lambda: state_of(job)["ranks"][0]["status"] == 0)
    for _ in range(2):
        job.send(signal.SIGTERM)
    assert job.end() == 143  # although the test never reads
    assert (state_of(job)["phase"], state_of(job)["exit_code"]) == ("ended", 143)
    os.close(read_end)


# When a signal comes has nothing to do with who we are.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_nothing_follows_the_last_event_while_it_is_flushed(bad_day):
    read_end, write_end = os.pipe()
    job = bad_day(*TALKING, "at once", "0", stdout=write_end)
    os.close(write_end)
    wait_until(lambda: state_file(job).exists() and state_of(job)["phase"] == "ended")
    ended = state_of(job)
    job.send(signal.SIGTERM)
    told = [json.loads(line)["event"] for line in the_rest(read_end).splitlines()]
    os.close(read_end)
    assert job.end() == 0
    assert (told[-1], told.count("supervisor.exited")) == ("supervisor.exited", 1)
    assert state_of(job) == ended


def the_rest(pipe: int) -> bytes:
    """Everything until its writer ends."""
    os.set_blocking(pipe, True)
    with open(pipe, "rb", closefd=False) as file:
        return file.read()


# Between the start of two ranks.

RANKS = 16
TRIES = 20


@pytest.mark.parametrize("times", [1, 2])
def test_between_the_start_of_two_ranks(bad_day, times):
    polite = ("--", "sleep", "600")
    stubborn = ("--", "sh", "-c", 'trap "" TERM; exec sleep 600')
    command = polite if times == 1 else stubborn
    for _ in range(TRIES):
        job = bad_day("--standalone", str(RANKS), "--grace", FOR_EVER, *command)
        job.wait_for("process.started")
        job.send(signal.SIGTERM)
        if times > 1:
            heard(job)
            with suppress(ProcessLookupError):  # perhaps no rank was up to ignoring it yet
                job.send(signal.SIGQUIT)
        has_ended_by(signal.SIGTERM, job, RUNNING)
        ranks = [event["rank"] for event in job.all("process.started")]
        assert ranks == list(range(len(ranks)))
        if len(ranks) < RANKS:
            return
    pytest.fail(f"{TRIES} times all {RANKS} ranks had been started before the signal was heard")


HEARD_WITHIN = 6
"""So many ranks may still be started: a signal takes some turns of the event loop."""


@dataclass
class SignalsAtStart(list[events.Event]):
    """Events; when ``rank`` has been started, this process gets these signals."""

    rank: int
    numbers: tuple[signal.Signals, ...]
    started: list[int | None] = field(default_factory=list)

    def append(self, event: events.Event) -> None:
        super().append(event)
        if isinstance(event, ProcessStarted):
            self.started.append(event.rank)
            for number in self.numbers if event.rank == self.rank else ():
                signal.raise_signal(number)


@pytest.mark.parametrize("numbers", [(signal.SIGTERM,), (signal.SIGTERM, signal.SIGQUIT)])
async def test_after_the_start_of_any_rank(tmp_path, numbers):
    become_subreaper()
    stubborn = ("sh", "-c", 'trap "" TERM; exec sleep 600')
    command = stubborn if len(numbers) > 1 else ("sleep", "600")
    for rank in range(RANKS):
        told = SignalsAtStart(rank, numbers)
        stage = Stage(tmp_path, events=told)
        specs = [stage.spec(number, "", argv=command) for number in range(RANKS)]
        with answering(stage):
            outcome = await stage.run(specs, grace=600)
        assert isinstance(outcome, Interrupted)
        assert outcome.stop.number == signal.SIGTERM
        assert told.started == list(range(len(told.started)))
        assert rank < len(told.started) <= rank + 1 + HEARD_WITHIN
        assert stage.exits.keys() == set(told.started)
        assert descendants(os.getpid()) == []
        await stage.logs.finish()


@contextmanager
def answering(stage: Stage) -> Iterator[None]:
    """Meanwhile this process hears of its children and of signals as the program does."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, stage.children.reap)
    for number in (signal.SIGTERM, signal.SIGQUIT):
        loop.add_signal_handler(number, partial(stage.interrupts.hear, number))
    try:
        yield
    finally:
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGQUIT):
            loop.remove_signal_handler(number)


# A signal of the user's, where those whom it is for are not there yet.

LAUNCHER = """{begins}
import os, signal, subprocess, sys, time
open({here!r}, "w").close()
while not os.path.exists({go!r}):
    time.sleep(0.01)
WORKER = "import signal, sys, time; heard = []"
WORKER += "; signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))"
WORKER += "; open(sys.argv[1], 'w').close()\\nwhile not heard: time.sleep(0.01)"
words = [sys.executable, "-S", "-c", WORKER, {listens!r}]
sys.exit(subprocess.call(words, start_new_session=True))
"""
"""As torchrun and msrun do it: no handler, and workers that lead sessions, after a while."""
MPIRUN = "#!/bin/sh\n: > {here}\nuntil [ -e {go} ]; do sleep 0.05; done\n"


@pytest.fixture
def launching(bad_day, place) -> Callable[[str], Running]:
    """A job whose launcher, which we write, has no workers before ``place / "go"`` is there."""

    def start(method: str) -> Running:
        launcher = place / method
        source = MPIRUN if method == "mpirun" else LAUNCHER
        files = {name: str(place / name) for name in ("here", "go", "listens")}
        launcher.write_text(source.format(begins=begins_in_python("-S"), **files))
        launcher.chmod(0o755)
        (place / "train.py").touch()
        job: Running = bad_day(
            *("--standalone", "1", "--method", method, "--grace", FOR_EVER, "--"),
            str(place / "train.py"),
            environ={"PATH": f"{place}:{os.environ['PATH']}"},
        )
        wait_until((place / "here").exists)
        return job

    return start


# Who we are has nothing to do with what a launcher has started.
in_one_way = pytest.mark.parametrize("way", ["ordinary"], indirect=True)


@in_one_way
@pytest.mark.parametrize("method", ["torchrun", "msrun"])
def test_a_launcher_without_workers_does_not_die_of_a_signal_for_them(launching, place, method):
    job = launching(method)
    job.send(signal.SIGUSR1)
    told = job.wait_for("signal.received", signal="SIGUSR1")
    assert told["effect"] == "no rank runs that it could be forwarded to"
    (place / "go").touch()
    wait_until((place / "listens").exists)
    job.send(signal.SIGUSR1)
    assert job.end() == 0
    assert job.all("signal.received")[1]["effect"] == "forwarded to the ranks"


@in_one_way
def test_mpirun_that_does_not_listen_yet_does_not_die_of_a_signal_for_its_ranks(launching, place):
    job = launching("mpirun")
    job.send(signal.SIGUSR1)
    dropped = "ascend_supervisor: SIGUSR1 is dropped: mpirun does not listen to it"
    job.wait_for("output", msg=dropped)
    (place / "go").touch()
    assert job.end() == 0


@in_one_way
@pytest.mark.parametrize("method", ["torchrun", "mpirun"])
def test_a_launcher_without_workers_is_ended_by_sigquit_without_a_grace(launching, method):
    job = launching(method)
    job.send(signal.SIGQUIT)
    assert job.end() == 131
    exited = job.wait_for("process.exited")
    assert (exited["signal"], exited["status"]) in {("SIGTERM", None), (None, 143)}
