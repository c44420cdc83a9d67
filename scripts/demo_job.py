"""The programs of `make demo-cluster`: an etcd, and a supervisor for each server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import demo_train
from demo_network import Host, Network
from demo_story import Event

SERVERS, RANKS_EACH = 3, 2
SPARE = SERVERS
"""The number of the server that is one more than the job needs."""
VICTIM, DIES_AT = 3, 25
LOST, ORPHAN, ORPHANED_AT = 2, 4, 45
"""Rank ORPHAN kills the supervisor of server LOST, which is its own."""
TTL_SECONDS, FENCE_SECONDS = 5, 16
"""With 3 s, servers were taken for lost on a machine that was busy with other work."""
GRACE_SECONDS = 15.0
ETCD = -1


@dataclass(frozen=True)
class Said:
    server: int
    event: Event


@dataclass(frozen=True)
class Ended:
    """A server's supervisor, or ETCD, has ended with this code, or by this signal (negative)."""

    server: int
    code: int


@dataclass(frozen=True)
class Told:
    """We were told to stop, by this signal."""

    number: int


News = Said | Ended | Told


@dataclass
class Job:
    """What its programs say, and how they end, becomes ``news``; it writes below ``root``."""

    root: Path
    network: Network
    news: SimpleQueue[News] = field(default_factory=SimpleQueue)
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def etcd_url(self) -> str:
        return f"http://{self.network.hub.address}:{self.network.port}"

    @property
    def shared(self) -> Path:
        """The storage that all ranks see, with the checkpoint."""
        return self.root / "shared"

    def options(self, server: int | str) -> list[str]:
        """Of the supervisor on this server; a spare takes any number that is free."""
        number = () if server == SPARE else ("--node-rank", str(server))
        return [
            *("--peers", self.etcd_url, "--peers-job", "demo"),
            *("--peers-ttl", str(TTL_SECONDS), "--peers-fence", str(FENCE_SECONDS)),
            *("--restarts", "3", "--restart-delay", "0.5", "--release-delay", "0"),
            *("--servers", str(SERVERS), "--standalone", str(RANKS_EACH), *number),
        ]

    def start(self) -> None:
        """Raises FileNotFoundError if there is no etcd."""
        self.shared.mkdir()
        self._run(
            ETCD,
            self.network.hub,
            *("etcd", "--data-dir", str(self.root / "etcd"), "--log-level", "warn"),
            *("--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url),
            *("--listen-peer-urls", "http://127.0.0.1:0"),
        )
        for server in range(SERVERS):
            self.start_supervisor(server)

    def start_supervisor(self, server: int) -> None:
        mount = self.root / f"server-{server}"
        (mount / "log").mkdir(parents=True, exist_ok=True)
        self._run(
            server,
            self.network.servers[server],
            *(sys.executable, "-m", "ascend_supervisor", "--console", "json"),
            *(*self.options(server), "--"),
            *(sys.executable, str(Path(demo_train.__file__).resolve()), str(self.shared)),
            *("--victim", str(VICTIM), "--dies-at", str(DIES_AT)),
            *("--orphan", str(ORPHAN), "--orphaned-at", str(ORPHANED_AT)),
            MA_MOUNT_PATH=str(mount),
            JOB_ID="demo",
        )

    def end(self) -> None:
        """Nothing of it runs afterwards; etcd ends last, because the servers bid it farewell."""
        _end(self.running[1:])
        _end(self.running[:1])

    def _run(self, server: int, host: Host, *words: str, **variables: str) -> None:
        kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
        inherited = {name: os.environ[name] for name in kept if name in os.environ}
        name = "etcd" if server == ETCD else f"server-{server}"
        with (self.root / f"{name}.stderr").open("ab") as errors:
            program = subprocess.Popen(
                (*host.within, *words),
                cwd=self.root,
                env={**inherited, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # Ctrl-C is for us only
            )
        self.running.append(program)
        threading.Thread(target=self._follow, args=(server, program), daemon=True).start()

    def _follow(self, server: int, program: subprocess.Popen[str]) -> None:
        assert program.stdout is not None
        for line in program.stdout:
            if server != ETCD:
                self.news.put(Said(server, json.loads(line)))
        self.news.put(Ended(server, program.wait()))


def _end(programs: Sequence[subprocess.Popen[str]]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for program in programs:
            program.send_signal(number)
        deadline = time.monotonic() + GRACE_SECONDS
        for program in programs:
            with suppress(subprocess.TimeoutExpired):
                program.wait(max(0.0, deadline - time.monotonic()))
