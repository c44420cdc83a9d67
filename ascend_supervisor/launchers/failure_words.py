"""What a launcher tells of its workers, where it has workers of its own; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

import orjson

from ascend_supervisor.outcome import ExitStatus


@dataclass(frozen=True, slots=True)
class Exhibit:
    """The beginning and the end of a file that a launcher or a worker left.

    ``path`` is relative to where it was looked for.
    """

    path: PurePath
    head: bytes
    tail: bytes = b""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The worker that failed first, as far as its launcher knows.

    ``last_lines`` are its own, or those that were written before the launcher spoke of it.
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
    def workers(self) -> int:
        """How many workers the launcher starts here."""

    @property
    def exhibits(self) -> tuple[PurePath, str]:
        """Where to look, and the pattern of what to look for there."""

    def culprit(
        self, lines: Sequence[str], exhibits: Sequence[Exhibit], ranks: Mapping[int, int]
    ) -> Culprit | None:
        """Who failed first, when the launcher has failed.

        ``exhibits``: the oldest first; ``ranks``: of the workers that were seen, by their pids.
        """

    def false_success(self, lines: Sequence[str]) -> str | None:
        """Why an exit status of 0 is not to be believed; None where it is."""


class Explanation(Protocol):
    """Finds why a framework ended a process of its own, where only its words say so; pure."""

    def reason(self, lines: Sequence[str], heard: Sequence[str]) -> str | None:
        """None where they do not say it.

        ``lines``: the last ones of the process; ``heard``: those of all its generation here.
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
