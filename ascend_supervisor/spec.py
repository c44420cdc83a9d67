"""What to start; values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to start.

    ``environ`` holds changes to our own environment; None removes a variable.
    ``directories`` are made before the start, ``cwd`` and the log's parent too.
    A generation is complete when its ``significant`` processes have ended with 0.
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

    @property
    def name(self) -> str:
        """How people call it: ``rank 3``, or the program's name where it has no rank."""
        return PurePath(self.argv[0]).name if self.rank is None else f"rank {self.rank}"
