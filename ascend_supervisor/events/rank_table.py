"""The rank table, from waiting to ready."""

from __future__ import annotations

from typing import ClassVar

from ascend_supervisor.events import Event, Level
from ascend_supervisor.phrases import counted

STANDALONE_PATH = "--standalone"
"""Stands for the path of the table that --standalone makes."""
SERVERS_PATH = "--servers"
"""Stands for the path of the table that servers make of what they publish."""
NO_FILE = "no file"
"""Stands for the format of a table that came from no file: variables declare the cluster."""


class RankTableWaiting(Event, frozen=True):
    name: ClassVar[str] = "rank_table.waiting"
    path: str
    reason: str
    waited_seconds: float
    limit_seconds: float | None = None

    @property
    def sentence(self) -> str:
        return f"{self.what} ({self.waited_seconds:.0f} s so far)"

    @property
    def what(self) -> str:
        """The same without the time, which has passed when somebody reads it later."""
        return f"waiting for the rank table {self.path}: {self.reason}"


class RankTableUnwatched(Event, frozen=True):
    name: ClassVar[str] = "rank_table.unwatched"
    level: ClassVar[Level] = "warning"
    path: str
    reason: str

    @property
    def sentence(self) -> str:
        return (
            f"no file events for {self.path} ({self.reason}); "
            "it is looked at every second all the same"
        )


class RankTableReady(Event, frozen=True):
    name: ClassVar[str] = "rank_table.ready"
    path: str
    format: str
    world_size: int
    servers: int
    this_server: str
    local_ranks: tuple[int, ...]
    sha256: str
    warnings: tuple[str, ...]

    @property
    def severity(self) -> Level:
        return "warning" if self.warnings else self.level

    @property
    def sentence(self) -> str:
        return self._cluster + "".join(f"; {warning}" for warning in self.warnings)

    @property
    def _cluster(self) -> str:
        kind = "rank" if len(self.local_ranks) == 1 else "ranks"
        ranks = f"with {kind} {', '.join(map(str, self.local_ranks))}"
        devices = counted(self.world_size, "device")
        if self.path == STANDALONE_PATH:
            return f"no rank table ({self.path}): {devices} on this machine, {ranks}"
        if self.format == NO_FILE and not self.world_size:
            return "no rank table, and no devices are known: the command runs once, as it is"
        where = f"{devices} on {counted(self.servers, 'server')}; this is {self.this_server}"
        here = f"{where}, {ranks if self.local_ranks else 'without ranks'}"
        if self.path == SERVERS_PATH:
            return f"the servers have made a rank table ({self.path}), which holds {here}"
        if self.format == NO_FILE:
            return f"no rank table: variables of the platform declare {here}"
        return f"the rank table {self.path} ({self.format}) holds {here}"
