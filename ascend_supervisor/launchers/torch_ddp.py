"""PyTorch-GPU boot: one process per server; arguments give it the rendezvous address."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.platforms import LOOPBACK
from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.common_parts import rank_spec, table_file_unset
from ascend_supervisor.launchers.rank_environment import kept_store, master_port, needed_address
from ascend_supervisor.process_spec import ProcessSpec, port_of


class TorchDdpLauncher(Struct, frozen=True):
    boot: Boot

    @property
    def needs_table_file(self) -> bool:
        return False

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """The command with ``--init_method``; rank and world size if there are several servers.

        Both count servers, not devices: the process starts what it needs for its devices.
        """
        servers = len(table.entries)
        rank = here.node_rank
        address = LOOPBACK
        if servers > 1:
            address = needed_address("torch-ddp", table, self.boot.environ, self.boot.store)
        place = f"[{address}]" if ":" in address else address
        port = master_port(self.boot, here, address=address)
        kept = kept_store(self.boot, address, port)
        words = ["--init_method", f"tcp://{place}:{port}"]
        if servers > 1:
            words += ["--rank", str(rank), "--world_size", str(servers)]
        spec = rank_spec(
            self.boot,
            here,
            generation,
            rank=rank,
            local_rank=0,
            environ={**table_file_unset(self.boot, table), **kept},
            more_words=words,
        )
        return (spec if rank or kept else replace(spec, port=port_of(port)),)
