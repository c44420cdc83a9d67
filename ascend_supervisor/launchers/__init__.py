"""Launchers: from the rank table to what is started; one file a method, all of them pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ascend_supervisor.cluster.rank_table import Entry, RankTable
from ascend_supervisor.launchers.spec import ProcessSpec
from ascend_supervisor.paths import Place


@dataclass(frozen=True, slots=True)
class Here:
    """This machine: its entry of the table, at position ``node_rank``, and where its files go."""

    node_rank: int
    entry: Entry
    place: Place


@dataclass(frozen=True, slots=True)
class Boot:
    """What is to be run, and what every method needs to know to run it.

    ``environ`` is what the processes inherit: some variables are set only if they are not there.
    ``port`` is where rank 0 is met, if it was told.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str]
    restarts: int
    port: int | None = None

    def inherited(self, name: str, value: str) -> str:
        """The variable's value in the inherited environment, else ``value``."""
        return self.environ.get(name) or value


class Launcher(Protocol):
    """Plans a generation; the same arguments give the same plan."""

    @property
    def needs_table_file(self) -> bool:
        """Whether the processes read the file of the rank table, so that nothing else will do."""

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]: ...
