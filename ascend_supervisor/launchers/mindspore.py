"""MindSpore's dynamic cluster without msrun: a scheduler and a worker per device, all ours.

MindSpore calls it "dynamic cluster startup" and reads all of it from the environment.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascend_supervisor.launchers import (
    Boot,
    Here,
    common_environ,
    devices_here,
    launcher_log_path,
    master_address,
    rank_spec,
)
from ascend_supervisor.launchers.ranktable import master_port, platform_environ
from ascend_supervisor.rank_table import RankTable
from ascend_supervisor.spec import ProcessSpec

SCHEDULER_PORT = "8118"
RANK_TABLE = "MS_RANKTABLE_ENABLE"
CLUSTER_SECONDS = "600"
"""How long workers and scheduler wait for each other."""


@dataclass(frozen=True, slots=True)
class MindSporeLauncher:
    boot: Boot

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """The scheduler, where rank 0 is, then the workers; raises SettingsRefused.

        The job is done when the workers are. The scheduler belongs to the generation all the same:
        a new cluster needs a new one.
        """
        devices_here("mindspore", here)
        cluster = {
            **common_environ(self.boot, here, generation),
            "MS_WORKER_NUM": str(table.world_size),
            "MS_SCHED_HOST": scheduler_address(table, here, self.boot),
            "MS_SCHED_PORT": master_port(self.boot, SCHEDULER_PORT),
            "MS_TOPO_TIMEOUT": self.boot.or_else("MSRUN_CLUSTER_TIME_OUT", CLUSTER_SECONDS),
            "RANK_SIZE": str(table.world_size),
            "RANK_TABLE_FILE": rank_table(here, self.boot),
        }
        workers = tuple(
            self._worker(table, here, generation, local_rank, device.rank, cluster)
            for local_rank, device in enumerate(here.entry.devices)
        )
        has_rank_0 = any(device.rank == 0 for device in here.entry.devices)
        return (self._scheduler(here, cluster), *workers) if has_rank_0 else workers

    def _scheduler(self, here: Here, cluster: dict[str, str | None]) -> ProcessSpec:
        return ProcessSpec(
            argv=self.boot.command,
            cwd=here.place.work_dir / "scheduler",
            log=launcher_log_path(here.place, "scheduler", here.node_rank),
            environ={**cluster, "MS_ROLE": "MS_SCHED", "RANK_ID": "0"},
            significant=False,
            title="the scheduler",
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
        )


def rank_table(here: Here, boot: Boot) -> str | None:
    """The table, where MindSpore is to read it; else it asks the scheduler who is where."""
    return str(here.place.table_file) if boot.environ.get(RANK_TABLE) == "True" else None


def scheduler_address(table: RankTable, here: Here, boot: Boot) -> str:
    """Where rank 0 is, which must be an address: MindSpore resolves no names in older releases."""
    if table.holds_all(here.entry):
        return "127.0.0.1"
    return master_address(table, boot.environ)
