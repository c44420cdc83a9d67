"""Launchers: from the rank table to what is started; one file a method, all of them pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import PurePath
from typing import Protocol

from ascend_supervisor.cluster.rank_table import Entry, Format, RankTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.launchers.failure_words import Explanation
from ascend_supervisor.launchers.spec import ProcessSpec
from ascend_supervisor.paths import Place

HCCL_CONNECT_SECONDS = "1800"
LOOPBACK = "127.0.0.1"
WITHOUT_ADDRESS = (
    "ranks start without it, because VC_WORKER_HOSTS is not set and the rank table holds no "
    "address of the first server; if they use torch.distributed, set MASTER_ADDR to that address, "
    "the same on all servers"
)


@dataclass(frozen=True, slots=True)
class Here:
    """This machine: its entry of the table, at position ``node_rank``, and where its files go."""

    node_rank: int
    entry: Entry
    place: Place


@dataclass(frozen=True, slots=True)
class Boot:
    """What is to be run, and what every method needs to know to run it.

    ``environ`` is what the processes inherit: some variables are set only if they are not there.
    ``port`` is where rank 0 is met, if it was told.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str]
    restarts: int
    port: int | None = None

    def or_else(self, name: str, value: str) -> str:
        """What a variable holds already, else ``value``."""
        return self.environ.get(name) or value


class Launcher(Protocol):
    """Plans a generation; the same arguments give the same plan."""

    @property
    def needs_table_file(self) -> bool:
        """Whether the processes read the file of the rank table, so that nothing else will do."""

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]: ...


def log_path(place: Place, rank: int, local_rank: int) -> PurePath:
    """A rank's log; none of what ModelArts' own collector takes (*.log, *.out, *.trace)."""
    return place.log_dir / f"{place.job_id}-proc-rank-{rank}-device-{local_rank}.txt"


def launcher_log_path(place: Place, name: str, node_rank: int) -> PurePath:
    """The log of a process that is no rank."""
    return place.log_dir / f"{place.job_id}-proc-{name}-node-{node_rank}.txt"


def own_directory(place: Place) -> PurePath:
    """Where what else a job leaves is kept, beside its logs."""
    return place.log_dir / place.job_id


def process_log(boot: Boot, here: Here, whose: str) -> str:
    """Where CANN logs; a directory."""
    usual = own_directory(here.place) / "ascend" / "process_log" / whose
    return boot.or_else("ASCEND_PROCESS_LOG_PATH", str(usual))


def common_environ(boot: Boot, here: Here, generation: int) -> dict[str, str | None]:
    """What every process gets, whatever starts it."""
    return {
        "JOB_ID": here.place.job_id,
        "HCCL_CONNECT_TIMEOUT": boot.environ.get("HCCL_CONNECT_TIMEOUT", HCCL_CONNECT_SECONDS),
        "PYTHONUNBUFFERED": boot.environ.get("PYTHONUNBUFFERED", "1"),
        "TORCHELASTIC_RESTART_COUNT": str(generation),
    }


def rank_spec(
    boot: Boot,
    here: Here,
    generation: int,
    *,
    rank: int,
    local_rank: int,
    environ: Mapping[str, str | None],
    more_words: Sequence[str] = (),
    explanation: Explanation | None = None,
) -> ProcessSpec:
    """A rank that we start ourselves, with what every rank gets: a directory, logs, an error file.

    torch.distributed.elastic's ``@record`` writes to that file what was raised.
    """
    whose = f"rank_{rank}"
    cwd = here.place.work_dir / f"device{local_rank}"
    logged = process_log(boot, here, whose)
    error_file = own_directory(here.place) / "errors" / whose / f"generation_{generation}.json"
    return ProcessSpec(
        argv=(*boot.command, *more_words),
        cwd=cwd,
        log=log_path(here.place, rank, local_rank),
        environ={
            **common_environ(boot, here, generation),
            **environ,
            "ASCEND_PROCESS_LOG_PATH": logged,
            "TORCHELASTIC_ERROR_FILE": str(error_file),
        },
        rank=rank,
        local_rank=local_rank,
        directories=(cwd / logged, error_file.parent),
        error_file=error_file,
        explanation=explanation,
    )


def devices_here(method: str, here: Here) -> int:
    """How many devices this machine has; raises SettingsRefused for none."""
    if here.entry.devices:
        return len(here.entry.devices)
    raise SettingsRefused(
        f"{method} starts a process for each device, and for this machine ({here.entry.label}) "
        "none is known; set MA_NUM_GPUS to their number, or give --standalone N"
    )


def devices_everywhere(method: str, table: RankTable, here: Here) -> int:
    """How many devices each machine has; raises SettingsRefused where they differ."""
    count = devices_here(method, here)
    for node_rank, entry in enumerate(table.entries):
        if len(entry.devices) != count:
            raise SettingsRefused(
                f"{method} starts equally many processes on all servers, and this one has {count} "
                f"devices, while that of node rank {node_rank} ({entry.label}) has "
                f"{len(entry.devices)}; use --method ranktable"
            )
    return count


def master_address(table: RankTable, environ: Mapping[str, str]) -> str | None:
    """Where rank 0 is met; None where nobody says it and the job has several servers.

    The names of the platform come first, then the addresses in the table: a pod's own before its
    host's. The table of --standalone gives 127.0.0.1 and needs no name of the platform.
    """
    entry = _entry_of_rank_0(table)
    is_alone = entry is not None and table.holds_all(entry)
    known = _address(table, entry)
    if known == LOOPBACK:
        known = None
        if is_alone:
            return LOOPBACK
    first_host = environ.get("VC_WORKER_HOSTS", "").split(",")[0].strip()
    named = first_host or environ.get("MASTER_ADDR") or known
    return named or (LOOPBACK if is_alone else None)


def needed_address(method: str, table: RankTable, environ: Mapping[str, str]) -> str:
    """Where rank 0 is met; raises SettingsRefused where that is not known."""
    address = master_address(table, environ)
    if address is None:
        raise SettingsRefused(
            f"{method} needs the address of the first server, and neither the environment nor the "
            "rank table gives one; set MASTER_ADDR to it, the same on all servers"
        )
    return address


def without_address(specs: Sequence[ProcessSpec]) -> bool:
    """Whether ranks are started that are not told where rank 0 is met."""
    return any(spec.environ.get("MASTER_ADDR", "") is None for spec in specs)


def _entry_of_rank_0(table: RankTable) -> Entry | None:
    for entry in table.entries:
        if any(device.rank == 0 for device in entry.devices):
            return entry
    return None if table.world_size else next(iter(table.entries), None)


def _address(table: RankTable, entry: Entry | None) -> str | None:
    """An address in the table. A server_id may be a name or a uid that nobody can connect to."""
    if entry is None:
        return None
    if table.format is Format.DECLARED:
        return entry.server_id  # the name of a host, as in VC_WORKER_HOSTS
    known = (entry.container_ip, entry.host_ip, entry.pod_ip, entry.server_ip, entry.server_id)
    return next((name for name in known if name and _is_ip(name)), None)


def _is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return name.isprintable()
