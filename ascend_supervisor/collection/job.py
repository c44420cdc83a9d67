"""What a supervisor keeps of its job: events, stacks, tables, logs; and whose logs matter most.

An event log names these files. Nothing in it is trusted: what is not as expected is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct, field

from ascend_supervisor.collection.archive import Collector, member_name
from ascend_supervisor.collection.disks import Disks
from ascend_supervisor.collection.plogs import PlogRoot, add_plogs, find_plogs, job_roots
from ascend_supervisor.collection.rank_logs import add_rank_logs, worker_logs
from ascend_supervisor.collection.running import RunningProcess, here
from ascend_supervisor.files.regular_file import read_regular_file, reason_of
from ascend_supervisor.job_files import TABLE_FILE, cann_log_root
from ascend_supervisor.phrases import QUOTED
from ascend_supervisor.report.last_job import JobChanges
from ascend_supervisor.report.told import ToldEvent, moment
from ascend_supervisor.reporters.status_document import Status
from ascend_supervisor.reporters.termination_log import USUAL

FOLDER = "supervisor"
LOGS_OF_FOUR = 3
"""So many fourths of the room are for the ranks' logs at least, the rest for those of CANN."""


class KnownJob(Struct, frozen=True):
    """A job: its status, what its events tell, and its processes by rank, as far as they run."""

    status: Status
    story: Story
    supervisor: RunningProcess
    ranks: Mapping[int, RunningProcess]

    @property
    def failed(self) -> list[int]:
        """The ranks that failed first, the latest one first; without events, all that failed."""
        ended = (one for one in self.status.ranks if one.signal or one.status)
        return self.story.failed[::-1] or [one.rank for one in ended if one.rank is not None]

    @property
    def quoted(self) -> list[Path]:
        """The logs that the root causes quote, the latest one first."""
        last = quoted_log(self.status.root_cause or "")
        found = [*([] if last is None else [last]), *reversed(self.story.quoted)]
        return [Path(log) for log in dict.fromkeys(found)]

    def logs(self) -> tuple[list[Path], int]:
        """All logs, those of ``failed`` ranks first; and how many are of these."""
        ranks = {one.log: one.rank for one in self.status.ranks}
        ranks |= {log: rank for log, rank in self.story.logs.items() if log not in ranks}
        order: dict[int | None, int] = {rank: place for place, rank in enumerate(self.failed)}
        first = [log for log, rank in ranks.items() if rank in order]
        first.sort(key=lambda log: order[ranks[log]])
        rest = [log for log, rank in ranks.items() if rank not in order]
        return [Path(log) for log in (*first, *rest)], len(first)


def event_files(newest: Path) -> list[Path]:
    """The event log at ``newest``, and the file before it, which comes first."""
    return [newest.with_name(f"{newest.name}.1"), newest]


def add_events(collector: Collector, newest: Path, is_own: Callable[[ToldEvent], bool]) -> Story:
    """Take the events; returns what they tell of the job whose event ``is_own``."""
    files = event_files(newest)
    for name, path in zip(("events.jsonl.1", "events.jsonl"), files, strict=True):
        if path == newest or path.exists():
            collector.add_file(member_name(FOLDER, name), path)
    return story_of(chain.from_iterable(_content(collector.disks, path) for path in files), is_own)


def _content(disks: Disks, path: Path) -> Iterator[bytes]:
    with suppress(OSError), disks.opened(path) as file:
        yield from disks.end_of(file, file.size)
    yield b"\n"


def add_stacks(collector: Collector, story: Story) -> None:
    """Take the stacks that were taken; ascend-fd would read a ``rank-0.txt`` as a rank's log."""
    for directory, files in story.looks:
        for file in files:
            stem = file.removesuffix(".txt")
            collector.add_file(
                member_name("stacks", directory.name, f"{stem}.stack"), directory / file
            )


def add_termination_log(collector: Collector, supervisor: RunningProcess) -> None:
    """Take what kubelet reads, where there is such a file."""
    named = supervisor.option("termination-log")
    if named is not None:
        collector.add_file("termination-log", named)
    elif USUAL.exists():
        collector.add_file("termination-log", USUAL, disks=Disks())
    else:
        collector.leave_out(str(USUAL), "there is none: this is no container of Kubernetes")


def add_rank_tables(
    collector: Collector, job: KnownJob, state_file: Path, most: int
) -> list[bytes]:
    """Take the rank table of the cluster, and that of the ranks; returns what they hold.

    A relative path begins in the supervisor's directory, or after its end in ours. What has more
    than ``most`` bytes is no rank table.
    """
    told = job.story.rank_table or ""
    begin = job.supervisor.cwd if job.supervisor.words else here()
    seen = [begin / told] if told and not told.startswith("--") else []
    ranks = (one.environ.get("RANK_TABLE_FILE") for one in job.ranks.values())
    seen += [Path(path) for path in ranks if path]
    seen += [path for path in _copies(state_file.parent, job.status.job_id) if path.is_file()]
    if not seen:
        collector.leave_out("the rank table", "neither an event nor a rank names one")
    found = []
    for path in dict.fromkeys(seen):
        content = _table(collector, path, most)
        if content is not None:
            collector.add_text(member_name(FOLDER, path.name), str(path), content)
            found.append(content)
    return found


def _copies(logs: Path, job_id: str) -> tuple[Path, Path]:
    """Where a supervisor may have put the table for its ranks, without and with a mount."""
    return logs / job_id / "rank_table" / TABLE_FILE, logs.parent / "rank_table" / TABLE_FILE


def _table(collector: Collector, path: Path, most: int) -> bytes | None:
    """The content, if it is a rank table: its path was told, and may be that of anything."""
    try:
        content = collector.disks.ask(path.parent, lambda: read_regular_file(path, most))
        if b'"server_' in content and isinstance(orjson.loads(content), dict):
            return content
        collector.leave_out(str(path), "it is no rank table")
    except orjson.JSONDecodeError:
        collector.leave_out(str(path), "it is no rank table")
    except OSError as error:
        collector.leave_out(str(path), reason_of(error))
    return None


def add_logs(
    collector: Collector, job: KnownJob, roots: Sequence[PlogRoot], state_file: Path
) -> None:
    """Take the logs of the ranks, of a launcher's workers and of CANN, in the room that is left."""
    logs, first = job.logs()
    directories = [state_file.parent, *(log.parent for log in logs)]
    workers = worker_logs(collector, directories, job.status.job_id, job.story.began or 0.0)
    others = dict.fromkeys(log for log in workers if log not in set(logs))
    quoted = [log for log in job.quoted if log in others]
    logs = [*dict.fromkeys([*quoted, *logs, *others])]
    first += len(quoted)
    plogs = find_plogs(collector, roots)
    beside_plogs = collector.room - sum(plog.file.size for plog in plogs)
    room = max(collector.room * LOGS_OF_FOUR // 4, beside_plogs)
    add_rank_logs(collector, logs, first, room)
    add_plogs(collector, plogs)


def plog_roots(
    collector: Collector, job: KnownJob | None, state_file: Path, environ: Mapping[str, str]
) -> list[PlogRoot]:
    """Where CANN writes: as the ranks say, as supervisors tell it, as ``environ`` says.

    What is not in a directory of the job's own counts from the beginning of the job.
    """
    own = cann_log_root(environ, here())
    if job is None:
        return [PlogRoot(own)] if own is not None else []
    directories = [state_file.parent, *(Path(one.log).parent for one in job.status.ranks)]
    found = job_roots(collector, directories, job.status.job_id)
    told = (cann_log_root(one.environ, one.cwd) for one in (*job.ranks.values(), job.supervisor))
    names = {root.path for root in found}
    since = job.story.began or 0.0
    return found + [PlogRoot(path, since) for path in _others(chain(told, [own]), names)]


def _others(paths: Iterable[Path | None], known: set[Path]) -> list[Path]:
    return [path for path in dict.fromkeys(paths) if path is not None and path not in known]


MOST_LOOKS = 10
"""So many of the latest directories with stacks are taken."""
MOST_LOGS = 10_000
_WANTED = (
    b'"process.started"',
    b'"process.exited"',
    b'"stacks.taken"',
    b'"rank_table.ready"',
    b'"restart.scheduled"',
    b'"supervisor.started"',
    b'"supervisor.exited"',
)
_LOG = re.compile(rf"^{QUOTED} (.+):$", re.MULTILINE)


def quoted_log(root_cause: str) -> str | None:
    """The log whose last lines it quotes: that of a worker, if a launcher has started it."""
    found = _LOG.search(root_cause)
    return found[1] if found else None


class Story(Struct):
    """``logs`` in the order of their ranks' first starts; ``failed`` are those that failed first.

    ``quoted`` are the logs that root causes quote, the latest one last. ``began`` is when the first
    event was written (Unix time, seconds).
    """

    logs: dict[str, int | None] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)
    quoted: list[str] = field(default_factory=list)
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rank_table: str | None = None
    this_server: str | None = None
    began: float | None = None

    def hear(self, event: dict[str, Any]) -> None:
        """Take what the next event tells."""
        match event:
            case {"event": "process.started", "log": str(log), "rank": int() | None as rank}:
                if len(self.logs) < MOST_LOGS:
                    self.logs.setdefault(log, rank)
            case {"event": "process.exited", "first_failure": True, "rank": int(rank)}:
                self.failed = [*(one for one in self.failed if one != rank), rank]
            case {
                "event": "restart.scheduled" | "supervisor.exited",
                "root_cause": str(root_cause),
            }:
                self._quote(quoted_log(root_cause))
            case {"event": "stacks.taken", "directory": str(directory), "files": list(files)}:
                self.see(directory, [name for name in files if isinstance(name, str)])
            case {"event": "rank_table.ready", "path": str(path)}:
                self.rank_table = path
                label = event.get("this_server")
                self.this_server = label if isinstance(label, str) else None
            case {"event": "supervisor.started"}:
                at = moment(event)
                if at is not None and self.began is None:
                    self.began = at / 1e6
            case _:
                pass

    def _quote(self, log: str | None) -> None:
        if log is not None:
            self.quoted = [*(one for one in self.quoted if one != log), log]

    def see(self, directory: str, files: Iterable[str]) -> None:
        """Take what a look at the ranks has left; the latest one comes last."""
        self.stacks.pop(directory, None)
        self.stacks[directory] = tuple(name for name in files if "/" not in name)

    @property
    def looks(self) -> list[tuple[Path, tuple[str, ...]]]:
        """The latest directories with stacks, and their files."""
        return [(Path(place), files) for place, files in list(self.stacks.items())[-MOST_LOOKS:]]


def story_of(pieces: Iterable[bytes], is_own: Callable[[ToldEvent], bool]) -> Story:
    """What event logs tell of their last job, from their bytes in the order of time.

    Nothing, if none of its events ``is_own``: then it is a former job. Half a line is no event.
    """
    story, changes, rest, has_own = Story(), JobChanges(), b"", False
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if any(name in line for name in _WANTED):
                event = _event(line)
                if changes.begins_with(event):
                    story, has_own = Story(), False
                has_own = has_own or is_own(event)
                story.hear(event)
    return story if has_own else Story()


def _event(line: bytes) -> dict[str, Any]:
    """Empty for a line that is no event."""
    with suppress(orjson.JSONDecodeError):
        event = orjson.loads(line)
        if isinstance(event, dict):
            return event
    return {}
