"""What ctl prints for people: short facts and aligned tables; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from ascend_supervisor.untrusted_text import plain

if TYPE_CHECKING:  # a status is printed without the readers of rank tables, and the reverse
    from ascend_supervisor.cluster.rank_table import Entry, RankTable
    from ascend_supervisor.reporters.state_file import RankStatus, Status

MOST_ENTRIES = 20
_MOST_SPANS = 8
_NONE = "-"


def status_text(status: Status, lives: Callable[[RankStatus], bool]) -> str:
    """The job's status; ``lives`` returns whether a rank's process is alive."""
    facts = [
        ("job", f"{status.job_id} on {status.pod}"),
        ("phase", status.phase),
        ("why", status.why),
        ("exit code", status.exit_code),
        ("root cause", status.root_cause),
        ("supervisor", f"process {status.pid}, version {status.version}"),
        ("generation", status.generation),
        ("restarts left", status.restarts_left),
        ("world size", status.world_size),
    ]
    rows = [_rank_row(rank, lives(rank)) for rank in status.ranks]
    heads = ("RANK", "LOCAL", "PID", "ALIVE", "STATUS", "LOG")
    return _facts(facts) + (f"\n{_table(heads, rows)}" if rows else "")


def table_text(table: RankTable) -> str:
    """What the rank table says, entry by entry up to ``MOST_ENTRIES``."""
    facts = [
        ("format", table.format.value),
        ("world size", table.world_size),
        ("servers", table.servers),
        ("entries", len(table.entries)),
    ]
    rows = [_entry_row(place, entry) for place, entry in enumerate(table.entries[:MOST_ENTRIES])]
    heads = ("NODE RANK", "SERVER", "POD", "RANKS", "DEVICES")
    more = len(table.entries) - MOST_ENTRIES
    end = f"and {more} more\n" if more > 0 else ""
    return _facts(facts) + (f"\n{_table(heads, rows)}{end}" if rows else "")


def spans(numbers: Iterable[int]) -> str:
    """The numbers, consecutive ones as one span: ``0-7,12``; cut when there are many spans."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    listed = [f"{low}" if low == high else f"{low}-{high}" for low, high in found[:_MOST_SPANS]]
    if len(found) > _MOST_SPANS:
        listed.append("...")
    return ",".join(listed) or "none"


def _rank_row(rank: RankStatus, lives: bool) -> tuple[object, ...]:
    ended = rank.status if rank.signal is None else plain(rank.signal)
    alive = "yes" if lives else "no"
    return rank.rank, rank.local_rank, rank.pid, alive, ended, plain(rank.log)


def _entry_row(node_rank: int, entry: Entry) -> tuple[object, ...]:
    names = (None if name is None else plain(name) for name in (entry.server_id, entry.pod_name))
    ranks = spans(device.rank for device in entry.devices)
    return node_rank, *names, ranks, spans(device.device_id for device in entry.devices)


def _facts(facts: Iterable[tuple[str, object]]) -> str:
    """Name and value, line by line; further lines of a value are aligned with its first."""
    told = [(name, str(value)) for name, value in facts if value not in {None, ""}]
    width = max(len(name) for name, _ in told) + 2
    return "".join(
        f"{head:<{width}}{plain(line)}\n"
        for name, value in told
        for head, line in zip_longest([name], value.split("\n"), fillvalue="")
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [heads, *([_NONE if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(f"{'  '.join(map(str.ljust, line, widths)).rstrip()}\n" for line in lines)
