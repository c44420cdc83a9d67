"""The pods of a simulated cluster: real supervisors and ranks, on a clock that the test moves."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.recovery import meshed_rank, moved_clock, rank
from tests.recovery.diary import Diary, write_lines
from tests.recovery.pods import MovedClock, Pod, Story, network
from tests.recovery.tables import Form, Member, Members, withdrawn
from tests.recovery.writers import (
    RESET,
    RESTART_TYPE,
    TABLE,
    VERSION,
    Directory,
    HostDirectory,
    reset_file,
)
from tests.running import DEADLINE_SECONDS, Running, wait_until
from tests.two_servers import Server

PROGRAM = (str(Path(moved_clock.__file__)),)
PAUSE_SECONDS = 0.01
"""After each second of a moved clock: time for threads to look at files. A pace, not a promise."""
ROOM_SECONDS = 0.5
"""Within this a supervisor has nearly always seen what a second has changed."""
LONG_SECONDS, LONG_STEP = 30.0, 8.0
"""A longer wait is moved through in larger steps, which are shorter than any deadline."""

RANK, MESHED_RANK = Path(rank.__file__), Path(meshed_rank.__file__)
"""What each rank runs, alone or connected with all others."""

Mount = Callable[[Path], Directory]
"""Makes an empty directory that the cluster shows the pod."""


class SimulatedCluster:
    """Writes the files of all pods, moves all clocks; each pod's files lie below ``root``."""

    def __init__(self, root: Path, supervised: Callable[..., Running], form: Form) -> None:
        self._root = root
        self._supervised = supervised
        self.form = form
        self.pods: dict[int, Pod] = {}
        self._all: list[Pod] = []
        self._clocks: list[MovedClock] = []
        self._diary = Diary()
        self._reset = reset_file()

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
        servers: Mapping[int, Server] | None = None,
    ) -> list[Pod]:
        """A supervisor in each of these pods of the job (all of them, or ``only`` some).

        The files hold ``table`` and ``reset``: the job's table if None, and nothing new. The
        cluster is followed, unless ``environ`` says otherwise. No pod reaches another one, unless
        there are ``servers``, by the number of the host: then the ranks are connected.
        """
        chosen = [member for member in job if only is None or member.index in only]
        command = (sys.executable, str(MESHED_RANK if servers else RANK), on_term)
        return [
            self._start(
                member,
                mount,
                {TABLE: self.form(job) if table is None else table, VERSION: b"1"},
                {RESET: reset_file() if reset is None else reset},
                (*arguments, "--", *command),
                environ or {},
                servers[member.host].within if servers else network(),
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
        before: Sequence[str],
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
            before=before,
            environ={
                "MA_CURRENT_INSTANCE_NAME": member.name,
                "XDL_IP": member.address,
                "ASCEND_SUPERVISOR_FOLLOW_CLUSTER": "true",
                moved_clock.CLOCK: str(clock.place),
                **environ,
            },
        )
        self.pods[member.index] = Pod(member, config, reset, job, clock)
        self._all.append(self.pods[member.index])
        return self._all[-1]

    def new_clock(self, place: Path) -> MovedClock:
        """For another supervisor, which is not moved with the pods."""
        self._clocks.append(MovedClock(place))
        return self._clocks[-1]

    @property
    def running(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.job.process.poll() is None]

    def write_table(self, job: Members, version: int = 2) -> None:
        """The completed table of this job, on each node."""
        self._diary.note("completed")
        for pod in self.running:
            pod.config.write({VERSION: str(version).encode(), TABLE: self.form(job)})

    def withdraw_table(self, version: int = 2) -> None:
        self._diary.note("withdrawn")
        for pod in self.running:
            pod.config.write({VERSION: str(version).encode(), TABLE: withdrawn(self.form)})

    def write_reset(self, data: bytes, restart_type: str = "") -> None:
        """The same reset file on each node; it is the job's. ``restart_type`` empty: as it was."""
        self._diary.note_reset(self._reset, data)
        self._reset = data
        beside = {RESTART_TYPE: restart_type.encode()} if restart_type else {}
        for pod in self.running:
            pod.reset.write({RESET: data, **beside})

    def move(self, seconds: float) -> None:
        """Let so many seconds pass for every supervisor, in little time."""
        step = LONG_STEP if seconds > LONG_SECONDS else 1.0
        left = seconds
        while left > 0:
            self._diary.move(min(step, left))
            self._order(f"+{min(step, left):g}")
            left -= step
            time.sleep(PAUSE_SECONDS)

    def move_until(self, holds: Callable[[], object]) -> None:
        """Let seconds pass, and give what they lead to some time, until that ``holds``."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < end, "it does not come"
            self.move(1)
            given_up = time.monotonic() + ROOM_SECONDS
            while not holds() and time.monotonic() < given_up:
                time.sleep(PAUSE_SECONDS)

    @contextmanager
    def held(self) -> Iterator[None]:
        """No time passes meanwhile but what is moved, however busy the machine is."""
        self._diary.hold()
        self._order("hold")
        yield
        self._diary.run()
        self._order("run")

    def kill(self, pod: Pod, server: Server) -> None:
        """Everything of the pod is killed at once; the kernel ends its connections.

        A process that was killed may live for a moment on a busy machine.
        """
        pod.acts.append(self._diary.act("killed", pod.member.name))
        server.kill_all()
        assert pod.job.end() == 128 + signal.SIGKILL
        wait_until(lambda: not pod.job.survivors())

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

    def keep_events(self, directory: Path) -> None:
        """Write what happened into ``directory``, for scripts/timelines."""
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.glob("*.jsonl"):
            old.unlink()
        write_lines(directory / "0-cluster.jsonl", self._diary.acts, {})
        for number, pod in enumerate(self._all, 1):
            told = sorted(
                (*self._diary.events(pod.job.events), *pod.acts), key=lambda event: event["ts"]
            )
            places = {str(pod.job.root): "/user", str(RANK.parent): "/job/code"}
            write_lines(directory / f"{number}-{pod.member.name}.jsonl", told, places)

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
