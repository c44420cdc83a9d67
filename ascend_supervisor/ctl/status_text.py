"""The status of a job as text for people, and as a screen of a given size; pure.

Text of ranks is shown on one line and steers no terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import Language
from ascend_supervisor.control.status_answer import LiveStatus, PeersStatus, RankRow
from ascend_supervisor.ctl.columns import columns_of, cut, facts, folded, size, table
from ascend_supervisor.ctl.course import course, past_generations, past_restarts
from ascend_supervisor.output.terminal import painted
from ascend_supervisor.phrases import duration
from ascend_supervisor.progress.progress import ProgressStatus, rfc3339
from ascend_supervisor.progress.words import training_line
from ascend_supervisor.reporters.status_document import RankStatus, Status
from ascend_supervisor.untrusted_text import plain, printable

HEADS = ("SERVER", "HOST", "PHASE", "SINCE", "LAST WORD")
STALE_SECONDS = 60.0
"""An etcd that is well is read more often, unless the TTL is very long."""


def servers_table(peers: PeersStatus | None) -> tuple[str, ...]:
    """A line for each server after the heads; nothing without peers.

    The server that answers has a star.
    """
    if peers is None or not peers.servers:
        return ()
    rows = [
        (
            f"{one.server}{'*' * (one.server == peers.server)}",
            printable(one.host) if one.host else None,
            printable(one.phase),
            duration(one.age_seconds),
            printable(one.last_word),
        )
        for one in peers.servers
    ]
    return tuple(table(HEADS, rows))


def how_old(peers: PeersStatus | None) -> str:
    """A warning where etcd was read too long ago; else nothing."""
    if peers is None or peers.seen_seconds < STALE_SECONDS:
        return ""
    return f"as they were {duration(peers.seen_seconds)} ago: etcd has not been read since"


STATUS_COLUMNS = 40
"""Of a rank's own STATUS text, so that its last line has room."""
_NO_FAILURE = {None, 0, "SIGTERM"}
"""Of a rank: it runs, has ended with 0, or was told to end."""
TEXTS = frozenset({"STATUS", "LAST LINE"})
TEXT_COLUMNS = 40
"""For both texts of a rank; in a narrower window other columns are left out."""
BAR_COLUMNS = 50
HOME, TO_LINE_END, TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
CLEAR = f"{HOME}\x1b[2J"
BOLD, RED = "1", "31"
NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"


class Window(Struct, frozen=True):
    """The size of a terminal, in characters."""

    columns: int
    lines: int


class Picture(Struct, frozen=True):
    """The status, line by line: ``facts``, then two tables with their heads, or nothing.

    ``failed`` are the lines of ``ranks`` that are of ranks that have failed.
    """

    facts: tuple[str, ...]
    ranks: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    failed: frozenset[int] = frozenset()

    @property
    def lines(self) -> list[str]:
        """All of it."""
        return [*self.facts, *self.tables]

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def tables(self) -> list[str]:
        """Each after an empty line."""
        return [*_apart(self.ranks), *_apart(self.servers)]


def of_file(
    status: Status,
    lives: Callable[[RankStatus], bool],
    trouble: str = "",
    phase: str | None = None,
    file: str = "",
    now: datetime | None = None,
    written: datetime | None = None,
    language: Language = "en",
) -> Picture:
    """A status without live figures; ``lives`` returns whether a rank's process is alive.

    ``phase`` is shown in place of that in the file, if it is wrong; ``file`` is told where the
    reader has not named it. So is when it was ``written``, if much may have happened since.
    ``language`` is that of causes.
    """
    heads = ("RANK", "LOCAL", "PID", "ALIVE", "STATUS", "LOG")
    rows = [_row_of_file(rank, lives(rank)) for rank in status.ranks]
    told = [
        *_job(status),
        ("state file", file),
        ("as of", _as_of(written, now)),
        ("phase", phase or status.phase),
        ("training", training_line(status.progress, now, goes_on=False)),
        *course(status, status.why, trouble, language),
        ("generations", past_generations(status.generations)),
    ]
    return _picture(told, heads, rows, [_end(rank) for rank in status.ranks])


def of_answer(
    live: LiveStatus,
    columns: float = inf,
    now: datetime | None = None,
    language: Language = "en",
) -> Picture:
    """What the supervisor has answered, for a window of so many columns.

    If it is narrow, less is shown beside what the ranks say themselves.
    """
    status = live.status
    why = "" if status.phase == "running" else status.why  # the generation says it better
    told = [
        *_job(status, live.started_at),
        ("phase", f"{status.phase} for {duration(live.phase_seconds)}"),
        ("training", training_line(status.progress, now)),
        ("", _bar(status.progress, columns)),
        *course(status, why, language=language),
        ("standbys", status.standbys and status.standbys.words),
        ("restarts", past_restarts(live.restarts)),
        ("servers", how_old(live.peers)),
    ]
    notifies = any(row.notify_status for row in live.ranks)
    heads = ["RANK", "LOCAL", "PID", "STATE", "UP", "OUTPUT", "QUIET", "STATUS", "LAST LINE"]
    ends = {rank.pid: _end(rank) for rank in status.ranks}
    rows = [_row(row, ends.get(row.pid or 0)) for row in live.ranks]
    if not notifies:
        heads, rows = _without("STATUS", heads, rows)
    ended = [ends.get(row.pid or 0) for row in live.ranks]
    picture = _picture(told, *_narrowed(heads, rows, columns), ended)
    return replace(picture, servers=servers_table(live.peers))


def _narrowed(
    heads: list[str], rows: list[list[object]], columns: float
) -> tuple[list[str], list[list[object]]]:
    """Room for the texts of ranks: at least TEXT_COLUMNS, and half of it for the last lines."""
    for head in ("LOCAL", "PID"):
        if _room(heads, rows, columns) < TEXT_COLUMNS:
            heads, rows = _without(head, heads, rows)
    if "STATUS" in heads:
        at = heads.index("STATUS")
        most = max(min(_room(heads, rows, columns) / 2, STATUS_COLUMNS), len("STATUS"))
        rows = [[*row[:at], cut(str(row[at]), int(most)), *row[at + 1 :]] for row in rows]
    return heads, rows


def _room(heads: Sequence[str], rows: Sequence[Sequence[object]], columns: float) -> float:
    """What the columns before the texts of ranks leave of so many columns."""
    texts = [head in TEXTS for head in heads]
    fixed = [head for head, is_text in zip(heads, texts, strict=True) if not is_text]
    cells = [[cell for cell, text in zip(row, texts, strict=True) if not text] for row in rows]
    return columns - max(map(columns_of, table(fixed, cells))) - 2 * sum(texts)


def narrowed(picture: Picture, columns: int) -> Picture:
    """``picture`` with the lines of its tables cut to so many columns."""
    return replace(
        picture,
        ranks=tuple(cut(line, columns) for line in picture.ranks),
        servers=tuple(cut(line, columns) for line in picture.servers),
    )


def fitted(picture: Picture, window: Window) -> list[str]:
    """The lines of ``picture`` in this window: cut at its width, and to its height.

    If there is too much, the facts have at least half of it, or what they need; what is missing
    is counted. Facts that are too wide are continued on further lines if there is room for all.
    """
    for_tables = max(window.lines - len(picture.facts), window.lines // 2)
    tables = _shortened(picture.tables, for_tables)
    # The last column stays free: a character there would be erased with the rest of its line.
    columns = window.columns - 1
    wrapped = [part for line in picture.facts for part in folded(line, columns)]
    told = wrapped if len(wrapped) + len(tables) <= window.lines else picture.facts
    lines = [*_shortened(told, window.lines - len(tables)), *tables]
    return [cut(line, columns) for line in lines]


def coloured(lines: Sequence[str], picture: Picture) -> list[str]:
    """``lines`` of ``picture``, cut to any size: the head of its ranks bold, failed ones red.

    So is the line that counts missing ones, if one of them has failed.
    """
    if not picture.ranks or "" not in lines:
        return list(lines)
    head, last = lines.index("") + 1, len(lines) - 1
    colours = {head: BOLD} | {min(head + number, last): RED for number in picture.failed}
    return [
        painted(line, colours[number]) if number in colours else line
        for number, line in enumerate(lines)
    ]


def frame(lines: Sequence[str]) -> str:
    """What draws ``lines`` over those before, without flicker; the cursor ends after the last.

    Characters that are wider than we think wrap no line.
    """
    drawn = f"{TO_LINE_END}\r\n".join(lines)
    return f"{NO_WRAP}{HOME}{drawn}{TO_LINE_END}{TO_SCREEN_END}{WRAP}"


def _picture(
    named: Sequence[tuple[str, object]],
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    ends: Sequence[object],
) -> Picture:
    """``ends`` are those of the ranks in ``rows``."""
    failed = frozenset(number for number, end in enumerate(ends, 1) if end not in _NO_FAILURE)
    return Picture(tuple(facts(named)), tuple(table(heads, rows)) if rows else (), failed=failed)


def _job(status: Status, started_at: str = "") -> list[tuple[str, object]]:
    supervisor = f"process {status.pid}, version {status.version}"
    since = f", started at {started_at}" if started_at else ""
    return [
        ("job", f"{status.job_id} on {status.pod}"),
        ("supervisor", f"{supervisor}{since}"),
    ]


def _as_of(written: datetime | None, now: datetime | None) -> str:
    if written is None or now is None:
        return ""
    age = duration((now - written).total_seconds())
    return f"{rfc3339(written)}, {age} ago; what came later is only in the logs"


def _bar(known: ProgressStatus | None, columns: float) -> str:
    """How much of all steps is done, as long as half a window; empty if it is not known.

    In ASCII, because some terminals show blocks in two columns.
    """
    if known is None or not known.steps or columns == inf:
        return ""
    length = min(int(columns) // 2, BAR_COLUMNS)
    done = min(length * (known.step or 0) // known.steps, length)
    return f"[{'#' * done}{'.' * (length - done)}]"


def _row_of_file(rank: RankStatus, lives: bool) -> tuple[object, ...]:
    alive = "yes" if lives else "no"
    return rank.rank, rank.local_rank, rank.pid, alive, _end(rank), plain(rank.log)


def _end(rank: RankStatus) -> object:
    return rank.status if rank.signal is None else plain(rank.signal)


def _row(row: RankRow, end: object) -> list[object]:
    quiet = None if row.silent_seconds is None else duration(row.silent_seconds)
    return [
        row.program if row.rank is None else row.rank,
        row.local_rank,
        row.pid,
        row.state if end is None or row.state != "ended" else f"ended {end}",
        duration(row.uptime_seconds),
        None if row.bytes is None else size(row.bytes),
        None if row.state == "ended" else quiet,
        cut(printable(row.notify_status), STATUS_COLUMNS),
        row.last_line.strip(),
    ]


def _without(
    head: str, heads: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple[list[str], list[list[object]]]:
    at = heads.index(head)
    return [*heads[:at], *heads[at + 1 :]], [[*row[:at], *row[at + 1 :]] for row in rows]


def _apart(ranks: Sequence[str]) -> list[str]:
    """``ranks`` after an empty line."""
    return ["", *ranks] if ranks else []


def _shortened(lines: Sequence[str], most: int) -> list[str]:
    """At most so many lines; the last one counts those that are missing."""
    if len(lines) <= most:
        return list(lines)
    kept = max(most - 1, 0)
    return [*lines[:kept], f"and {len(lines) - kept} more"][: max(most, 0)]
