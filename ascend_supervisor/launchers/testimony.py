"""What a launcher reports about its workers, if it has workers of its own; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Protocol

import orjson
from msgspec import Struct

from ascend_supervisor.outcome import ExitStatus


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


def raised(content: bytes) -> str | None:
    """The message in an error file as torch.distributed.elastic's ``@record`` writes it."""
    try:
        message = orjson.loads(content)["message"]
        if isinstance(message, dict):
            message = message["message"]
    except (ValueError, KeyError, TypeError):
        return None
    return message if isinstance(message, str) else None
