"""Launchers: from the rank table to what is started; one file a method, all of them pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from ascend_supervisor.place import Place
from ascend_supervisor.rank_table import Entry, RankTable
from ascend_supervisor.spec import ProcessSpec


@dataclass(frozen=True, slots=True)
class Here:
    """This machine: its entry of the table, at position ``node_rank``, and where its files go."""

    node_rank: int
    entry: Entry
    place: Place


class Launcher(Protocol):
    """Plans a generation; the same arguments give the same plan."""

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]: ...


def log_path(place: Place, rank: int, local_rank: int) -> PurePath:
    """A rank's log; none of what ModelArts' own collector takes (*.log, *.out, *.trace)."""
    return place.log_dir / f"{place.job_id}-proc-rank-{rank}-device-{local_rank}.txt"
