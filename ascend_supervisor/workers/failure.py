"""The first failure: how a process died, and the evidence of its cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.files.regular_file import end_of, opened, read_up_to
from ascend_supervisor.launchers.process_spec import ProcessSpec
from ascend_supervisor.launchers.testimony import Culprit, Exhibit, Testimony, raised
from ascend_supervisor.outcome import ExitStatus, Failure, Worker
from ascend_supervisor.output.last_lines import TAIL_BYTES
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.workers.process import Process

HEAD_BYTES = 64 * 1024
"""How much of the beginning of a file is read, error files too."""
MOST_EXHIBITS = 64


class Death(Struct, frozen=True):
    """The end of the process that failed first.

    ``at`` is in seconds of the clock; ``runtime_seconds`` includes time while we were stopped.
    """

    process: Process
    generation: int
    status: ExitStatus
    at: float
    runtime_seconds: float
    oom_killed: bool | None
    oom_kills: tuple[int, int] | None = None
    memory: str | None = None

    @property
    def failure(self) -> Failure:
        """What can be told at once, without a look at a file."""
        spec, lines = self.process.spec, self.process.output.last_lines
        return Failure(
            name=spec.name,
            rank=spec.rank,
            generation=self.generation,
            status=self.status,
            runtime_seconds=self.runtime_seconds,
            ended_at=self.at,
            oom_killed=self.oom_killed,
            oom_kills=self.oom_kills,
            memory=self.memory,
            log=str(spec.log),
            last_lines=lines,
            reason=spec.explanation.reason(lines, lines) if spec.explanation else None,
            is_shared=spec.rank is None and spec.speaks_for_ranks,
        )


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
    from ascend_supervisor.launchers.once import CommandTestimony  # noqa: PLC0415

    culprit = CommandTestimony().culprit(lines, [], {})
    return failure if culprit is None else _led(failure, culprit)


def unheeded_death(spec: ProcessSpec, lines: Sequence[str]) -> str | None:
    """Tells what is wrong in the output of a process that ended with 0; None if nothing is."""
    found = _unheeded(spec, lines)
    if found is None:
        return None
    return (
        f"{spec.name} ended with 0, and its output holds {printable(found)}; a pipeline of a shell "
        "ends as its last command does: write set -o pipefail, or leave tee out, because "
        f"{spec.log} has the same lines"
    )


def _unheeded(spec: ProcessSpec, lines: Sequence[str]) -> str | None:
    if not any(_OF_DEATH.search(line) for line in lines):
        return None
    from ascend_supervisor.evidence.statement import unheeded  # noqa: PLC0415  (see late_imports)

    if spec.leads_ranks and spec.testimony is not None:
        culprit = spec.testimony.culprit(lines, [], {})
        if culprit is not None and culprit.rank is not None:
            return f"the end of a rank: {Worker(culprit.rank, culprit.status)}"
    return unheeded(lines)


_OF_DEATH = re.compile(r"Traceback|: line \d|SyntaxError|exitcode|exits with|exited on", re.ASCII)


def _exhibits(testimony: Testimony) -> Iterator[Exhibit]:
    """The oldest first; what is gone meanwhile is passed over."""
    found: list[tuple[int, Path]] = []
    with suppress(OSError):
        paths = islice(exhibit_files(testimony), MOST_EXHIBITS)
        found += [(path.stat().st_mtime_ns, path) for path in paths]
    directory, _ = testimony.exhibits
    for _, path in sorted(found):
        yield Exhibit(path.relative_to(directory), *_ends(path))


def exhibit_files(testimony: Testimony) -> Iterator[Path]:
    """The files that it may ask for, in no order. Raises OSError."""
    directory, pattern = testimony.exhibits
    return Path(directory).glob(pattern) if pattern else iter(())


def _ends(path: Path) -> tuple[bytes, bytes]:
    """Its beginning and its end; empty if it cannot be read or is not a regular file."""
    try:
        with opened(path) as file:
            return read_up_to(file, HEAD_BYTES), end_of(file, TAIL_BYTES)
    except OSError:
        return b"", b""
