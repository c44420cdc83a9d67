"""One torchrun per server, as ModelArts calls it (MA_RUN_METHOD=torchrun, PyTorch >= 1.11)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.address import needed_address
from ascend_supervisor.launchers.common_parts import (
    common_environ,
    devices_everywhere,
    generation_name,
    job_directory,
    launcher_log_path,
    process_log,
    table_file_unset,
)
from ascend_supervisor.launchers.process_spec import ProcessSpec, port_of
from ascend_supervisor.launchers.start_directory import other_directory
from ascend_supervisor.launchers.torchrun_testimony import TorchrunTestimony
from ascend_supervisor.settings.command_words import PYTHON
from ascend_supervisor.untrusted_text import shown

MASTER_PORT = "18888"
MONITOR_SECONDS = "0.1"
"""How often torchrun checks its workers; its own default was 5 s before 2.4."""
EXTRA = "MA_EXTRA_TORCHRUN_PARAMS"
PORT = "MA_TORCHRUN_MASTER_PORT"


class TorchrunLauncher(Struct, frozen=True):
    """``torchrun`` is its command on this machine: its name, or an interpreter's module."""

    boot: Boot
    torchrun: tuple[str, ...] = ("torchrun",)

    @property
    def needs_table_file(self) -> bool:
        return False

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """One process, which starts a worker for each device; raises SettingsRefused."""
        workers = devices_everywhere("torchrun", table, here)
        node = f"node_{here.node_rank}"
        place = here.place
        directory = job_directory(place) / "torchrun" / node / generation_name(place, generation)
        logged = process_log(self.boot, here, node)
        cwd = other_directory(self.boot, place)
        error_file = directory / "error.json"
        words = script(self.boot.command)
        argv = (
            *self.torchrun,
            *self._rendezvous(table, here, workers),
            "--max_restarts=0",
            f"--monitor_interval={MONITOR_SECONDS}",
            f"--log_dir={directory}",
            *extra_words(self.boot),
            *words,
        )
        return (
            ProcessSpec(
                argv=argv,
                cwd=cwd,
                log=launcher_log_path(place, "torchrun", here.node_rank),
                environ={
                    **common_environ(self.boot, here, generation),
                    **table_file_unset(self.boot, table),
                    "ASCEND_PROCESS_LOG_PATH": logged,
                    "TORCHELASTIC_ERROR_FILE": str(error_file),
                },
                directories=(cwd / logged, directory),
                error_file=error_file,
                title="torchrun",
                workers=workers,
                script=None if words[0].startswith("-") else words[0],
                port=None if here.node_rank or len(table.entries) == 1 else port_of(self._port),
                testimony=TorchrunTestimony(
                    directory,
                    tuple(device.rank for device in here.entry.devices),
                    tuple(entry.label for entry in table.entries if entry is not here.entry),
                ),
            ),
        )

    def _rendezvous(self, table: RankTable, here: Here, workers: int) -> Iterator[str]:
        nodes = len(table.entries)
        if nodes == 1:
            yield from ("--standalone", "--nnodes=1", f"--nproc_per_node={workers}")
            return
        yield from (f"--nnodes={nodes}", f"--nproc_per_node={workers}")
        yield f"--node_rank={here.node_rank}"
        address = needed_address("torchrun", table, self.boot.environ, self.boot.store)
        yield f"--master_addr={address}"
        yield f"--master_port={self._port}"
        yield from (f"--rdzv_id={here.place.job_id}", "--rdzv_backend=static")

    @property
    def _port(self) -> str:
        if self.boot.port is not None:
            return str(self.boot.port)
        if self.boot.store is not None and self.boot.store.port is not None:
            return str(self.boot.store.port)
        return self.boot.inherited(PORT, MASTER_PORT)


def extra_words(boot: Boot) -> tuple[str, ...]:
    """MA_EXTRA_TORCHRUN_PARAMS as words, split as a shell does; raises SettingsRefused.

    They may override everything but the restarts: there is one budget, and it is ours.
    """
    text = boot.environ.get(EXTRA, "")
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise SettingsRefused(
            f"{EXTRA}: expected words as a shell reads them, found {shown(text)}: {error}"
        ) from error
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.replace("-", "_") == "__max_restarts":
            value = value if equals else "".join(words[number + 1 : number + 2])
            if value != "0":
                raise SettingsRefused(
                    f"{EXTRA}: {name} {value}: it is the supervisor that restarts; leave it out "
                    f"and give --restarts {value}"
                )
    return words


def script(command: Sequence[str]) -> tuple[str, ...]:
    """The command for torchrun, which starts the interpreter itself, unbuffered."""
    words = list(command)
    if PYTHON.fullmatch(PurePath(words[0]).name):
        options = 1
        while words[options : options + 1] == ["-u"]:
            options += 1
        following = words[options] if options < len(words) else "-"
        if following == "-m" or not following.startswith("-"):
            return tuple(words[options:])
    elif words[0].endswith(".py"):
        return tuple(words)
    return ("--no_python", *words)
