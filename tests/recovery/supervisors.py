"""The pods of a simulated cluster: real supervisors and ranks, on a clock that the test moves."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from tests.recovery import moved_clock
from tests.recovery.tables import Form, Member, Members, withdrawn
from tests.recovery.writers import (
    RESET,
    TABLE,
    VERSION,
    Directory,
    HostDirectory,
    reset_file,
)
from tests.running import DEADLINE_SECONDS, Event, Running

PROGRAM = (str(Path(moved_clock.__file__)),)
PAUSE_SECONDS = 0.01
"""After each second of a moved clock: time for threads to look at files. A pace, not a promise."""
LONG_SECONDS, LONG_STEP = 30.0, 8.0
"""A longer wait is moved through in larger steps, which are shorter than any deadline."""

RANK = r"""
import json, os, signal, sys, time

def fail_with(words):
    def fail(*_):
        os.write(1, words)
        os._exit(1)
    return fail

is_asked = False

def ask(*_):
    global is_asked
    is_asked = True
    os.write(1, b"asked to end\n")

on_term, room = sys.argv[1:]
signal.signal(signal.SIGUSR1, fail_with(
    b"RuntimeError: [gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.2]:3155\n"))
signal.signal(signal.SIGUSR2, fail_with(
    b'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n'
    b"ValueError: the loss is not a number\n"))
signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
if on_term != "ends":
    signal.signal(signal.SIGTERM, ask)
with open(os.environ["RANK_TABLE_FILE"]) as file:
    table = json.load(file)
hosts = " ".join(server["server_id"] for server in table["server_list"])
me = os.environ["RANK"] + " of " + os.environ["WORLD_SIZE"]
os.write(1, f"rank {me} among {hosts}\n".encode())
while not (is_asked and on_term == "saves" and os.path.exists(room)):
    time.sleep(0.02 if on_term == "saves" else 600)
os.write(1, b"saved\n")
"""
"""``ends`` at SIGTERM, or ``ignores`` it, or ``saves``: ends with 0 once there is room.

SIGUSR1 makes it fail as one that has lost a peer, SIGUSR2 with an exception of its own. SIGALRM
ends it with 0, as a training that is over.
"""
LOST_PEER, OWN_FAULT = signal.SIGUSR1, signal.SIGUSR2
DONE = signal.SIGALRM


Mount = Callable[[Path], Directory]
"""Makes an empty directory that the cluster shows the pod."""


@cache
def network() -> tuple[str, ...]:
    """The words that give a supervisor a network of its own; none where that is not possible."""
    words = ("unshare", "--net")
    try:
        done = subprocess.run((*words, "true"), check=False, capture_output=True, timeout=30)
    except FileNotFoundError:
        return ()
    return () if done.returncode else words


class MovedClock:
    """The clock of one supervisor; ``place`` is a directory of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        for name in ("orders", "answers"):
            os.mkfifo(place / name)
        self._orders = os.open(place / "orders", os.O_RDWR)
        self._answers = os.open(place / "answers", os.O_RDWR | os.O_NONBLOCK)

    def order(self, word: str) -> None:
        os.write(self._orders, f"{word}\n".encode())

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        """Until the last order was obeyed, or the supervisor has ended."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not select.select((self._answers,), (), (), 0.1)[0]:
            assert time.monotonic() < end, "the supervisor does not move its clock"
            if process.poll() is not None:
                return
        os.read(self._answers, 1)

    def close(self) -> None:
        os.close(self._orders)
        os.close(self._answers)


@dataclass(frozen=True)
class Story:
    """How a supervisor lived, as its events tell it."""

    worlds: list[int]
    """The world size of each generation."""
    free: list[bool]
    """For each restart, whether it was free."""
    triggers: list[str]
    """Of the incidents."""
    exit_code: int


@dataclass
class Pod:
    """A pod of the job: a supervisor, and the files that its node shows it."""

    member: Member
    config: Directory
    reset: Directory
    job: Running
    clock: MovedClock
    _seen: int = field(default=-1)

    def then(self, name: str, **keys: Any) -> Event:
        """The first such event after the one that was last waited for here."""
        event = next(event for event in self.job.each(name, **keys) if event["seq"] > self._seen)
        self._seen = event["seq"]
        return event

    def up(self, generation: int = 0) -> set[str]:
        """What the ranks of a generation say first, once all of them have."""
        ready = next(islice(self.job.each("rank_table.ready"), generation, None))
        said = self.job.each("output", generation=generation)
        mine = (event["msg"] for event in said if event["msg"].startswith("rank "))
        return set(islice(mine, len(ready["local_ranks"])))

    def signal(self, rank: int, number: signal.Signals, generation: int = 0) -> None:
        started = self.job.wait_for("process.started", rank=rank, generation=generation)
        os.kill(started["child_pid"], number)

    def make_room(self) -> None:
        """Ranks that save go on, and end."""
        (self.job.root / "room").touch()

    def ends_with(self, code: int) -> Story:
        assert self.job.end() == code, self.job.events[-1]
        return self.story()

    def story(self) -> Story:
        """To be asked when it has ended."""
        job = self.job
        started, ended = job.all("generation.started"), job.all("generation.ended")
        assert [e["generation"] for e in started] == list(range(len(started)))
        assert [e["generation"] for e in ended] == list(range(len(started)))
        assert not job.all("supervisor.defect")
        assert not job.survivors()
        ready = job.all("rank_table.ready")[: len(started)]
        return Story(
            worlds=[event["world_size"] for event in ready],
            free=[event["free"] for event in job.all("restart.scheduled")],
            triggers=[event["trigger"] for event in job.all("cluster.incident")],
            exit_code=job.events[-1]["exit_code"],
        )


class SimulatedCluster:
    """Writes the files of all pods, moves all clocks; each pod's files lie below ``root``."""

    def __init__(self, root: Path, supervised: Callable[..., Running], form: Form) -> None:
        self._root = root
        self._supervised = supervised
        self.form = form
        self.pods: dict[int, Pod] = {}
        self._clocks: list[MovedClock] = []

    def start(
        self,
        job: Members,
        *arguments: str,
        only: Sequence[int] | None = None,
        on_term: str = "ends",
        table: bytes | None = None,
        reset: bytes | None = None,
        mount: Mount = HostDirectory,
        environ: Mapping[str, str] | None = None,
    ) -> list[Pod]:
        """A supervisor in each of these pods of the job (all of them, or ``only`` some).

        The files hold ``table`` and ``reset``: the job's table if None, and nothing new. The
        cluster is followed, unless ``environ`` says otherwise.
        """
        chosen = [member for member in job if only is None or member.index in only]
        rank = (sys.executable, "-c", RANK, on_term)
        return [
            self._start(
                member,
                mount,
                {TABLE: self.form(job) if table is None else table, VERSION: b"1"},
                {RESET: reset_file() if reset is None else reset},
                (*arguments, "--", *rank),
                environ or {},
            )
            for member in chosen
        ]

    def _start(
        self,
        member: Member,
        mount: Mount,
        config_files: Mapping[str, bytes],
        reset_files: Mapping[str, bytes],
        words: Sequence[str],
        environ: Mapping[str, str],
    ) -> Pod:
        root = self._root / f"pod-{member.index}-{len(self._clocks)}"
        config = mount(root / "serverid" / "devindex" / "config")
        reset = mount(root / "restore" / "reset" / "config")
        config.write(config_files)
        reset.write(reset_files)
        clock = self.new_clock(root / "clock")
        job = self._supervised(
            *("--restart-delay", "0", "--release-delay", "0", "--log-level", "debug"),
            *("--rank-table", str(config.path), "--reset-file", str(reset.path / RESET)),
            *words,
            str(root / "room"),
            root=root,
            program=PROGRAM,
            before=network(),
            environ={
                "MA_CURRENT_INSTANCE_NAME": member.name,
                "XDL_IP": member.address,
                "ASCEND_SUPERVISOR_FOLLOW_CLUSTER": "true",
                moved_clock.CLOCK: str(clock.place),
                **environ,
            },
        )
        self.pods[member.index] = Pod(member, config, reset, job, clock)
        return self.pods[member.index]

    def new_clock(self, place: Path) -> MovedClock:
        """For another supervisor, which is not moved with the pods."""
        self._clocks.append(MovedClock(place))
        return self._clocks[-1]

    @property
    def running(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.job.process.poll() is None]

    def write_table(self, job: Members, version: int = 2) -> None:
        """The completed table of this job, on each node."""
        for pod in self.running:
            pod.config.write({VERSION: str(version).encode(), TABLE: self.form(job)})

    def withdraw_table(self, version: int = 2) -> None:
        for pod in self.running:
            pod.config.write({VERSION: str(version).encode(), TABLE: withdrawn(self.form)})

    def write_reset(self, data: bytes) -> None:
        """The same reset file on each node; it is the job's."""
        for pod in self.running:
            pod.reset.write({RESET: data})

    def move(self, seconds: float) -> None:
        """Let so many seconds pass for every supervisor, in little time."""
        step = LONG_STEP if seconds > LONG_SECONDS else 1.0
        left = seconds
        while left > 0:
            self._order(f"+{min(step, left):g}")
            left -= step
            time.sleep(PAUSE_SECONDS)

    @contextmanager
    def held(self) -> Iterator[None]:
        """No time passes meanwhile but what is moved, however busy the machine is."""
        self._order("hold")
        yield
        self._order("run")

    def _order(self, word: str) -> None:
        pods = self.running
        for pod in pods:
            pod.clock.order(word)
        for pod in pods:
            pod.clock.wait(pod.job.process)

    def stop(self) -> list[Story]:
        """Tell all that run to stop; how each of them lived."""
        pods = self.running
        for pod in pods:
            pod.job.send(signal.SIGTERM)
        return [pod.ends_with(143) for pod in pods]

    def stop_at_once(self) -> list[Story]:
        """As ``stop``, without a grace for ranks that ignore SIGTERM."""
        pods = self.running
        for pod in pods:
            pod.job.send(signal.SIGTERM)
            pod.then("signal.received", signal="SIGTERM")
            pod.job.send(signal.SIGQUIT)
        return [pod.ends_with(143) for pod in pods]

    def close(self) -> None:
        for clock in self._clocks:
            clock.close()


NEW_SECONDS = 61
"""So long a RetryTime may be that of the pod's own start."""


def started(cluster: SimulatedCluster, job: Members, *arguments: str, **options: Any) -> list[Pod]:
    """Its pods, once all their ranks are up, and have been for a minute."""
    pods = cluster.start(job, *arguments, **options)
    for pod in pods:
        pod.up()
    cluster.move(NEW_SECONDS)
    return pods
