"""The servers of a job that agree through etcd: real supervisors, each with a cable of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.etcd.servers import EtcdServer
from tests.peers import relay
from tests.running import Running

TTL, FENCE, TIMEOUT = 4, 15, 40
"""Seconds. With a TTL of 2 s servers were lost at a load of 20, for no other reason."""
PATIENT = ("--peers-fence", "60", "--peers-timeout", "90")
"""For servers that must not reach the fence, however slow this machine is."""
DEADLINE_SECONDS = 60.0
"""A spare takes a place 21 s after a supervisor was killed."""
RANK = """
import os, signal, sys, time
def deafen(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"deaf\\n")
def fail(*_):
    os._exit(7)
signal.signal(signal.SIGHUP, deafen)
signal.signal(signal.SIGUSR1, fail)
signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))
os.write(1, f"rank {os.environ['RANK']} runs\\n".encode())
met = "{RANK} of {WORLD_SIZE} meets the others at {MASTER_ADDR}\\n"
os.write(1, met.format_map(os.environ).encode())
while True: time.sleep(0.1)
"""
"""SIGUSR1 makes it fail with 7, SIGUSR2 makes it succeed, SIGHUP makes it ignore SIGTERM.

It sleeps in short steps: Python runs a handler only after a sleep that had just begun.
"""


SHORTER = """
import importlib, runpy, sys
for one in iter(lambda: sys.argv.pop(1), "--"):
    place, seconds = one.split("=")
    module, _, constant = place.rpartition(".")
    setattr(importlib.import_module(f"ascend_supervisor.{module}"), constant, int(seconds))
runpy.run_module("ascend_supervisor", run_name="__main__", alter_sys=True)
"""


def with_shorter(*constants: str) -> tuple[str, ...]:
    """The ``program`` of a supervisor whose waits of minutes take seconds ("module.NAME=2")."""
    return ("-c", SHORTER, *constants, "--")


def boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Cable:
    """The way from one server to etcd."""

    def __init__(self, etcd: EtcdServer) -> None:
        host, port = etcd.endpoint.host, str(etcd.endpoint.port)
        words = (sys.executable, relay.__file__, host, port)
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def cut(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def mend(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Job:
    """``count`` servers with one rank each; ``start`` starts the supervisor of one.

    ``without_table`` are the options of servers that are given no rank table.
    """

    def __init__(
        self,
        root: Path,
        count: int,
        etcd: EtcdServer,
        supervised: Callable[..., Running],
        without_table: Sequence[str] = (),
    ) -> None:
        self.etcd = etcd
        self._root = root
        self._supervised = supervised
        self._without_table = without_table
        self.table = root / "table.json"
        self.table.write_text(json.dumps(table_of(count)))
        self.cables = [Cable(etcd) for _ in range(count)]
        self.servers: list[Running] = []

    def start_all(self, *options: str, timeout: int = TIMEOUT) -> list[Running]:
        self.servers = [
            self.start(index, "--peers-timeout", str(timeout), *options)
            for index in range(len(self.cables))
        ]
        for index in range(len(self.servers)):
            self.up(index)
        return self.servers

    def start(
        self,
        index: int,
        *options: str,
        place: str = "",
        command: Sequence[str] = (sys.executable, "-c", RANK),
        **how: Any,
    ) -> Running:
        """The supervisor of this server; at another ``place`` it is a new pod."""
        root = self._root / f"server-{index}{place}"
        root.mkdir(exist_ok=True)
        return self._supervised(
            *(
                self._without_table
                or ("--rank-table", str(self.table_for(index)), *self.identity(index))
            ),
            *(
                "--restart-delay",
                "0",
                "--restart-delay-max",
                "1",
                "--release-delay",
                "0",
                "--grace",
                "5",
                "--restarts",
                "3",
            ),
            *("--peers", self.cables[index].url, "--peers-job", "test"),
            *("--peers-ttl", str(TTL), "--peers-fence", str(FENCE)),
            *("--peers-timeout", str(TIMEOUT)),
            *options,
            *("--", *command),
            root=root,
            **{"deadline": DEADLINE_SECONDS, **how},
        )

    def table_for(self, index: int) -> Path:
        """Where this server finds its rank table."""
        return self.table

    def identity(self, index: int) -> tuple[str, str]:
        """The option that tells a server which entry of the table it is."""
        return "--node-rank", str(index)

    def up(self, index: int, generation: int = 0) -> None:
        """Until the rank of this server runs in this generation."""
        self.servers[index].wait_for("output", generation=generation, msg=f"rank {index} runs")

    def all_up(self, generation: int) -> None:
        for index in range(len(self.servers)):
            self.up(index, generation)

    def signal_rank(self, index: int, number: signal.Signals, generation: int = 0) -> None:
        started = self.servers[index].wait_for("process.started", generation=generation, rank=index)
        os.kill(started["child_pid"], number)

    def make_deaf(self, index: int) -> None:
        self.signal_rank(index, signal.SIGHUP)
        self.servers[index].wait_for("output", msg="deaf")

    def succeed(self, generation: int) -> None:
        """All ranks end with 0, and so does every server."""
        for index in range(len(self.servers)):
            self.signal_rank(index, signal.SIGUSR2, generation)
        assert [server.end() for server in self.servers] == [0] * len(self.servers)

    def close(self) -> None:
        for cable in self.cables:
            cable.close()


def table_of(count: int) -> dict[str, Any]:
    """Template 1, with a server of one device for each."""
    return {
        "status": "completed",
        "version": "1.0",
        "server_count": str(count),
        "server_list": [
            {
                "server_id": f"10.0.0.{index + 1}",
                "device": [
                    {
                        "device_id": "0",
                        "device_ip": f"192.168.0.{index + 1}",
                        "rank_id": str(index),
                    }
                ],
            }
            for index in range(count)
        ],
    }
