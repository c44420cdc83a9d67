"""Rank tables in files that an operator names: read without waiting, printed, written at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ascend_supervisor.cluster.parsing import MAX_BYTES, parse
from ascend_supervisor.cluster.rank_table import NotReady, RankTable
from ascend_supervisor.ctl.columns import facts, table
from ascend_supervisor.errors import (
    TABLE_NOT_READY,
    Refusal,
    SettingsRefused,
    TableRefused,
)
from ascend_supervisor.phrases import more, run_text, runs
from ascend_supervisor.untrusted_text import plain

if TYPE_CHECKING:
    from ascend_supervisor.cluster.rank_table import Entry


STDIN = 0
MOST_NAMES = 5
"""How many files of a directory a refusal names."""


class TableNotCompleted(Refusal):
    """The rank table is still being written."""

    exit_code: ClassVar[int] = TABLE_NOT_READY


class TableRead(NamedTuple):
    """A table, the file that it was read from, for people, and its content."""

    table: RankTable
    where: str
    content: bytes

    @property
    def is_what_ranks_get(self) -> bool:
        """Whether the file needs no conversion."""
        return self.content == self.table.document


def read_table_file(name: str) -> TableRead:
    """The table in the file, ``-`` for stdin, which may be a pipe; or in the directory.

    Raises SettingsRefused for a file that cannot be read, TableNotCompleted, TableRefused.
    """
    where = "on stdin" if name == "-" else plain(name)
    try:
        if name != "-":
            name = _file_at(name)
            where = plain(name)
        with open(STDIN if name == "-" else name, "rb", closefd=name != "-") as file:
            content = file.read(MAX_BYTES + 1)
        table = parse(content)
    except OSError as error:
        reason = error.strerror or error
        raise SettingsRefused(f"the rank table {where} cannot be read: {reason}") from error
    except TableRefused as refusal:
        raise TableRefused(*(f"{where}: {fault}" for fault in refusal.faults)) from refusal
    if isinstance(table, NotReady):
        raise TableNotCompleted(f"the rank table {where} is not ready: {table.text}")
    return TableRead(table, where, content)


def _file_at(name: str) -> str:
    """``name``, or the file in the directory ``name`` where the supervisor would look for it."""
    place = Path(name)
    if not place.is_dir():
        return name
    from ascend_supervisor.cluster.table_file import FILE_NAMES  # noqa: PLC0415  (slow)

    for file in FILE_NAMES:
        if (place / file).is_file():
            return str(place / file)
    for file in FILE_NAMES:
        if defect := _no_file(place / file):
            raise SettingsRefused(f"{plain(str(place / file))}: expected a file, found {defect}")
    held = sorted(file.name for file in place.iterdir())[:MOST_NAMES]
    raise SettingsRefused(
        f"{plain(name)} is a directory: expected {' or '.join(FILE_NAMES)} in it, "
        f"found {', '.join(map(plain, held)) or 'nothing'}; name the file"
    )


def _no_file(path: Path) -> str:
    """What is there in place of a file; empty if nothing is."""
    if path.is_dir():
        return "a directory; name the rank table itself"
    if path.exists():
        return "a pipe, a socket or a device; name the rank table itself"
    if path.is_symlink():
        return f"a link to {plain(str(path.readlink()))}, which does not exist; correct the link"
    return ""


MOST_ENTRIES = 20
_MOST_SPANS = 8


def table_text(table_read: RankTable) -> str:
    """What the rank table says, entry by entry up to ``MOST_ENTRIES``."""
    named = [
        ("format", table_read.format.value),
        ("world size", table_read.world_size),
        ("servers", table_read.servers),
        ("entries", len(table_read.entries)),
    ]
    shown = table_read.entries[:MOST_ENTRIES]
    rows = [_entry_row(place, entry) for place, entry in enumerate(shown)]
    lines = facts(named)
    if rows:
        lines += ["", *table(("NODE RANK", "SERVER", "POD", "RANKS", "DEVICES"), rows)]
    lines += more(len(table_read.entries) - MOST_ENTRIES)
    return "".join(f"{line}\n" for line in lines)


def spans(numbers: Iterable[int]) -> str:
    """The numbers, consecutive ones as one span: ``0-7,12``; cut when there are many spans."""
    found = runs(numbers)
    dots = ["..."] if len(found) > _MOST_SPANS else []
    return ",".join([*map(run_text, found[:_MOST_SPANS]), *dots]) or "none"


def _entry_row(node_rank: int, entry: Entry) -> tuple[object, ...]:
    names = (None if name is None else plain(name) for name in (entry.server_id, entry.pod_name))
    ranks = spans(device.rank for device in entry.devices)
    return node_rank, *names, ranks, spans(device.device_id for device in entry.devices)
