"""One process per device, as Ascend-Powered-Engine does: HCCL reads the rank table itself."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.common_parts import rank_spec
from ascend_supervisor.launchers.rank_environment import USES_STORE, rank_environ
from ascend_supervisor.process_spec import ProcessSpec, port_of


class RankTableLauncher(Struct, frozen=True):
    boot: Boot

    @property
    def needs_table_file(self) -> bool:
        return True

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """One process per device of this entry; one in all if the table has no devices.

        Raises TableRefused when other entries have devices and this one has none.
        """
        if not table.world_size:
            return (self._spec(table, here, generation, 0, here.node_rank),)
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
        environ = rank_environ(self.boot, table, here, local_rank, rank)
        spec = rank_spec(
            self.boot, here, generation, rank=rank, local_rank=local_rank, environ=environ
        )
        if rank or environ.get(USES_STORE):
            return spec
        return replace(spec, port=port_of(environ.get("MASTER_PORT") or ""))
