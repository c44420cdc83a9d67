"""The command once on this server, as it is: it is a launcher itself, or a script that has one."""

from __future__ import annotations

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.launchers import Boot, Here
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

        It is not a rank: which ranks it starts is unknown. Its log has the pod's name, because
        servers may share the log directory, and their numbers may be unknown.
        """
        place = here.place
        return (
            ProcessSpec(
                argv=self.boot.command,
                cwd=place.started_in,
                log=place.log_dir / f"{place.job_id}-proc-command-{place.short_pod}.txt",
                title="the command",
                leads_ranks=True,
            ),
        )
