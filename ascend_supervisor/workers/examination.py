"""All that can be found out about the first failure: the evidence of its cause, in bounded time.

CANN's own logs of processes (plog) are read for it: a bad disk may block.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from heapq import nlargest
from itertools import islice
from pathlib import Path
from signal import SIGKILL
from typing import TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.evidence.blame import (
    Other,
    among_workers,
    compared,
    explained,
    is_caused_elsewhere,
)
from ascend_supervisor.evidence.communication import taken_port
from ascend_supervisor.evidence.diagnosed import KILLED, diagnosis_of
from ascend_supervisor.evidence.statement import unheeded
from ascend_supervisor.files.regular_file import end_of, opened, read_up_to
from ascend_supervisor.job_files import cann_log_root
from ascend_supervisor.launchers.once import CommandTestimony
from ascend_supervisor.outcome import Failure, Worker
from ascend_supervisor.output.last_lines import TAIL_BYTES
from ascend_supervisor.process_spec import (
    Culprit,
    Exhibit,
    ProcessSpec,
    Testimony,
    changed,
    port_of,
    raised,
)
from ascend_supervisor.processes.tcp_ports import port_holder
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call
from ascend_supervisor.untrusted_text import clipped, printable
from ascend_supervisor.workers.preparation import exhibit_files
from ascend_supervisor.workers.verdict import Death

END_BYTES = 256 * 1024
"""How much of the end of a log is read. CANN begins a new one after 20 MB."""
MOST_LOGS = 4
MOST_ENTRIES = 200_000
"""How many entries of a directory are looked at."""
_FOLDERS = ("debug/plog", "run/plog", "plog")
"""Errors are in the first. The last is that of CANN 5.0 and before."""
_NAME = re.compile(r"plog-(\d{1,10})_(\d{1,20})\.log", re.ASCII)


class Plogs(Struct, frozen=True):
    """The logs to read: below ``root``, of these ``pids`` (None: of any process).

    Logs to which nothing was written after ``since`` (Unix time, seconds) are those of an earlier
    process.
    """

    root: Path
    pids: frozenset[int] | None
    since: float


def last_lines(plogs: Plogs) -> tuple[str, ...]:
    """The last lines of the newest logs; nothing of what is missing or no regular file."""
    found: list[bytes] = []
    for folder in _FOLDERS:
        with suppress(OSError):
            newest = _newest(plogs.root / folder, plogs.pids)
            found += filter(None, (_end(path, plogs.since) for path in newest))
    ends = found[:MOST_LOGS]
    return tuple(line for end in ends for line in end.decode(errors="replace").splitlines())


def _newest(directory: Path, pids: frozenset[int] | None) -> list[Path]:
    """By the time stamp in the name: ``plog-PID_TIMESTAMP.log``. Raises OSError."""
    with os.scandir(directory) as entries:
        logs = nlargest(MOST_LOGS, _named(islice(entries, MOST_ENTRIES), pids))
    return [directory / name for _, name in logs]


def _named(
    entries: Iterator[os.DirEntry[str]], pids: frozenset[int] | None
) -> Iterator[tuple[int, str]]:
    for entry in entries:
        name = _NAME.fullmatch(entry.name)
        if name and (pids is None or int(name[1]) in pids):
            yield int(name[2]), entry.name


def _end(path: Path, since: float) -> bytes:
    with suppress(OSError), opened(path) as file:
        if os.fstat(file).st_mtime >= since:
            return end_of(file, END_BYTES)
    return b""


T = TypeVar("T")

ANY_ADDRESS = "0.0.0.0"  # noqa: S104  (nothing listens there: it is asked who does, anywhere)
FILES_SECONDS = 1.0
"""For the files of the framework, and again for the logs of CANN."""

WORDS_SECONDS = 10.0
"""For the search of the last lines, which takes milliseconds, whatever a rank has written."""


class Circumstances(Struct, frozen=True):
    """What is known of the generation besides the death.

    ``heard`` are the last lines of all processes, ``ranks`` those of a launcher's workers by pid,
    ``local_ranks`` those of this server in the rank table, ``environ`` our own environment, ``age``
    the seconds since the start of the process that failed.
    ``nested`` is a sentence if ranks have started ranks.
    ``others`` are the other ranks that we have started here. All ranks of the job are here if it is
    ``of_job``; it ``is_alone`` if there is one only.
    """

    heard: Sequence[str]
    ranks: Mapping[int, int]
    environ: Mapping[str, str]
    age: float
    local_ranks: Sequence[int] = ()
    nested: str = ""
    others: Sequence[Other] = ()
    of_job: bool = False
    is_alone: bool = False


async def examination(death: Death, known: Circumstances) -> Failure:
    """The failure with all that files and words tell of it; to be called after the last death.

    Files are read in threads. What they do not tell in time is missing.
    """
    look = partial(examined, death, known.heard, known.ranks)
    failure = await _within(FILES_SECONDS, look, death.failure)
    advise = partial(_advice, failure, death.process.spec)
    advice = known.nested or await _within(FILES_SECONDS, advise, "")
    is_alone = known.is_alone and not failure.is_shared
    failure = replace(failure, advice=advice or None, is_alone=is_alone)
    plogs = _plogs(death, failure, known)
    read: tuple[str, ...] = ()
    if plogs is not None:
        read = await _within(FILES_SECONDS, partial(last_lines, plogs), read)
    return await _within(WORDS_SECONDS, partial(_in_words, failure, known, read), failure)


def _in_words(failure: Failure, known: Circumstances, plog: Sequence[str]) -> Failure:
    found = explained(failure, () if _is_clear(diagnosis_of(failure)) else plog)
    cause = diagnosis_of(found, plog)
    found = replace(found, diagnosis=cause)
    if _is_clear(cause) and is_caused_elsewhere(found):
        found = replace(found, meaning=None, code=None)  # the sentence must not point elsewhere
    if found.is_shared:
        return among_workers(found, set(known.ranks.values()) or set(known.local_ranks))
    return compared(found, known.others, of_job=known.of_job)


def _is_clear(cause: Diagnosis | None) -> bool:
    """Whether nothing else can tell more."""
    return cause is not None and not cause.is_consequence and cause.id != KILLED


async def _within(seconds: float, look: Callable[[], T], otherwise: T) -> T:
    try:
        with anyio.move_on_after(seconds):
            return await Call(look).result()
    except NoThread:
        pass
    return otherwise


def _advice(failure: Failure, spec: ProcessSpec) -> str:
    """What to do about a port that was taken; after the last death, so others have it now."""
    given = spec.environ.get("MASTER_PORT") or spec.environ.get("MS_SCHED_PORT") or ""
    port = taken_port((*failure.last_lines, failure.exception or ""), spec.port or port_of(given))
    if port is None:
        return ""
    another = "give this job another port" + (
        "" if spec.leads_ranks else f" with {spec.port_setting}"
    )
    if holder := port_holder(ANY_ADDRESS, port):
        return f"port {port} is in use by another process, {holder}; end it, or {another}"
    free = f"port {port} was in use, and is free again"
    if spec.rank is None:
        return f"{free}; if another job uses it, {another}"
    return (
        f"{free}: if the command is a launcher, which starts ranks itself, start it once, with "
        f"--method once; if another job uses the port, {another}"
    )


def _plogs(death: Death, failure: Failure, known: Circumstances) -> Plogs | None:
    """The logs of the rank: all in a directory of its own, else those with its pid."""
    process, spec = death.process, death.process.spec
    root = cann_log_root(changed(known.environ, spec.environ), Path(spec.cwd))
    if root is None:
        return None
    workers = {pid for pid, rank in known.ranks.items() if rank == failure.rank}
    is_own = spec.rank is not None and root.name == f"rank_{spec.rank}"
    pids = None if is_own else frozenset({process.pid, *workers})
    return Plogs(root, pids, time.time() - known.age)


HEAD_BYTES = 64 * 1024
"""How much of the beginning of a file is read, error files too."""
MOST_EXHIBITS = 64


def examined(death: Death, heard: Sequence[str], ranks: Mapping[int, int]) -> Failure:
    """The failure with all that is known after the last process has ended; reads files.

    ``heard`` are the last lines of all processes of the generation, ``ranks`` the ranks of a
    launcher's workers by pid. If a launcher failed because a worker did, the failure is the
    worker's; that of a command stays its own, and says which worker failed first.
    """
    failure, spec = death.failure, death.process.spec
    lines = failure.last_lines
    if spec.testimony is not None:
        culprit = spec.testimony.culprit(lines, list(_exhibits(spec.testimony)), ranks)
        if culprit is not None and spec.leads_ranks:
            return _led(failure, culprit)
        if culprit is not None:
            return replace(
                failure,
                name=f"{spec.name}'s worker" if culprit.rank is None else f"rank {culprit.rank}",
                rank=culprit.rank,
                status=culprit.status,
                # Of its own death nobody has asked the kernel.
                oom_killed=None if culprit.status.signal == SIGKILL else failure.oom_killed,
                exception=culprit.exception,
                reason=culprit.reason,
                last_lines=culprit.last_lines,
                log=str(culprit.log or spec.log),
                is_shared=culprit.log is None,
            )
    return replace(
        failure if spec.rank is None else by_launchers_word(failure),
        reason=spec.explanation.reason(lines, heard) if spec.explanation else None,
        exception=raised(_ends(Path(spec.error_file))[0]) if spec.error_file else None,
    )


def _led(failure: Failure, culprit: Culprit) -> Failure:
    """That of a command or a rank which has started ranks itself, with the one that it names."""
    worker = None if culprit.rank is None else Worker(culprit.rank, culprit.status)
    return replace(failure, worker=worker, last_lines=culprit.last_lines, is_shared=True)


def by_launchers_word(failure: Failure) -> Failure:
    """With the rank that a launcher names which it has started, such as a script with torchrun."""
    lines = failure.last_lines
    if not any(_OF_DEATH.search(line) for line in lines):
        return failure
    culprit = CommandTestimony().culprit(lines, [], {})
    return failure if culprit is None else _led(failure, culprit)


def unheeded_deaths(ended: Iterable[tuple[ProcessSpec, Sequence[str]]]) -> str:
    """What is wrong in the outputs of processes that ended with 0; empty if nothing is."""
    found = [(spec.name, told) for spec, lines in ended if (told := _unheeded(spec, lines))]
    if not found:
        return ""
    name, told = found[0]
    more = f" (and {len(found) - 1} more like it)" if len(found) > 1 else ""
    return f"the output of {name} {clipped(printable(told), MOST_TOLD)}{more}"


def _unheeded(spec: ProcessSpec, lines: Sequence[str]) -> str | None:
    if not any(_OF_DEATH.search(line) for line in lines):
        return None
    if spec.leads_ranks and spec.testimony is not None:
        culprit = spec.testimony.culprit(lines, [], {})
        if culprit is not None and culprit.rank is not None:
            return f"holds the end of a rank: {Worker(culprit.rank, culprit.status)}"
    return unheeded(lines)


_OF_DEATH = re.compile(
    r"Traceback|: line \d|SyntaxError|exitcode|exits with|exited on|(?i:error): ", re.ASCII
)
MOST_TOLD = 300
"""Characters of what the output of a process that ended with 0 holds."""


def _exhibits(testimony: Testimony) -> Iterator[Exhibit]:
    """The oldest first; what is gone meanwhile is passed over."""
    found: list[tuple[int, Path]] = []
    with suppress(OSError):
        paths = islice(exhibit_files(testimony), MOST_EXHIBITS)
        found += [(path.stat().st_mtime_ns, path) for path in paths]
    directory, _ = testimony.exhibits
    for _, path in sorted(found):
        yield Exhibit(path.relative_to(directory), *_ends(path))


def _ends(path: Path) -> tuple[bytes, bytes]:
    """Its beginning and its end; empty if it cannot be read or is not a regular file."""
    try:
        with opened(path) as file:
            return read_up_to(file, HEAD_BYTES), end_of(file, TAIL_BYTES)
    except OSError:
        return b"", b""
