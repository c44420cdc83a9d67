"""PyTorch-GPU boot: one process per server, which is told by arguments where to meet the others."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_supervisor.launchers import (
    Boot,
    Here,
    common_environ,
    error_file,
    log_path,
    master_address,
)
from ascend_supervisor.launchers.ranktable import master_port
from ascend_supervisor.rank_table import RankTable
from ascend_supervisor.spec import ProcessSpec


@dataclass(frozen=True, slots=True)
class TorchDdpLauncher:
    boot: Boot

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """The command with ``--init_method``, and with rank and world size where others are too.

        Both count servers, not devices: the process starts what it needs for its devices.
        """
        servers = len(table.entries)
        rank = here.node_rank
        address = "127.0.0.1" if servers == 1 else master_address(table, self.boot.environ)
        place = f"[{address}]" if ":" in address else address
        words = ["--init_method", f"tcp://{place}:{master_port(self.boot)}"]
        if servers > 1:
            words += ["--rank", str(rank), "--world_size", str(servers)]
        cwd = here.place.work_dir / "device0"
        errors = error_file(here, f"rank_{rank}", generation)
        spec = ProcessSpec(
            argv=(*self.boot.command, *words),
            cwd=cwd,
            log=log_path(here.place, rank, 0),
            environ={
                **common_environ(self.boot, here, generation),
                "TORCHELASTIC_ERROR_FILE": str(errors),
            },
            rank=rank,
            local_rank=0,
            directories=(errors.parent,),
            error_file=errors,
        )
        return (spec,)
