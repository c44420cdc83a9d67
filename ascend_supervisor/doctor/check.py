"""What a check gets (the server, its part in the job, programs to ask) and the rows it gives."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from msgspec import Struct

from ascend_supervisor.cluster import volcano
from ascend_supervisor.cluster.rank_table import Entry, Format, RankTable, ip_of
from ascend_supervisor.events.server import Fitness, Result
from ascend_supervisor.processes.program_output import ProgramOutput
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import printable

if TYPE_CHECKING:
    from ascend_supervisor.coordination.peers.meeting import PeersEtcd

_WORST: tuple[Fitness, ...] = ("unfit", "warning", "unknown")


class Checked(Struct, frozen=True):
    """What was found; ``output`` is the file that has what the user's own program has printed."""

    rows: tuple[Result, ...] = ()
    output: str | None = None


def fit(subject: str, found: str) -> Result:
    return Result(subject, "fit", found)


def warning(subject: str, found: str, expected: str, remedy: str) -> Result:
    """A rank may fail, or the job may be slow."""
    return Result(subject, "warning", found, expected, remedy)


def unfit(subject: str, found: str, expected: str, remedy: str) -> Result:
    """A rank would surely fail: a false refusal costs more than a fault that is missed."""
    return Result(subject, "unfit", found, expected, remedy)


def unknown(subject: str, reason: str) -> Result:
    """It could not be looked at, which stops no start."""
    return Result(subject, "unknown", reason)


def sentences(results: Iterable[Result], verdict: Fitness) -> tuple[str, ...]:
    """Those of the rows with this verdict."""
    return tuple(result.sentence for result in results if result.verdict == verdict)


def verdict_of(results: Iterable[Result]) -> Fitness:
    """The worst of them."""
    verdicts = {result.verdict for result in results}
    return next((verdict for verdict in _WORST if verdict in verdicts), "fit")


Ask = Callable[[Sequence[str]], Awaitable[ProgramOutput]]
"""What a program prints within its time; never raises."""
MOST_CHARACTERS = 200


async def found_program(environ: Mapping[str, str], name: str, usual: str = "") -> str | None:
    """Its path, by the PATH of ``environ``, else the ``usual`` one if it is there."""

    def found() -> str | None:
        path = environ.get("PATH", os.defpath)
        return shutil.which(name, path=path) or (shutil.which(usual) if usual else None)

    return await aside(found)


def why_not(said: ProgramOutput) -> str:
    """Why there is no answer in what it ``said``, and its first line."""
    lines = (line.strip() for line in said.text.decode(errors="replace").splitlines())
    first = printable(next(filter(None, lines), ""), MOST_CHARACTERS)
    return ": ".join(filter(None, (said.trouble or "it says nothing of it", first)))


MEETING_VARIABLES = ("MASTER_ADDR", "MS_SCHED_HOST", "CM_CHIEF_IP")
"""Where ranks find rank 0, the scheduler of MindSpore or the chief of TensorFlow."""
MOST_HOSTS_ASKED = 8
"""1,250 servers that all ask for the names of all would be a flood."""


class PartInJob(Struct, frozen=True):
    """``hosts`` are names of other servers, that of rank 0 first; addresses are left out.

    Rank 0 listens at ``port`` if it is here. ``may_hold_ports``: ranks of the job may have them.
    ``etcd`` is that of --peers, if it is named by URLs, and ``job`` is the name of the job there.
    """

    hosts: tuple[str, ...] = ()
    port: int | None = None
    may_hold_ports: bool = False
    etcd: PeersEtcd | None = None
    job: str = ""


def hosts_to_ask(
    table: RankTable, node_rank: int, environ: Mapping[str, str | None]
) -> tuple[str, ...]:
    """The host of rank 0, and those of the next servers; ``environ`` is that of a rank here."""
    own, count = table.entries[node_rank], len(table.entries)
    has_rank_0 = any(device.rank == 0 for device in own.devices) or not table.world_size
    known = {name: value for name, value in environ.items() if value is not None}
    first = [known.get(name, "") for name in MEETING_VARIABLES] if not has_rank_0 else []
    listed = volcano.hosts(known)
    later = ((node_rank + step) % count for step in range(1, min(count, MOST_HOSTS_ASKED + 1)))
    named = [name for index in later for name in _names(table, index, listed)]
    return tuple(dict.fromkeys(name for name in (*first, *named) if _is_name(name)))


def _names(table: RankTable, index: int, listed: tuple[str, ...]) -> Iterator[str]:
    entry: Entry = table.entries[index]
    if len(listed) == len(table.entries):
        yield listed[index]
    elif table.format is Format.DECLARED:
        yield entry.server_id or ""  # as it stands in VC_WORKER_HOSTS
    yield entry.host_ip or ""


def _is_name(text: str) -> bool:
    """Whether it is looked up; ``pod 3`` stands for a name that is not known."""
    return ip_of(text) is None and bool(text) and text.isprintable() and " " not in text


class Roots(Struct, frozen=True):
    """Where a machine shows what it is."""

    dev: Path = Path("/dev")
    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")
    ascend: Path = Path("/usr/local/Ascend")
    linker_cache: Path = Path("/etc/ld.so.cache")


class ThisServer(Struct, frozen=True, kw_only=True):
    """``environ`` is that of the ranks, and ``python`` the interpreter that runs them, if one does.

    CANN logs below the directories ``plogs``. What only a plan tells is None before it is known:
    how many ``ranks`` run here, and the ids of their ``devices`` in a rank table of the cluster.
    ``is_alone``: the ranks of the job are all here. ``part`` is what concerns the
    other servers.
    """

    environ: Mapping[str, str]
    log_dir: PurePath
    work_dir: PurePath
    state_file: PurePath
    python: str | None = None
    plogs: tuple[PurePath, ...] = ()
    termination_log: PurePath | None = None
    ranks: int | None = None
    devices: tuple[int, ...] | None = None
    is_alone: bool = False
    part: PartInJob = PartInJob()
    roots: Roots = Roots()
