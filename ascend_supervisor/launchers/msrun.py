"""One msrun per server, as ModelArts calls it (MA_RUN_METHOD=msrun, MindSpore >= 2.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.job_files import CANN_LOGS
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.common_parts import (
    common_environ,
    devices_everywhere,
    launcher_log_path,
    other_directory,
    process_log,
    table_file_unset,
)
from ascend_supervisor.launchers.mindspore import (
    MindSporeWords,
    cluster_seconds,
    host_names,
    rank_table,
    reads_table,
    scheduler_address,
    scheduler_port,
    words,
)
from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.process_spec import Culprit, Exhibit, ProcessSpec, WorkerLog, port_of
from ascend_supervisor.settings.command_words import PYTHON
from ascend_supervisor.untrusted_text import shown


class MsrunLauncher(Struct, frozen=True):
    """``msrun`` is its command on this machine: its name, or an interpreter's module."""

    boot: Boot
    msrun: tuple[str, ...] = ("msrun",)

    @property
    def needs_table_file(self) -> bool:
        return reads_table(self.boot)

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """One process, which starts a worker for each device; raises SettingsRefused."""
        workers = devices_everywhere("msrun", table, here)
        node = f"node_{here.node_rank}"
        place = here.place
        directory = place.job_directory / "msrun" / node / place.generation_name(generation)
        logged = process_log(self.boot, here, node)
        cwd = other_directory(self.boot, place)
        first = self.boot.command[0]
        logs = tuple(
            WorkerLog(directory / f"worker_{rank}.log", rank, local_rank)
            for local_rank, rank in enumerate(
                range(here.node_rank * workers, (here.node_rank + 1) * workers)
            )
        )
        return (
            ProcessSpec(
                argv=(
                    *self.msrun,
                    *self._cluster(table, here, workers, directory),
                    *self._command(),
                ),
                cwd=cwd,
                log=launcher_log_path(place, "msrun", here.node_rank),
                environ={
                    **common_environ(self.boot, here, generation),
                    **table_file_unset(self.boot, table),
                    **self._path(),
                    CANN_LOGS: logged,
                },
                directories=(cwd / logged, directory),
                title="msrun",
                workers=workers,
                testimony=MsrunTestimony(directory, logs, words(table, here, self.boot)),
                worker_logs=logs,
                host_names=host_names(table, here, self.boot),
                script=first if first.endswith(".py") else self.boot.script,
                port=None if here.node_rank else port_of(scheduler_port(self.boot, here)),
            ),
        )

    def _cluster(
        self, table: RankTable, here: Here, workers: int, directory: PurePath
    ) -> Iterator[str]:
        """The published arguments, in the published order."""
        yield f"--worker_num={workers * len(table.entries)}"
        yield f"--local_worker_num={workers}"
        yield f"--master_addr={scheduler_address(table, here, self.boot)}"
        yield f"--node_rank={here.node_rank}"
        yield f"--master_port={scheduler_port(self.boot, here)}"
        yield f"--log_dir={directory}"
        yield "--join=True"
        yield f"--cluster_time_out={cluster_seconds(self.boot)}"
        if table_file := rank_table(here, self.boot):
            yield f"--rank_table_file={table_file}"

    def _command(self) -> tuple[str, ...]:
        """The command for msrun, which adds ``python`` unless it begins with python or python3.

        Raises SettingsRefused if it is not a Python script.
        """
        first, *rest = self.boot.command
        if first.endswith(".py"):
            return self.boot.command
        if not PYTHON.fullmatch(PurePath(first).name) or not rest:
            raise SettingsRefused(
                f"msrun starts Python scripts only, not {shown(first)}; --method mindspore starts "
                "any program"
            )
        interpreter = "python3" if PurePath(first).name == "python3" else "python"
        as_it_is = interpreter == "python" and not rest[0].startswith("-")
        return tuple(rest) if as_it_is else (interpreter, *rest)

    def _path(self) -> dict[str, str]:
        """Make msrun find the interpreter that the command names by a path."""
        first = PurePath(self.boot.command[0])
        if len(first.parts) < 2 or not PYTHON.fullmatch(first.name):  # noqa: PLR2004
            return {}
        return {"PATH": f"{first.parent}:{self.boot.environ.get('PATH', '')}".rstrip(":")}


class MsrunTestimony(Struct, frozen=True):
    """Reads what msrun 2.3 to 2.10 leaves: a line with a pid, and a log of each worker."""

    directory: PurePath
    logs: tuple[WorkerLog, ...]
    mindspore: MindSporeWords

    @property
    def exhibits(self) -> tuple[PurePath, str]:
        """The workers' logs, and the scheduler's."""
        return self.directory, "*.log"

    def culprit(
        self, lines: Sequence[str], exhibits: Sequence[Exhibit], ranks: Mapping[int, int]
    ) -> Culprit | None:
        """The worker that msrun names; it checks once a second, and names only one.

        MindSpore's own lines hold its pid, if the census has missed the worker.
        """
        named = next(filter(None, map(_NAMED.search, lines)), None)
        if named is None:
            return None
        pid, code = int(named[1]), int(named[2])
        status = ExitStatus(code) if code >= 0 else ExitStatus(None, -code)
        rank = self._rank(pid, exhibits, ranks)
        told = {exhibit.path.name: _lines(exhibit) for exhibit in exhibits}
        log = f"worker_{rank}.log"
        own = told.get(log)
        if own is None:
            return Culprit(rank, status, None, tuple(lines))
        heard = [line for of_one in told.values() for line in of_one]
        reason = self.mindspore.reason(own, heard)
        return Culprit(rank, status, None, own, self.directory / log, reason)

    def _rank(self, pid: int, exhibits: Sequence[Exhibit], ranks: Mapping[int, int]) -> int | None:
        """The rank that had this pid: from the census, from the logs, or by elimination.

        The scheduler is not a rank.
        """
        if pid in ranks:
            return ranks[pid]
        mark = f"({pid},".encode()
        unseen = {log.rank for log in self.logs} - set(ranks.values())
        logged = (_rank_of(exhibit) for exhibit in exhibits if mark in exhibit.head)
        return next(logged, unseen.pop() if len(unseen) == 1 else None)

    def false_success(self, lines: Sequence[str]) -> str | None:  # noqa: ARG002
        """None: its 0 means that its own workers ended with 0."""
        return None


_NAMED = re.compile(
    r"Worker process (\d{1,10}) exit with exception\. Error code: (-?\d{1,10})(?!\d)", re.ASCII
)
_LOG = re.compile(r"worker_(\d{1,7})\.log", re.ASCII)


def _rank_of(exhibit: Exhibit) -> int | None:
    found = _LOG.fullmatch(exhibit.path.name)
    return int(found[1]) if found else None


def _lines(exhibit: Exhibit) -> tuple[str, ...]:
    """The last lines of the log."""
    return tuple(exhibit.tail.decode("utf-8", "backslashreplace").splitlines())
