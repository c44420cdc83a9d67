"""What a failed process left that says why: its error file, and its launcher's testimony."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ascend_supervisor.files.regular import open_regular_file
from ascend_supervisor.launchers.failure_words import Exhibit, raised
from ascend_supervisor.launchers.spec import ProcessSpec
from ascend_supervisor.outcome import Failure

LAST_LINES = 20
"""How many of a failed rank's lines are told."""
HEAD_BYTES = 64 * 1024
"""An error file is read so far, too."""
TAIL_BYTES = 8 * 1024
MOST_EXHIBITS = 64


def examined(
    failure: Failure,
    spec: ProcessSpec,
    lines: Sequence[str],
    heard: Sequence[str],
    ranks: Mapping[int, int],
) -> Failure:
    """The failure with all that is known of it; reads files.

    ``lines`` are the last of its log, ``heard`` those of all the generation's, and ``ranks`` those
    of a launcher's workers, by their pids.
    Where a launcher failed because a worker did, the failure is the worker's.
    """
    failure = replace(failure, last_lines=tuple(lines[-LAST_LINES:]))
    if spec.explanation is not None:
        failure = replace(failure, reason=spec.explanation.reason(lines, heard))
    if spec.testimony is not None:
        culprit = spec.testimony.culprit(lines, list(_exhibits(spec)), ranks)
        if culprit is not None:
            return replace(
                failure,
                name=f"{spec.name}'s worker" if culprit.rank is None else f"rank {culprit.rank}",
                rank=culprit.rank,
                status=culprit.status,
                exception=culprit.exception,
                reason=culprit.reason,
                last_lines=culprit.last_lines[-LAST_LINES:],
                log=str(culprit.log or spec.log),
            )
    if spec.error_file is None:
        return failure
    return replace(failure, exception=raised(_ends(Path(spec.error_file))[0]))


def _exhibits(spec: ProcessSpec) -> Iterator[Exhibit]:
    """The oldest first; what is gone meanwhile is passed over."""
    if spec.testimony is None:
        return
    directory, pattern = spec.testimony.exhibits
    if not pattern:
        return
    found: list[tuple[int, Path]] = []
    with suppress(OSError):
        paths = islice(Path(directory).glob(pattern), MOST_EXHIBITS)
        found += [(path.stat().st_mtime_ns, path) for path in paths]
    for _, path in sorted(found):
        yield Exhibit(path.relative_to(directory), *_ends(path))


def _ends(path: Path) -> tuple[bytes, bytes]:
    """Its beginning and its end; empty where it cannot be read, or is no regular file."""
    try:
        with os.fdopen(open_regular_file(path), "rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(max(file.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
            return head, file.read(TAIL_BYTES)
    except OSError:
        return b"", b""
