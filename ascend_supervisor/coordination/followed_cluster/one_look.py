"""What one look at the cluster's files has shown; values."""

from __future__ import annotations

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.cluster.reset_file import ResetFile

Stamp = tuple[int, int, int]
"""Device, inode and modification time (ns) of a file."""


class CompletedTable(Struct, frozen=True):
    """A completed table; ``stamp`` None: it came from no file, and never changes."""

    found: FoundTable
    stamp: Stamp | None = None


class WithdrawnTable(Struct, frozen=True):
    """The table itself says that it is not completed.

    ``is_projected``: the file is that of a ConfigMap, so it may long be completed again.
    """

    why: str
    is_projected: bool = False


class WrongTable(Struct, frozen=True):
    """The table says that it is completed, but is wrong."""

    faults: tuple[str, ...]


Table = CompletedTable | WithdrawnTable | WrongTable


class Sight(Struct, frozen=True):
    """What one look at the files has shown; None: no news (missing, half written, no answer).

    ``table`` is what it was, if the file has not changed. ``reset_is_there``: there is such a file,
    whatever it holds; neither this nor ``reset_is_missing``: its file system does not answer.
    ``reset_trouble`` is why it cannot be read, empty if it can.
    """

    table: Table | None = None
    reset: ResetFile | None = None
    reset_is_missing: bool = False
    reset_is_there: bool = False
    reset_trouble: str = ""
