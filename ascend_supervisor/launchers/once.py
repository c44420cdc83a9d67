"""The command once on this server, as it is: it is a launcher itself, or a script that has one."""

from __future__ import annotations

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.common_parts import launcher_log_path
from ascend_supervisor.launchers.process_spec import ProcessSpec


class OnceLauncher(Struct, frozen=True):
    boot: Boot

    @property
    def needs_table_file(self) -> bool:
        return False

    def plan(
        self,
        table: RankTable,  # noqa: ARG002
        here: Here,
        generation: int,  # noqa: ARG002
    ) -> tuple[ProcessSpec, ...]:
        """The command, in the directory where the supervisor was started; no variable is changed.

        It is not a rank: which ranks it starts is unknown.
        """
        return (
            ProcessSpec(
                argv=self.boot.command,
                cwd=here.place.started_in,
                log=launcher_log_path(here.place, "command", here.node_rank),
                title="the command",
                leads_ranks=True,
            ),
        )
