"""Random signals hit random processes of a job for a while, in all ways at the same time.

What was chosen by chance is chosen again with the seed that a failure tells: FAULT_SEED=N. The
while is FAULT_SECONDS; CI takes a minute.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest

from tests.faults.ways import ORDINARY, PID_1, Way, unprivileged
from tests.running import DEADLINE_SECONDS, Event, Running

SECONDS = 20.0
EVERY_SECONDS = 0.05
ZOMBIE_SECONDS = 5.0
"""A dead child is waited for at once, or in the sweep of every second; the rest is for the load."""
ZOMBIE_GENERATIONS = 2
"""So many must have ended meanwhile, too: on a busy machine seconds alone tell little."""
SIGNALS = [
    *(signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT, signal.SIGUSR1),
    *(signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGSEGV),
    *(signal.SIGABRT, signal.SIGPIPE, signal.SIGALRM),
]
RANKS = 2
ROLES = 3
"""The rank, a child in its process group, and a daemon that has left it: all three write."""
COUNT_BYTES = 8
GENERATIONS = 20_000
"""There is room to count the lines of so many; a minute has some hundreds."""
FEW_SECONDS = 3.0
"""Fewer generations than one in so many seconds are hardly any."""
STOPPED = 128 + signal.SIGTERM
STATE_FILE = "modelarts-job-test-supervisor-job-test-0.json"
EXPECTED = {
    *("supervisor.started", "rank_table.ready", "generation.started", "generation.ended"),
    *("process.started", "process.exited", "orphans.killed", "restart.scheduled"),
    *("log.rotated", "signal.received", "supervisor.exited"),
    "grace.ended",
}
MOST_TOLD = 20

RANK = f"""
import os, signal, sys, time

for number in (signal.SIGINT, signal.SIGPIPE):
    signal.signal(number, signal.SIG_DFL)
counts, tempers = os.open(sys.argv[1], os.O_WRONLY), sys.argv[2]
rank, generation = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
role = 0
if os.fork() == 0:
    role = 1
elif os.fork() == 0:
    os.setsid()
    role = 2
    if os.fork():
        os._exit(0)
place = (generation * {RANKS} + rank) * {ROLES} + role
temper = tempers[place % len(tempers)]
told_to_end = []
for number in (signal.SIGTERM, signal.SIGINT):
    if temper == "s":  # stubborn
        signal.signal(number, signal.SIG_IGN)
    elif temper == "p":  # polite
        signal.signal(number, lambda *_: told_to_end.append(1))
written = 0


def speak():
    global written
    size = 4000 if written % 64 == 63 else written * 37 % 300
    os.write(1, b"%d %d %d %d %s.\\n" % (generation, rank, role, written, b"x" * size))
    written += 1
    os.pwrite(counts, written.to_bytes({COUNT_BYTES}, "little"), place * {COUNT_BYTES})


while not told_to_end and not (temper == "m" and written >= 200):  # mortal
    for _ in range(10):
        speak()
    time.sleep(0.01)
for _ in range(100):
    speak()
os._exit(7)
"""
"""Every line is one write that a pipe takes whole or not at all; then it is counted.

So the log of a process holds as many lines as were counted, or one more, whatever killed it.
"""
SPOKEN = re.compile(rb"(\d+) (\d+) (\d+) (\d+) (x*)\.")
BEGINS = re.compile(rb"\[ascend_supervisor\] \S+ generation (\d+) of rank (\d+) begins")
HEADER = re.compile(rb"\[ascend_supervisor\] \S+ log of rank \d+, .*")


@dataclass(slots=True)
class Subject:
    """A job that is shot at, and the file in which its ranks count their lines."""

    way: Way
    job: Running
    counts: Path
    zombies: dict[tuple[int, int], tuple[float, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Seen:
    """A process at a moment, as /proc/PID/stat tells it."""

    parent: int
    state: str
    started: int


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """What all of a run's choices come from: FAULT_SEED, or by chance."""
    seed = int(os.environ.get("FAULT_SEED") or random.SystemRandom().randrange(1 << 32))
    record_property("FAULT_SEED", seed)
    print(f"FAULT_SEED={seed}")  # noqa: T201  (shown with a failure, whatever it is)
    return seed


@pytest.fixture
def seconds() -> float:
    """How long signals hit."""
    return float(os.environ.get("FAULT_SECONDS") or SECONDS)


@pytest.fixture
def dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  (to be repeated, not to be secret)


@pytest.fixture
def subjects(tmp_path: Path, dice: random.Random) -> Iterator[list[Subject]]:
    """A job in each way that this machine has: one after the other would take three minutes."""
    store = tmp_path / "shown"
    store.mkdir()
    started: list[Subject] = []
    for way in (ORDINARY, PID_1, unprivileged(store)):
        options = options_of(dice)
        if way.missing is None:
            started.append(start(way, options))
        else:
            print(f"not {way.name}: {way.missing}")  # noqa: T201
    yield started
    for subject in started:
        subject.job.kill()
        shutil.rmtree(subject.job.root, ignore_errors=True)


def options_of(dice: random.Random) -> tuple[str, ...]:
    tempers = "".join(dice.choices("dspm", weights=(5, 2, 2, 1), k=997))  # d: all defaults
    return (
        *("--standalone", str(RANKS), "--restarts", str(GENERATIONS)),
        *("--restart-delay", "0.05", "--restart-delay-max", "0.05", "--min-uptime", "0"),
        *("--grace", "0.5", "--drain", dice.choice(("0", "0.3")), "--console-ranks", "none"),
        *("--log-max-size", dice.choice(("1MiB", "1GiB")), "--log-keep", "1000"),
        # An interpreter that starts would say that SIGINT came too early: it has to ignore it.
        *("--", "sh", "-c", 'trap "" INT; exec "$0" "$@"'),
        *(sys.executable, "-I", "-S", "-c", RANK, "counts", tempers),
    )


def start(way: Way, options: tuple[str, ...]) -> Subject:
    place = Path(tempfile.mkdtemp(prefix="bad-day-"))
    logs = place / "modelarts" / "log"
    logs.mkdir(parents=True)
    counts = place / "counts"
    counts.touch()
    os.truncate(counts, GENERATIONS * RANKS * ROLES * COUNT_BYTES)
    for made in (place, logs.parent, logs, counts):
        os.chown(made, way.uid, -1)
    return Subject(way, Running(place, *options, before=way.before), counts)


@pytest.mark.endurance
@pytest.mark.timeout(240)
def test_whatever_signals_hit_whatever_process_nothing_is_lost_and_nothing_is_left(
    subjects, seed, seconds, dice
):
    for subject in subjects:
        subject.job.wait_for("process.started", rank=RANKS - 1)
    shoot(subjects, dice, seconds)
    for subject in subjects:
        if subject.job.process.poll() is None:
            subject.job.send(signal.SIGTERM)
    shoot(subjects, dice, DEADLINE_SECONDS)  # while they end, too; it is over when they have
    for subject in subjects:
        subject.faults += faults_of(subject.job, subject.counts, seconds / FEW_SECONDS)
    faults = [f"{subject.way.name}: {f}" for subject in subjects for f in subject.faults]
    assert not faults, "\n".join([f"FAULT_SEED={seed}", *faults[:MOST_TOLD]])


def shoot(subjects: list[Subject], dice: random.Random, seconds: float) -> None:
    """A random signal to a random descendant of every job that lives, at every tick."""
    tick = time.monotonic()
    end = tick + seconds
    while tick < end and any(subject.job.process.poll() is None for subject in subjects):
        seen = processes()
        for subject in subjects:
            number, where = dice.choice(SIGNALS), dice.random()  # whether somebody is there or not
            watch_zombies(subject, seen)
            victims = [
                pid for pid in descendants(subject.job.pid, seen) if is_started(subject, pid)
            ]
            if victims:
                with suppress(ProcessLookupError):
                    os.kill(victims[int(where * len(victims))], number)
        tick = max(tick + EVERY_SECONDS, time.monotonic())
        time.sleep(max(0.0, tick - time.monotonic()))


def processes() -> dict[int, Seen]:
    """All that there are, zombies too."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (process / "stat").read_bytes().rpartition(b")")[2].decode().split()
            found[int(process.name)] = Seen(int(fields[1]), fields[0], int(fields[19]))
    return found


def descendants(pid: int, seen: dict[int, Seen]) -> list[int]:
    """The living ones; orphans are the supervisor's children, so nobody is missing."""
    children = [child for child, process in seen.items() if process.parent == pid]
    below = [found for child in children for found in descendants(child, seen)]
    return sorted([child for child in children if seen[child].state not in "ZX"] + below)


def is_started(subject: Subject, pid: int) -> bool:
    """Whether it is part of the job already, and no copy of the supervisor about to become a rank.

    Until then the kernel keeps the supervisor waiting: SIGSTOP would stop them both.
    """
    with suppress(OSError):
        return command_line(pid) not in {b"", command_line(subject.job.pid)}
    return False


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def watch_zombies(subject: Subject, seen: dict[int, Seen]) -> None:
    """Note the supervisor's dead children that nobody has waited for in all this time."""
    now, ended = time.monotonic(), len(subject.job.all("generation.ended"))
    subject.zombies = {
        (pid, process.started): subject.zombies.get((pid, process.started), (now, ended))
        for pid, process in seen.items()
        if process.parent == subject.job.pid and process.state == "Z"
    }
    for (pid, _), (since, before) in subject.zombies.items():
        sentence = f"{pid} was a zombie for {ZOMBIE_SECONDS:g} s"
        is_old = now - since > ZOMBIE_SECONDS and ended >= before + ZOMBIE_GENERATIONS
        if is_old and sentence not in subject.faults:
            subject.faults.append(sentence)


def faults_of(job: Running, counts: Path, few: float) -> list[str]:
    """What is wrong with a job that was told to stop; so ``few`` generations are hardly any."""
    code = job.end()
    told = [
        *([] if code == STOPPED else [f"the exit code is {code}"]),
        *[f"{line} has survived" for line in job.survivors()],
        *faults_of_events(job),
        *faults_of_state(job),
    ]
    if len(job.all("generation.started")) < few:
        told.append("hardly a generation has ended: nobody was hit")
    for rank in range(RANKS):
        told += faults_of_log(whole_log(job.log(rank)), rank, counts.read_bytes())
    return told


def faults_of_events(job: Running) -> list[str]:
    names = [event["event"] for event in job.events]
    told = [f"{e['event']}: {e['msg']}" for e in job.events if e["event"] not in EXPECTED]
    ends = job.all("supervisor.exited")
    if ends != job.events[-1:] or ends[0]["exit_code"] != STOPPED:
        told.append(f"the end is told by {ends}, the last event is {names[-1]}")
    if [event["seq"] for event in job.events] != list(range(len(names))):
        told.append("seq has gaps")
    started = [event["generation"] for event in job.all("generation.started")]
    if started != list(range(len(started))):
        told.append(f"the generations are {started}")
    if started != [event["generation"] for event in job.all("generation.ended")]:
        told.append("not every generation has one end")
    if sorted(map(run, job.all("process.started"))) != sorted(map(run, job.all("process.exited"))):
        told.append("not every process has one end")
    return told


def run(event: Event) -> tuple[int, int, int]:
    return event["generation"], event["rank"], event["child_pid"]


def faults_of_state(job: Running) -> list[str]:
    state = json.loads((job.log_dir / STATE_FILE).read_bytes())
    told = [f"{path.name} was left" for path in job.log_dir.glob(".*")]
    if (state["phase"], state["exit_code"]) != ("ended", STOPPED):
        told.append(f"the state file says {state}")
    if any(rank["status"] is None and rank["signal"] is None for rank in state["ranks"]):
        told.append(f"in the state file a rank lives: {state}")
    return told


def whole_log(path: Path) -> bytes:
    """With what was rotated away, the oldest first."""
    rotated = path.parent.glob(f"{path.name}.*")
    older = sorted(rotated, key=lambda file: int(file.suffix[1:]), reverse=True)
    return b"".join(file.read_bytes() for file in [*older, path])


def faults_of_log(text: bytes, rank: int, counts: bytes) -> list[str]:
    """Whatever is not each process's lines, each once, whole, in order and in its generation."""
    told = []
    generation = -1
    found: Counter[int] = Counter()
    *lines, rest = text.split(b"\n")
    for line in lines:
        if begins := BEGINS.fullmatch(line):
            generation += 1
            if (int(begins[1]), int(begins[2])) != (generation, rank):
                told.append(f"generation {generation} of rank {rank} begins with {line!r}")
        elif spoken := SPOKEN.fullmatch(line):
            of_generation, of_rank, role, number = (int(spoken[n]) for n in range(1, 5))
            place = place_of(of_generation, of_rank, role)
            right = (generation, rank, found[place], size_of(number))
            if (of_generation, of_rank, number, len(spoken[5])) != right:
                told.append(
                    f"in generation {generation}, after {found[place]} lines: {line[:40]!r}"
                )
            found[place] = number + 1
        elif not HEADER.fullmatch(line):
            told.append(f"in generation {generation} of rank {rank}: {line!r}")
    if rest:
        told.append(f"no line ends the log of rank {rank}: {rest!r}")
    for of_generation, role in product(range(generation + 1), range(ROLES)):
        place = place_of(of_generation, rank, role)
        counted = int.from_bytes(counts[place * COUNT_BYTES :][:COUNT_BYTES], "little")
        if found[place] - counted not in {0, 1}:
            who = f"process {role} of rank {rank} in generation {of_generation}"
            told.append(f"{who} wrote {counted} lines, {found[place]} are there")
    return told


def place_of(generation: int, rank: int, role: int) -> int:
    return (generation * RANKS + rank) * ROLES + role


def size_of(number: int) -> int:
    return 4000 if number % 64 == 63 else number * 37 % 300
