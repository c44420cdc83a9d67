"""PyTorch-GPU boot: one process per server, which is told by arguments where to meet the others."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.address import LOOPBACK, needed_address
from ascend_supervisor.launchers.parts import rank_spec
from ascend_supervisor.launchers.ranktable import master_port
from ascend_supervisor.launchers.spec import ProcessSpec


@dataclass(frozen=True, slots=True)
class TorchDdpLauncher:
    boot: Boot

    @property
    def needs_table_file(self) -> bool:
        return False

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """The command with ``--init_method``, and with rank and world size where others are too.

        Both count servers, not devices: the process starts what it needs for its devices.
        """
        servers = len(table.entries)
        rank = here.node_rank
        environ = self.boot.environ
        address = LOOPBACK if servers == 1 else needed_address("torch-ddp", table, environ)
        place = f"[{address}]" if ":" in address else address
        words = ["--init_method", f"tcp://{place}:{master_port(self.boot)}"]
        if servers > 1:
            words += ["--rank", str(rank), "--world_size", str(servers)]
        spec = rank_spec(
            self.boot, here, generation, rank=rank, local_rank=0, environ={}, more_words=words
        )
        return (spec,)
