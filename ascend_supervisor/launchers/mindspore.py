"""MindSpore's dynamic cluster without msrun: a scheduler and a worker per device, all ours.

MindSpore calls it "dynamic cluster startup" and reads all of it from the environment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.platforms import LOOPBACK
from ascend_supervisor.cluster.rank_table import RankTable, is_ip
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.common_parts import (
    common_environ,
    devices_here,
    launcher_log_path,
    other_directory,
    rank_spec,
    seconds_of,
)
from ascend_supervisor.launchers.rank_environment import (
    master_port,
    needed_address,
    platform_environ,
)
from ascend_supervisor.process_spec import HostName, ProcessSpec, port_of
from ascend_supervisor.untrusted_text import shown

SCHEDULER_PORT = "8118"
RANK_TABLE = "MS_RANKTABLE_ENABLE"
_TRUE, _FALSE = frozenset({"true", "1"}), frozenset({"", "false", "0"})
TIME_OUT, TOPO_TIMEOUT = "MSRUN_CLUSTER_TIME_OUT", "MS_TOPO_TIMEOUT"
CLUSTER_SECONDS = "600"
"""How long workers and scheduler wait for each other."""


class MindSporeLauncher(Struct, frozen=True):
    boot: Boot

    @property
    def needs_table_file(self) -> bool:
        return reads_table(self.boot)

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """The scheduler, where rank 0 is, then the workers; raises SettingsRefused.

        The scheduler belongs to the generation, because a new cluster needs a new one. It ends by
        itself when all workers have left the cluster. With workers on other servers that is waited
        for; else the job is done when the workers are. If the platform says in which pod the
        scheduler is, it is started there and nowhere else; a pod without devices starts nothing but
        the scheduler.
        """
        has_scheduler = starts_scheduler(here, self.boot)
        is_alone = has_scheduler and not here.entry.devices
        if not is_alone:
            devices_here("mindspore", here)
        cluster = self._cluster(table, here, generation)
        if is_alone:
            alone = self._scheduler(table, here, {**cluster, "RANK_TABLE_FILE": None})
            specs = [replace(alone, significant=True)]
        else:
            specs = [self._scheduler(table, here, cluster)] if has_scheduler else []
            specs += [
                self._worker(table, here, generation, local_rank, device.rank, cluster)
                for local_rank, device in enumerate(here.entry.devices)
            ]
        names = host_names(table, here, self.boot)
        return tuple(replace(spec, host_names=names) for spec in specs)

    def _cluster(self, table: RankTable, here: Here, generation: int) -> dict[str, str | None]:
        """What the scheduler and all workers get."""
        usual = cluster_seconds(self.boot)
        return {
            **common_environ(self.boot, here, generation),
            "MS_WORKER_NUM": str(table.world_size),
            "MS_SCHED_HOST": scheduler_address(table, here, self.boot),
            "MS_SCHED_PORT": scheduler_port(self.boot, here),
            TOPO_TIMEOUT: seconds_of(TOPO_TIMEOUT, self.boot.inherited(TOPO_TIMEOUT, usual)),
            "RANK_TABLE_FILE": rank_table(here, self.boot),
        }

    def _scheduler(
        self, table: RankTable, here: Here, cluster: dict[str, str | None]
    ) -> ProcessSpec:
        place = {"RANK_ID": "0", "RANK_SIZE": str(table.world_size)}
        if self.boot.scheduler is not None:
            place = {"DEVICE_ID": "0"}
        return ProcessSpec(
            argv=self.boot.command,
            cwd=other_directory(self.boot, here.place, "scheduler"),
            log=launcher_log_path(here.place, "scheduler", here.node_rank),
            environ={**cluster, "MS_ROLE": "MS_SCHED", **place},
            significant=False,
            outlasts_ranks=table.world_size > len(here.entry.devices) > 0,
            title="the scheduler",
            port=port_of(scheduler_port(self.boot, here)),
            explanation=words(table, here, self.boot),
        )

    def _worker(
        self,
        table: RankTable,
        here: Here,
        generation: int,
        local_rank: int,
        rank: int,
        cluster: dict[str, str | None],
    ) -> ProcessSpec:
        return rank_spec(
            self.boot,
            here,
            generation,
            rank=rank,
            local_rank=local_rank,
            environ={
                **platform_environ(table, here, local_rank, rank),
                **cluster,
                "MS_ROLE": "MS_WORKER",
                "MS_NODE_ID": str(rank),
            },
            explanation=words(table, here, self.boot),
        )


class MindSporeWords(Struct, frozen=True):
    """Reads what MindSpore 2.10 writes when it loses its cluster and sends itself SIGTERM.

    ``servers`` are those of the ranks, in rank order; ``scheduler`` is the address of its server.
    """

    servers: tuple[str, ...]
    scheduler: str

    def reason(self, lines: Sequence[str], heard: Sequence[str]) -> str | None:
        """The rank whose heartbeat timed out first, if the scheduler runs here."""
        itself = any(_ENDS_ITSELF in line for line in lines)
        searched = map(_MISSED.search, heard if itself else lines)
        missed = next(filter(None, searched), None)
        if missed is not None:
            return (
                f"MindSpore's scheduler had missed rank {missed[1]} before, "
                f"{self._where(int(missed[1]))}; look there for what ended it"
            )
        if itself:
            return (
                "MindSpore ended it, for it had lost its cluster; look for what ended the "
                f"scheduler, on {self.scheduler}, or a rank on another server"
            )
        return None

    def _where(self, rank: int) -> str:
        known = rank < len(self.servers)
        return f"on {self.servers[rank]}" if known else "on a server that is not known"


_ENDS_ITSELF = "Kill this process with SIGTERM."
_MISSED = re.compile(r"The node: (\d{1,7}) is timed out\.", re.ASCII)


def words(table: RankTable, here: Here, boot: Boot) -> MindSporeWords:
    """The reader for this job's output."""
    places = {device.rank: entry.label for entry in table.entries for device in entry.devices}
    servers = tuple(places[rank] for rank in sorted(places))
    return MindSporeWords(servers, _scheduler_host(table, here, boot))


def cluster_seconds(boot: Boot) -> str:
    """How long workers and scheduler wait for each other; raises SettingsRefused."""
    return seconds_of(TIME_OUT, boot.inherited(TIME_OUT, CLUSTER_SECONDS))


def scheduler_port(boot: Boot, here: Here) -> str:
    if boot.port is None and boot.scheduler is not None:
        return str(boot.scheduler.port or SCHEDULER_PORT)
    return master_port(boot, here, SCHEDULER_PORT)


def rank_table(here: Here, boot: Boot) -> str | None:
    """The table's path if MindSpore is to read it; else MindSpore asks its scheduler."""
    return str(here.place.table_file) if reads_table(boot) else None


def reads_table(boot: Boot) -> bool:
    """Whether MindSpore itself reads the file of the rank table; raises SettingsRefused."""
    found = boot.environ.get(RANK_TABLE, "")
    word = found.strip().lower()
    if word not in _TRUE | _FALSE:
        raise SettingsRefused(
            f"{RANK_TABLE}: expected True if MindSpore is to read the rank table, or False, "
            f"found {shown(found)}; correct it or unset it"
        )
    return word in _TRUE


def scheduler_address(table: RankTable, here: Here, boot: Boot) -> str:
    """The address of the scheduler; its name until that has been looked up."""
    host = _scheduler_host(table, here, boot)
    return here.addresses.get(host, host)


def host_names(table: RankTable, here: Here, boot: Boot) -> tuple[HostName, ...]:
    """The scheduler's name, if it has to be looked up: older MindSpore releases do not resolve it.

    msrun starts the scheduler only where the address is one of the machine's own.
    """
    host = scheduler_address(table, here, boot)
    if is_ip(host):
        return ()
    if boot.scheduler is not None:
        return (HostName(host, boot.scheduler.is_here, "MS_SCHED_HOST"),)
    return (HostName(host, is_here=starts_scheduler(here, boot)),)


def starts_scheduler(here: Here, boot: Boot) -> bool:
    """Whether the scheduler runs here: where the platform says, else where rank 0 is."""
    if boot.scheduler is not None:
        return boot.scheduler.is_here
    return any(device.rank == 0 for device in here.entry.devices)


def _scheduler_host(table: RankTable, here: Here, boot: Boot) -> str:
    """The platform's comes first. It may be a service's, which no pod has on an interface."""
    if boot.scheduler is not None:
        return boot.scheduler.host
    if table.holds_all(here.entry):
        return LOOPBACK
    return needed_address("MindSpore", table, boot.environ, boot.store)
