"""A job in a cluster: every server sees the cluster's files at a place of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.etcd.servers import EtcdServer
from tests.peers.servers import Job, table_of
from tests.recovery import moved_clock
from tests.recovery.pods import MovedClock
from tests.recovery.supervisors import PROGRAM
from tests.recovery.writers import RESET, TABLE, HostDirectory, reset_file
from tests.running import Running

VERDICT = 4
"""Seconds."""
LOOKS, PAUSE_SECONDS = 6, 0.1
"""After each: time for threads to look at files, and for etcd. A pace, not a promise."""


class FollowedJob(Job):
    """Its servers have the options --peers and --follow-cluster."""

    def __init__(
        self, root: Path, count: int, etcd: EtcdServer, supervised: Callable[..., Running]
    ) -> None:
        super().__init__(root, count, etcd, supervised)
        self._nodes = [HostDirectory(root / f"node-{index}") for index in range(count)]
        self.addresses = [server["server_id"] for server in table_of(count)["server_list"]]
        """Of each server, as its pod knows it."""
        self._clocks: dict[int, MovedClock] = {}
        self.write_table(*range(count))
        self.write_reset(reset_file())

    def table_for(self, index: int) -> Path:
        return self._nodes[index].path / TABLE

    def identity(self, index: int) -> tuple[str, str]:
        return "--server-id", self.addresses[index]

    def start(self, index: int, *options: str, place: str = "", **how: Any) -> Running:
        reset = self._nodes[index].path / RESET
        following = ("--follow-cluster", "--reset-file", str(reset))
        verdict = ("--cluster-verdict", str(VERDICT))
        clock = MovedClock(self._nodes[index].path / f"clock{place}")
        self._clocks[index] = clock
        how["environ"] = {moved_clock.CLOCK: str(clock.place), **how.get("environ", {})}
        words = (*following, *verdict, *options)
        return super().start(index, *words, place=place, program=PROGRAM, **how)

    def move(self, seconds: float) -> None:
        """Let so many seconds pass for what every supervisor thinks of the cluster."""
        for index, clock in self._clocks.items():
            clock.order(f"+{seconds:g}")
            clock.wait(self.servers[index].process)

    def looks(self) -> None:
        """Let every supervisor look at the files of the cluster a few times."""
        for _ in range(LOOKS):
            self.move(1)
            time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        super().close()
        for clock in self._clocks.values():
            clock.close()

    def write_table(self, *members: int, on: Sequence[int] = ()) -> None:
        """The table of these servers, in this order."""
        table = table_of(len(members))
        for listed, index in zip(table["server_list"], members, strict=True):
            listed["server_id"] = self.addresses[index]
        self._write(on, {TABLE: json.dumps(table).encode()})

    def withdraw_table(self, on: Sequence[int] = ()) -> None:
        table: dict[str, Any] = {**table_of(0), "status": "initializing"}
        self._write(on, {TABLE: json.dumps(table).encode()})

    def write_reset(self, content: bytes, on: Sequence[int] = ()) -> None:
        self._write(on, {RESET: content})

    def _write(self, on: Sequence[int], files: dict[str, bytes]) -> None:
        for index in on or range(len(self._nodes)):
            self._nodes[index].write(dict(files))

    def restarts(self, index: int) -> list[tuple[bool, int]]:
        """Of each restart on this server: whether it was free, and how many were left."""
        told = self.servers[index].all("restart.scheduled")
        return [(event["free"], event["restarts_left"]) for event in told]
