"""All that can be found out about the first failure, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from msgspec import Struct

from ascend_supervisor.evidence.blame import explained, needs_plog
from ascend_supervisor.launchers.process_spec import changed
from ascend_supervisor.outcome import Failure
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import in_thread
from ascend_supervisor.workers.failure import Death, examined
from ascend_supervisor.workers.plog import Plogs, last_lines, log_root

T = TypeVar("T")

FILES_SECONDS = 1.0
"""For the files of the framework, and again for the logs of CANN."""


class Circumstances(Struct, frozen=True):
    """What is known of the generation besides the death.

    ``heard`` are the last lines of all processes, ``ranks`` those of a launcher's workers by pid,
    ``environ`` our own environment, ``age`` the seconds since the start of the process that failed.
    """

    heard: Sequence[str]
    ranks: Mapping[int, int]
    environ: Mapping[str, str]
    age: float


async def examination(death: Death, known: Circumstances) -> Failure:
    """The failure with all that files and words tell of it; to be called after the last death.

    Files are read in threads. What they do not tell in time is missing.
    """
    look = partial(examined, death, known.heard, known.ranks)
    failure = await _within(FILES_SECONDS, look, death.failure)
    in_words = explained(failure)
    plogs = _plogs(death, failure, known)
    if plogs is None or not needs_plog(failure):
        return in_words
    return await _within(FILES_SECONDS, lambda: explained(failure, last_lines(plogs)), in_words)


async def _within(seconds: float, look: Callable[[], T], otherwise: T) -> T:
    try:
        with anyio.move_on_after(seconds):
            return await in_thread(look)
    except NoThread:
        pass
    return otherwise


def _plogs(death: Death, failure: Failure, known: Circumstances) -> Plogs | None:
    """The logs of the rank: all in a directory of its own, else those with its pid."""
    process, spec = death.process, death.process.spec
    root = log_root(changed(known.environ, spec.environ), Path(spec.cwd))
    if root is None:
        return None
    workers = {pid for pid, rank in known.ranks.items() if rank == failure.rank}
    is_own = spec.rank is not None and root.name == f"rank_{spec.rank}"
    pids = None if is_own else frozenset({process.pid, *workers})
    return Plogs(root, pids, time.time() - known.age)
