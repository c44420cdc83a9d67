"""TensorFlow-GPU boot: a parameter server and a worker per server; alone, the command as it is."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.common_parts import (
    common_environ,
    launcher_log_path,
    other_directory,
    rank_spec,
)
from ascend_supervisor.process_spec import ProcessSpec

Task = Literal["ps", "worker"]

HOSTS: dict[Task, str] = {"ps": "TF_PS_HOSTS", "worker": "TF_WORKER_HOSTS"}


class TensorFlowLauncher(Struct, frozen=True):
    boot: Boot

    @property
    def needs_table_file(self) -> bool:
        return False

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """A ps and a worker, or the one of them that MA_TASK_NAME names.

        The job is done when the workers are: a ps never ends by itself. Raises SettingsRefused.
        """
        if len(table.entries) == 1:
            return (self._worker(here, generation, ()),)
        words = {task: self._words(here, task) for task in HOSTS}
        only = self.boot.environ.get("MA_TASK_NAME")
        if only == "ps":
            return (self._ps(here, generation, words["ps"], significant=True),)
        worker = self._worker(here, generation, words["worker"])
        if only == "worker":
            return (worker,)
        return (self._ps(here, generation, words["ps"], significant=False), worker)

    def _words(self, here: Here, task: Task) -> tuple[str, ...]:
        words = ["--task_index", str(here.node_rank)]
        for name, variable in HOSTS.items():
            hosts = self.boot.environ.get(variable)
            if not hosts:
                raise SettingsRefused(
                    f"{variable} is not set: on several servers tensorflow needs the addresses of "
                    f"all {name} tasks, such as {variable}=host-0:5000,host-1:5000"
                )
            words += [f"--{name}_hosts", hosts]
        return (*words, "--job_name", task)

    def _ps(
        self, here: Here, generation: int, words: tuple[str, ...], *, significant: bool
    ) -> ProcessSpec:
        return ProcessSpec(
            argv=(*self.boot.command, *words),
            cwd=other_directory(self.boot, here.place, "ps"),
            log=launcher_log_path(here.place, "ps", here.node_rank),
            environ=common_environ(self.boot, here, generation),
            significant=significant,
            title=f"ps {here.node_rank}",
        )

    def _worker(self, here: Here, generation: int, words: tuple[str, ...]) -> ProcessSpec:
        rank = here.node_rank
        return rank_spec(
            self.boot, here, generation, rank=rank, local_rank=0, environ={}, more_words=words
        )
