"""Launchers: from the rank table to the processes; one file per method, all pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from ascend_supervisor.cluster.declared import (
    Chief,
    Meeting,
    Scheduler,
    TorchStore,
)
from ascend_supervisor.cluster.rank_table import Entry, RankTable
from ascend_supervisor.job_files import Place
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.settings.readers import RankDir


class Here(Struct, frozen=True):
    """This machine: its entry of the table, at position ``node_rank``, and where its files go.

    ``addresses`` are those of host names that a plan has asked for. ``port`` is one that the job
    keeps for rank 0, if all ranks are here.
    """

    node_rank: int
    entry: Entry
    place: Place
    addresses: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None


class Boot(Struct, frozen=True):
    """What is to be run, and what every method needs to know to run it.

    ``environ`` is what the processes inherit: some variables are set only if they are missing.
    ``port`` is the rendezvous port of rank 0, if it was given. ``rank_dir`` says where ranks start.
    ``meeting`` is where the ranks meet, if the platform says it. ``handed_on`` names variables that
    the user added; ranks get them on all servers. ``ends_are_shared``: all servers learn how each
    of them has ended (--peers). ``script`` is the file that the command names for its interpreter.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str]
    restarts: int
    port: int | None = None
    rank_dir: RankDir = "device"
    meeting: Meeting | None = None
    handed_on: frozenset[str] = frozenset()
    ends_are_shared: bool = False
    script: str | None = None

    @property
    def store(self) -> TorchStore | None:
        """Where PyTorch ranks meet, if the platform says it."""
        return self.meeting if isinstance(self.meeting, TorchStore) else None

    @property
    def scheduler(self) -> Scheduler | None:
        """The job's MindSpore scheduler, if the platform says where it is."""
        return self.meeting if isinstance(self.meeting, Scheduler) else None

    @property
    def chief(self) -> Chief | None:
        """Where TensorFlow ranks meet, if the platform says it."""
        return self.meeting if isinstance(self.meeting, Chief) else None

    def inherited(self, name: str, value: str) -> str:
        """The variable's value in the inherited environment, else ``value``."""
        return self.environ.get(name) or value


class Launcher(Protocol):
    """Plans a generation; the same arguments give the same plan."""

    @property
    def needs_table_file(self) -> bool:
        """Whether the processes read the rank table file, so that it must exist."""

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]: ...
