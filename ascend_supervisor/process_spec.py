"""What to start, and what reads its words when it has failed; values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Protocol

import orjson
from msgspec import Struct, field

from ascend_supervisor.outcome import ExitStatus

MOST_PORT = 65535
MOST_DIGITS = 7
"""Of a port or a rank; a longer number is none."""


class Exhibit(Struct, frozen=True):
    """The beginning and the end of a file that a launcher or a worker left.

    ``path`` is relative to the directory that was searched.
    """

    path: PurePath
    head: bytes
    tail: bytes = b""


class Culprit(Struct, frozen=True):
    """The worker that failed first, as far as its launcher knows.

    ``last_lines`` are its own, or those before the launcher's message about it.
    """

    rank: int | None
    status: ExitStatus
    exception: str | None
    last_lines: tuple[str, ...]
    log: PurePath | None = None
    reason: str | None = None


class Testimony(Protocol):
    """Reads what a launcher left; pure. ``lines`` are the last ones of its output."""

    @property
    def exhibits(self) -> tuple[PurePath, str]:
        """The directory to search, and the pattern of the files."""

    def culprit(
        self, lines: Sequence[str], exhibits: Sequence[Exhibit], ranks: Mapping[int, int]
    ) -> Culprit | None:
        """The worker that failed first, if the launcher has failed.

        ``exhibits``: the oldest first; ``ranks``: those of the workers that were seen, by pid.
        """

    def false_success(self, lines: Sequence[str]) -> str | None:
        """Why status 0 is not a success; None if it is."""


class Explanation(Protocol):
    """Finds in a process's output why its framework ended it; pure."""

    def reason(self, lines: Sequence[str], heard: Sequence[str]) -> str | None:
        """The reason, or None.

        ``lines``: the last lines of the process; ``heard``: those of all processes here.
        """


class WorkerLog(Struct, frozen=True):
    """A log that a launcher's worker writes itself."""

    path: PurePath
    rank: int
    local_rank: int


class HostName(Struct, frozen=True):
    """A host, and the variables that name it.

    ``is_here``: it is this machine, and a program is to listen at its address.
    """

    name: str
    is_here: bool
    named_by: str = "VC_WORKER_HOSTS or MASTER_ADDR"


class ProcessSpec(Struct, frozen=True):
    """One process to start.

    ``environ`` holds changes to our own environment; None removes a variable.
    ``directories`` are made before the start, ``cwd`` and the log's parent too; then ``files`` are
    written, readable only to us. It inherits the ``descriptors``.
    The first ``own_words`` of ``argv`` start a program that serves the ranks, with our libraries
    (``LD_LIBRARY_PATH`` and the like); the command behind them gets those of ``environ``.
    A generation is complete when its ``significant`` processes have ended with 0, and what
    ``outlasts_ranks`` has then ended, too: ranks of other servers need it, and it ends by itself
    after them.
    ``explanation`` finds in its output why its framework ended it.
    ``workers`` is the number of session leaders that it starts itself: it is a launcher, and
    signals for ranks go to them. If they write logs of their own (``worker_logs``), these
    are mirrored in place of its output. ``testimony`` reads what a launcher reports about the end
    of ranks.

    ``script`` is the file that the command names for its interpreter, relative to ``cwd``.

    If it ``leads_ranks``, its descendants may be ranks, in whatever session they are: they get the
    signals that end a group, and drain and grace last until they have ended.

    If it ``relays_ranks``, it starts ranks in a way that we do not follow, and its output is
    theirs.

    ``port`` (TCP) is where it, or a rank that it starts, listens for the other ranks, and
    ``port_setting`` is what gives it another one.

    It runs on ``cpus`` and takes memory of the NUMA node ``memory_node`` first; None: as we do.

    If its words or variables hold ``host_names`` that its program may not understand, it is planned
    again with their addresses.
    """

    argv: tuple[str, ...]
    cwd: PurePath
    log: PurePath
    environ: Mapping[str, str | None] = field(default_factory=dict)
    rank: int | None = None
    local_rank: int | None = None
    significant: bool = True
    outlasts_ranks: bool = False
    directories: tuple[PurePath, ...] = ()
    error_file: PurePath | None = None
    title: str | None = None
    explanation: Explanation | None = None
    testimony: Testimony | None = None
    workers: int = 0
    worker_logs: tuple[WorkerLog, ...] = ()
    files: Mapping[PurePath, bytes] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()
    own_words: int = 0
    leads_ranks: bool = False
    relays_ranks: bool = False
    host_names: tuple[HostName, ...] = ()
    script: str | None = None
    port: int | None = None
    port_setting: str = "--master-port"
    cpus: frozenset[int] | None = None
    memory_node: int | None = None

    @property
    def name(self) -> str:
        """Its name for people: its title, else ``rank 3``, else its program."""
        if self.title is not None:
            return self.title
        return PurePath(self.argv[0]).name if self.rank is None else f"rank {self.rank}"

    @property
    def completes(self) -> bool:
        """Whether the generation is not complete before this process has ended."""
        return self.significant or self.outlasts_ranks

    @property
    def speaks_for_ranks(self) -> bool:
        """Whether its output is that of ranks: its own, or that of the ranks that it starts."""
        return self.rank is not None or self.workers > 0 or self.leads_ranks or self.relays_ranks

    @property
    def program(self) -> str | None:
        """What it is, if it is not a rank."""
        return self.name if self.rank is None else None


def port_of(text: str) -> int | None:
    """None if the text is no port: whoever is to listen there says so."""
    if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS:
        return int(text) if 0 < int(text) <= MOST_PORT else None
    return None


def changed(environ: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """``environ`` with ``changes``; None removes a variable."""
    merged: dict[str, str | None] = {**environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def rank_in(environ: Mapping[bytes, bytes]) -> int | None:
    """The rank that the environment of a process names, in whatever way its launcher does."""
    told = environ.get(b"RANK_ID") or environ.get(b"RANK") or b""
    return int(told) if told.isdigit() and len(told) <= MOST_DIGITS else None


def raised(content: bytes) -> str | None:
    """The message in an error file as torch.distributed.elastic's ``@record`` writes it."""
    try:
        message = orjson.loads(content)["message"]
        if isinstance(message, dict):
            message = message["message"]
    except (ValueError, KeyError, TypeError):
        return None
    return message if isinstance(message, str) else None
