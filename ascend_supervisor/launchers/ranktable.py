"""One process per device, as Ascend-Powered-Engine does: HCCL reads the rank table itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from ascend_supervisor.errors import TableRefused
from ascend_supervisor.launchers import Here, log_path
from ascend_supervisor.rank_table import Entry, RankTable
from ascend_supervisor.spec import ProcessSpec

HCCL_CONNECT_SECONDS = "1800"
MASTER_PORT = "29500"
"""torch.distributed's default; a MASTER_PORT of the platform's, the same everywhere, wins."""


@dataclass(frozen=True, slots=True)
class RankTableLauncher:
    """``environ`` is what the ranks inherit: some variables are set only if they are not there."""

    command: tuple[str, ...]
    environ: Mapping[str, str]
    restarts: int

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """A process for every device of this entry; without any device in the table, one.

        Raises TableRefused when other entries have devices and this one has none.
        """
        if not table.world_size:
            ranks = (here.node_rank,)
            return tuple(self._spec(table, here, generation, 0, rank) for rank in ranks)
        if not here.entry.devices:
            raise TableRefused(
                f"the entry of this machine ({here.entry.label}) has no devices, so there is "
                f"nothing to start here, while the table holds {table.world_size} elsewhere"
            )
        return tuple(
            self._spec(table, here, generation, local_rank, device.rank)
            for local_rank, device in enumerate(here.entry.devices)
        )

    def _spec(
        self, table: RankTable, here: Here, generation: int, local_rank: int, rank: int
    ) -> ProcessSpec:
        place = here.place
        own = place.log_dir / place.job_id
        process_log = self.environ.get("ASCEND_PROCESS_LOG_PATH") or str(
            own / "ascend" / "process_log" / f"rank_{rank}"
        )
        cwd = place.work_dir / f"device{local_rank}"
        error_file = own / "errors" / f"rank_{rank}" / f"generation_{generation}.json"
        return ProcessSpec(
            argv=self.command,
            cwd=cwd,
            log=log_path(place, rank, local_rank),
            environ={
                **self._platform(table, here, local_rank, rank),
                **self._torch(table, here, local_rank, rank),
                "ASCEND_PROCESS_LOG_PATH": process_log,
                "TORCHELASTIC_RESTART_COUNT": str(generation),
                "TORCHELASTIC_ERROR_FILE": str(error_file),
            },
            rank=rank,
            local_rank=local_rank,
            directories=(cwd / process_log, error_file.parent),
            error_file=error_file,
        )

    def _platform(
        self, table: RankTable, here: Here, local_rank: int, rank: int
    ) -> dict[str, str | None]:
        """What HCCL and MindSpore read; device ids are local indices, whatever the table says."""
        return {
            "JOB_ID": here.place.job_id,
            "RANK_ID": str(rank),
            "RANK_SIZE": str(table.world_size),
            "DEVICE_ID": str(local_rank),
            "ASCEND_DEVICE_ID": str(local_rank),
            "RANK_TABLE_FILE": str(here.place.table_file) if table.world_size else None,
            "HCCL_CONNECT_TIMEOUT": self.environ.get("HCCL_CONNECT_TIMEOUT", HCCL_CONNECT_SECONDS),
            "PYTHONUNBUFFERED": self.environ.get("PYTHONUNBUFFERED", "1"),
        }

    def _torch(
        self, table: RankTable, here: Here, local_rank: int, rank: int
    ) -> dict[str, str | None]:
        """What torch.distributed's ``env://`` reads, and what torchrun would tell its workers."""
        return {
            "RANK": str(rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(table.world_size or len(table.entries)),
            "LOCAL_WORLD_SIZE": str(len(here.entry.devices) or 1),
            "GROUP_RANK": str(here.node_rank),
            "NODE_RANK": str(here.node_rank),
            "MASTER_ADDR": master_address(table, self.environ),
            "MASTER_PORT": master_port(self.environ),
            "TORCHELASTIC_MAX_RESTARTS": str(self.restarts),
            "TORCHELASTIC_RUN_ID": here.place.job_id,
        }


def master_address(table: RankTable, environ: Mapping[str, str]) -> str:
    """Where rank 0 is: the first of VC_WORKER_HOSTS, else its server, else this machine."""
    first_host = environ.get("VC_WORKER_HOSTS", "").split(",")[0].strip()
    return first_host or _address(_entry_of_rank_0(table)) or "127.0.0.1"


def master_port(environ: Mapping[str, str]) -> str:
    given = environ.get("MASTER_PORT", "")
    return given if given.isascii() and given.isdecimal() else MASTER_PORT


def _entry_of_rank_0(table: RankTable) -> Entry | None:
    for entry in table.entries:
        if any(device.rank == 0 for device in entry.devices):
            return entry
    return None


def _address(entry: Entry | None) -> str | None:
    """A server_id may be a name or a uid that nobody can connect to: then another field is it."""
    if entry is None:
        return None
    known = (entry.host_ip, entry.server_id, entry.container_ip)
    return next((name for name in known if name and _is_ip(name)), entry.server_id)


def _is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
