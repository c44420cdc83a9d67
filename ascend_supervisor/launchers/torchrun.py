"""One torchrun per server, as ModelArts calls it (MA_RUN_METHOD=torchrun, PyTorch >= 1.11); pure.

When a worker has failed, torchrun and its other workers leave words that are no cause.
"""

from __future__ import annotations

import re
import shlex
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
from ascend_supervisor.launchers.rank_environment import needed_address
from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.process_spec import Culprit, Exhibit, ProcessSpec, port_of, raised
from ascend_supervisor.settings.command_words import PYTHON, script_of
from ascend_supervisor.untrusted_text import shown


class TorchrunTestimony(Struct, frozen=True):
    """Reads what torchrun 1.11 to 2.13 leaves: its summary, and the error files of its workers.

    ``ranks`` are those of the workers, by local rank; ``others`` names the servers of whose end we
    learn from torchrun alone.
    """

    directory: PurePath
    ranks: tuple[int, ...]
    others: tuple[str, ...] = ()

    @property
    def exhibits(self) -> tuple[PurePath, str]:
        """``<run>/attempt_<n>/<local rank>/error.json``, as ``@record`` writes them."""
        return self.directory, "*/attempt_*/*/error.json"

    def culprit(
        self,
        lines: Sequence[str],
        exhibits: Sequence[Exhibit],
        ranks: Mapping[int, int],  # noqa: ARG002  (its summary has them)
    ) -> Culprit | None:
        """The worker that was killed, or wrote the first error file, or is named by torchrun.

        Exceptions after a worker was killed are consequences. torchrun's own time stamps only
        have whole seconds.
        """
        ends = list(_ends(lines))
        own_words = _before_torchrun(lines)
        killed = next((end for end in ends if end.killed), None)
        for exhibit in exhibits if killed is None else ():
            local_rank = _local_rank(exhibit.path)
            if local_rank is None:
                continue
            status = next((end.status for end in ends if end.local_rank == local_rank), None)
            rank = self.ranks[local_rank] if local_rank < len(self.ranks) else None
            exception = raised(exhibit.head)
            return Culprit(rank, status or ExitStatus(1), exception, own_words)
        chosen = killed or (ends[-1] if ends else None)
        return Culprit(chosen.rank, chosen.status, None, own_words) if chosen else None

    def false_success(self, lines: Sequence[str]) -> str | None:
        """Status 0 is false if torchrun has waited in vain for ``others``.

        On a busy server the torchrun of the first may have ended well, and its store with it,
        before this one has looked: one that had arrived in the barrier and lost the store soon
        after is believed. If another has failed in these seconds, that one tells of it.
        """
        if not self.others or not _waited_in_vain(lines):
            return None
        whose = " or ".join(self.others)
        return (
            "torchrun ended with 0 here, but the job did not: its workers ended well, and it then "
            f"waited in vain for the other servers; look at what ended {whose}"
        )


_BARRIER_BROKE = re.compile(
    r"Error waiting on exit barrier(?:\. Elapsed: (\d{1,9}(?:\.\d{1,20})?(?:e-\d\d)?) seconds)?",
    re.ASCII,
)
_HAD_ARRIVED = re.compile(r"store\.\w+\(\[?last_member_key")
"""In the traceback, since torch.distributed.elastic.utils.store lets the first server end first."""
LATE_SECONDS = 3.0
"""How much later a busy server may look; 0.4 s were measured with five processes for each core."""
_RANK = re.compile(r"\s*rank\s*: (\d{1,7}) \(local_rank: (\d{1,7})\)", re.ASCII)
_EXIT = re.compile(r"\s*exitcode\s*: (-?\d{1,10}) \(pid: \d+\)", re.ASCII)
_SPOKEN = re.compile(
    r"[EW]\d{4} .*torch/distributed/elastic/|.*ChildFailedError|WARNING:torch\.dis"
)
_CONSEQUENCES = frozenset({15, 6, 2})
"""TERM and INT come from torchrun, ABRT from a collective that lost another rank."""


class _End(Struct, frozen=True):
    """A line of torchrun's summary; the root cause is the last of them."""

    rank: int
    local_rank: int
    status: ExitStatus

    @property
    def killed(self) -> bool:
        return self.status.signal is not None and self.status.signal not in _CONSEQUENCES


def _waited_in_vain(lines: Sequence[str]) -> bool:
    for number, line in enumerate(lines):
        if broke := _BARRIER_BROKE.search(line):
            has_arrived = any(map(_HAD_ARRIVED.search, lines[number:]))
            return not (has_arrived and float(broke[1] or "inf") < LATE_SECONDS)
    return False


def _ends(lines: Sequence[str]) -> Iterator[_End]:
    place: tuple[int, int] | None = None
    for line in lines:
        if found := _RANK.fullmatch(line.rstrip()):
            place = int(found[1]), int(found[2])
        elif place and (found := _EXIT.match(line)):
            code = int(found[1])
            status = ExitStatus(code) if code >= 0 else ExitStatus(None, -code)
            yield _End(*place, status)
            place = None


def _before_torchrun(lines: Sequence[str]) -> tuple[str, ...]:
    """What the workers wrote before torchrun began to speak of their end."""
    for number, line in enumerate(lines):
        if "closing signal" in line or "failed (exitcode" in line:
            return tuple(line for line in lines[:number] if not _SPOKEN.match(line))
    return tuple(lines)


def _local_rank(path: PurePath) -> int | None:
    name = path.parent.name
    return int(name) if name.isascii() and name.isdecimal() else None


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
        directory = place.job_directory / "torchrun" / node / place.generation_name(generation)
        logged = process_log(self.boot, here, node)
        cwd = other_directory(self.boot, place)
        error_file = directory / "error.json"
        command = self.boot.command
        words = script(command)
        argv = (
            *self.torchrun,
            *self._rendezvous(table, here, workers),
            "--max_restarts=0",
            f"--monitor_interval={MONITOR_SECONDS}",
            f"--log_dir={directory}",
            *extra_words(self.boot),
            *words,
        )
        others = tuple(entry.label for entry in table.entries if entry is not here.entry)
        return (
            ProcessSpec(
                argv=argv,
                cwd=cwd,
                log=launcher_log_path(place, "torchrun", here.node_rank),
                environ={
                    **common_environ(self.boot, here, generation),
                    **table_file_unset(self.boot, table),
                    CANN_LOGS: logged,
                    "TORCHELASTIC_ERROR_FILE": str(error_file),
                },
                directories=(cwd / logged, directory),
                error_file=error_file,
                title="torchrun",
                workers=workers,
                script=script_of(command) if words[0].startswith("-") else words[0],
                port=None if here.node_rank or len(table.entries) == 1 else port_of(self._port),
                testimony=TorchrunTestimony(
                    directory,
                    tuple(device.rank for device in here.entry.devices),
                    () if self.boot.ends_are_shared else others,
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
