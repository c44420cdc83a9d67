"""What to start; values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from ascend_supervisor.launchers.failure_words import Explanation, Testimony


@dataclass(frozen=True, slots=True)
class WorkerLog:
    """A log that a launcher's worker writes itself."""

    path: PurePath
    rank: int
    local_rank: int


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to start.

    ``environ`` holds changes to our own environment; None removes a variable.
    ``directories`` are made before the start, ``cwd`` and the log's parent too; then ``files`` are
    written, for nobody else to read. It inherits the ``descriptors``.
    A generation is complete when its ``significant`` processes have ended with 0.
    ``explanation`` finds in its words why its framework ended it.
    ``testimony`` reads what a launcher, which has workers of its own, tells of their end; where
    they have logs of their own (``worker_logs``), these are mirrored in place of its output.
    """

    argv: tuple[str, ...]
    cwd: PurePath
    log: PurePath
    environ: Mapping[str, str | None] = field(default_factory=dict)
    rank: int | None = None
    local_rank: int | None = None
    significant: bool = True
    directories: tuple[PurePath, ...] = ()
    error_file: PurePath | None = None
    title: str | None = None
    explanation: Explanation | None = None
    testimony: Testimony | None = None
    worker_logs: tuple[WorkerLog, ...] = ()
    files: Mapping[PurePath, bytes] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """How people call it: its title, else ``rank 3``, else its program."""
        if self.title is not None:
            return self.title
        return PurePath(self.argv[0]).name if self.rank is None else f"rank {self.rank}"

    @property
    def program(self) -> str | None:
        """What it is, where it is no rank."""
        return self.name if self.rank is None else None
