"""The command once on this server, as it is: it is a launcher itself, or a script that has one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.process_spec import Culprit, Exhibit, ProcessSpec


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
                script=self.boot.script,
                testimony=CommandTestimony(),
            ),
        )


class CommandTestimony(Struct, frozen=True):
    """Reads what a launcher says of its ranks, whichever it is: torchrun, DeepSpeed or mpirun."""

    @property
    def exhibits(self) -> tuple[PurePath, str]:
        """None: where it keeps files is unknown."""
        return PurePath(), ""

    def culprit(
        self, lines: Sequence[str], exhibits: Sequence[Exhibit], ranks: Mapping[int, int]
    ) -> Culprit | None:
        """The rank that the launcher names."""
        from ascend_supervisor.launchers.mpirun import MpirunTestimony  # noqa: PLC0415
        from ascend_supervisor.launchers.torchrun import (  # noqa: PLC0415
            TorchrunTestimony,
        )

        readers = (TorchrunTestimony(PurePath(), ()), MpirunTestimony(PurePath()))
        told = (reader.culprit(lines, exhibits, ranks) for reader in readers)
        return next(filter(None, told), None) or _named_by_deepspeed(lines)

    def false_success(self, lines: Sequence[str]) -> str | None:  # noqa: ARG002
        """None: the command knows best."""
        return None


def _named_by_deepspeed(lines: Sequence[str]) -> Culprit | None:
    for number, line in enumerate(lines):
        if found := _DEEPSPEED.search(line):
            before = tuple(one for one in lines[:number] if "sigkill_handler]" not in one)
            return Culprit(int(found[1]), ExitStatus.of(int(found[2])), None, before)
    return None


_DEEPSPEED = re.compile(
    r"sigkill_handler\] .{0,400}--local_rank=(\d{1,6}).*exits with return code = (-?\d{1,3})$",
    re.ASCII,
)
