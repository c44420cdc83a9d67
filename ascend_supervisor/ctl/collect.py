"""``collect``: one archive for a support ticket, of this server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from msgspec import Struct

from ascend_supervisor import __version__
from ascend_supervisor.cluster.parsing import MAX_BYTES, parse
from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.collection.archive import (
    MANIFEST_NAME,
    NOT_MASKED,
    Archive,
    Collector,
    Manifest,
    OtherServer,
    member_name,
)
from ascend_supervisor.collection.disks import Disks
from ascend_supervisor.collection.job import (
    KnownJob,
    add_events,
    add_logs,
    add_rank_tables,
    add_stacks,
    add_termination_log,
    event_files,
    plog_roots,
)
from ascend_supervisor.collection.machine import add_machine, add_own_environment, add_process
from ascend_supervisor.collection.npu import add_npu, devices_here
from ascend_supervisor.collection.plogs import add_plogs, find_plogs
from ascend_supervisor.collection.running import RunningProcess, add_check, here, shown
from ascend_supervisor.collection.versions import add_versions
from ascend_supervisor.control.protocol import Dumped
from ascend_supervisor.control.status_answer import LiveStatus
from ascend_supervisor.ctl.acts import NotDone, dump, lines_of
from ascend_supervisor.ctl.event_files import start_of
from ascend_supervisor.ctl.new_file import new_file
from ascend_supervisor.ctl.out import PROGRAM
from ascend_supervisor.ctl.reports import text
from ascend_supervisor.ctl.seen import look_at
from ascend_supervisor.ctl.state import State, StateUnknown, read_state_file
from ascend_supervisor.errors import Refusal, SettingsRefused, TableRefused
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.job_files import events_beside
from ascend_supervisor.phrases import counted, listed
from ascend_supervisor.report.last_job import WritingStart
from ascend_supervisor.untrusted_text import plain

MOST_NAMED = 100
"""How many servers a sentence names; the manifest has all of them."""


class Collected(Struct, frozen=True):
    """The state file that is meant, and what it says; ``why`` says why there is no ``state``."""

    path: Path
    state: State | None = None
    why: str = ""

    @property
    def label(self) -> str:
        """The job and the server, or the host: the name of the directory in the archive."""
        if self.state is None:
            return member_name(f"host-{os.uname().nodename}")
        return member_name(f"{self.state.status.job_id}-{self.state.status.pod}")


class CollectWanted(Struct, frozen=True):
    """What the command line wants: bytes at most, and what to run on the other servers."""

    size: int
    command: str


def subject_at(path: Path, *, must_exist: bool) -> Collected:
    """The job of this state file; raises StateUnknown if it ``must_exist`` and does not."""
    try:
        return Collected(path, read_state_file(path))
    except StateUnknown as unknown:
        if must_exist and isinstance(unknown.__cause__, FileNotFoundError):
            raise
        return Collected(path, why=str(unknown))


def archive_path(subject: Collected, now: datetime) -> Path:
    """The usual name of an archive, in the current directory."""
    return Path(f"ascend-supervisor-{subject.label}-{now:%Y%m%dT%H%M%SZ}.tar.gz")


@contextmanager
def opened_archive(
    output: Path | None, put: Callable[[bytes], None], command: str, *, is_terminal: bool
) -> Iterator[Callable[[bytes], None]]:
    """Where the bytes go: to a new file, or to stdout without one.

    Raises SettingsRefused for a terminal, CannotWrite, StdoutLost, BrokenPipeError.
    """
    if output is not None:
        with new_file(output) as to_file:
            yield to_file
    elif is_terminal:
        raise SettingsRefused(
            "-o - writes a compressed archive to stdout, which is a terminal here; write "
            f"{PROGRAM} {command} -o - > FILE.tar.gz"
        )
    else:
        yield put


def collect(
    subject: Collected,
    asked: CollectWanted,
    put: Callable[[bytes], None],
    environ: Mapping[str, str],
) -> Manifest:
    """Write the archive to ``put``; returns what is in it. Raises what ``put`` raises."""
    archive = Archive(put, subject.label)
    collector = Collector(archive, Disks(_owners(subject)), asked.size)
    servers = _add_all(collector, subject, environ)
    named = tuple(OtherServer(name, asked.command) for name in servers)
    manifest = _manifest(collector, subject, asked, named)
    archive.add(MANIFEST_NAME, to_json(manifest, indent=True) + b"\n", time.time())
    archive.close()
    return manifest


def _owners(subject: Collected) -> frozenset[int] | None:
    """Whose files a job may name: those of whoever wrote its state file."""
    try:
        return frozenset({subject.path.lstat().st_uid})
    except OSError:
        return None


def _add_all(collector: Collector, subject: Collected, environ: Mapping[str, str]) -> list[str]:
    """Take everything, what matters most first; returns the names of the other servers."""
    job: KnownJob | None = None
    servers: list[str] = []
    collector.add_file("supervisor/state.json", subject.path)
    if subject.state is None:
        collector.leave_out("the job", subject.why)
    else:
        job, servers = _add_job(collector, subject.state)
    add_own_environment(collector, environ)
    places = [subject.path.parent, here(), Path("/"), Path("/tmp"), Path("/dev/shm")]  # noqa: S108
    add_machine(collector, places)
    any_rank = next(iter(job.ranks.values()), RunningProcess()) if job else RunningProcess()
    ranks = any_rank.environ or environ
    if any_rank.is_ours:
        add_versions(collector, ranks, _python_of(any_rank))
    else:  # root must not execute what another user names
        add_versions(collector, environ, "python3")
    add_npu(collector, environ, devices_here())
    roots = plog_roots(collector, job, subject.path, ranks)
    if job is None:
        add_plogs(collector, find_plogs(collector, roots))
    else:
        add_logs(collector, job, roots, subject.path)
    return servers


def _python_of(rank: RunningProcess) -> str:
    """The interpreter of a rank, by its own word for it."""
    word = rank.words[0] if rank.words else ""
    return word if word.rpartition("/")[2].startswith("python") else "python3"


def _add_job(collector: Collector, state: State) -> tuple[KnownJob, list[str]]:
    """Take what is known of the job but its logs, and ask its supervisor while that runs."""
    live = _add_live(collector, state)
    dumped = None if live is None else _add_stacks_of_now(collector, state)
    runs = state.supervisor_lives
    owners = collector.owners
    supervisor = shown(state.status.pid, owners) if runs else RunningProcess()
    usual = Path(events_beside(state.path))
    events = supervisor.option("event-log") or usual
    if events.name == "none":
        collector.leave_out("the events", "--event-log none was given")
        events = usual
    start = start_of(state.status)
    story = add_events(collector, events, start.wrote)
    if story.began is None and start.since is not None:
        story.began = start.since / 1e6
    if dumped is not None and dumped.directory is not None:
        story.see(dumped.directory, dumped.files)  # its event may not be in the file yet
    _add_report(collector, events, start)
    status = state.status if live is None else live.status
    living = [one for one in status.ranks if one.rank is not None and state.rank_lives(one)]
    pids = {one.rank: one.pid for one in living if one.rank is not None}
    job = KnownJob(
        status, story, supervisor, {rank: shown(pid, owners) for rank, pid in pids.items()}
    )
    add_stacks(collector, story)
    add_termination_log(collector, supervisor)
    tables = add_rank_tables(collector, job, state.path, MAX_BYTES)
    if runs:
        add_process(collector, "supervisor", status.pid, supervisor.environ)
        add_check(collector, supervisor)
    for rank, pid in pids.items():
        add_process(collector, f"rank_{rank}", pid, job.ranks[rank].environ)
    return job, _others(live, tables, story.this_server)


def _add_live(collector: Collector, state: State) -> LiveStatus | None:
    """Take the supervisor's own answer."""
    if state.is_final:
        collector.leave_out("live figures, stacks of now", "the supervisor does not run any more")
        return None
    seen = look_at(state)
    if seen.live is None:
        collector.leave_out("live figures, stacks of now", seen.trouble or "it has ended just now")
        return None
    figures = to_json(seen.live, indent=True) + b"\n"
    collector.add_text("supervisor/live.json", "its control socket", figures)
    return seen.live


def _add_stacks_of_now(collector: Collector, state: State) -> Dumped | None:
    """Let the supervisor take the stacks of its ranks, and take its sentence."""
    try:
        dumped = dump(state)
    except NotDone as declined:
        collector.leave_out("stacks of now", str(declined))
        return None
    words = "\n".join(lines_of(dumped))
    collector.add_text("stacks/summary.txt", "its control socket", f"{words}\n".encode())
    return dumped


def _add_report(collector: Collector, events: Path, start: WritingStart) -> None:
    """Take the story of the job as text, which is all that many a reader needs."""
    files = [path for path in event_files(events) if path.is_file()]
    try:
        story = collector.disks.ask(events.parent, partial(text, files, "en", start))
    except (OSError, Refusal) as error:
        collector.leave_out("the report", str(error))
    else:
        collector.add_text("report.txt", "the events", story)


def _others(live: LiveStatus | None, tables: list[bytes], here: str | None) -> list[str]:
    """The other servers: as the servers see each other, else as a rank table lists them."""
    if live is not None and live.peers is not None:
        peers = live.peers
        rows = (one for one in peers.servers if one.server != peers.server)
        return [one.host or f"server {one.server}" for one in rows]
    for content in tables:
        try:
            table = parse(content)
        except TableRefused:
            continue
        if isinstance(table, RankTable) and len(table.entries) > 1:
            return [one.label for one in table.entries if one.label != here]
    return []


def _manifest(
    collector: Collector,
    subject: Collected,
    asked: CollectWanted,
    servers: tuple[OtherServer, ...],
) -> Manifest:
    status = None if subject.state is None else subject.state.status
    return Manifest(
        made_at=datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
        made_by=f"{PROGRAM} {__version__}",
        host=os.uname().nodename,
        user=os.geteuid(),
        job_id=None if status is None else status.job_id,
        pod=None if status is None else status.pod,
        size_limit=asked.size,
        bytes=sum(one.bytes for one in collector.taken),
        secrets=NOT_MASKED,
        taken=tuple(collector.taken),
        left_out=tuple(collector.left_out),
        servers=servers,
    )


def sentences(manifest: Manifest, where: str, size: int | None) -> Iterator[str]:
    """What was made, for the operator: where it is and its bytes, and where to go on."""
    packed = "" if size is None else f", {size} bytes"
    taken = counted(len(manifest.taken), "file")
    yield (
        f"{where}{packed}: {taken}, {manifest.bytes} bytes before compression; left out "
        f"{len(manifest.left_out)} ({MANIFEST_NAME} in it says why); logs are not masked"
    )
    if manifest.servers:
        names = listed([plain(one.name) for one in manifest.servers], MOST_NAMED)
        yield f"other servers: {names}; run there: {manifest.servers[0].command}"
