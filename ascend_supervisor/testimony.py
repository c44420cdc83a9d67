"""What a launcher tells of its workers, where it has workers of its own; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

import orjson

from ascend_supervisor.outcome import ExitStatus


@dataclass(frozen=True, slots=True)
class Exhibit:
    """The first bytes of a file that the launcher or a worker left, and when it was changed."""

    path: PurePath
    changed_ns: int
    content: bytes


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


class Testimony(Protocol):
    """Reads what a launcher left; pure. ``lines`` are the last ones of its output."""

    @property
    def exhibits(self) -> tuple[PurePath, str]:
        """Where to look, and the pattern of what to look for there."""

    def culprit(self, lines: Sequence[str], exhibits: Sequence[Exhibit]) -> Culprit | None:
        """Who failed first, when the launcher has failed; ``exhibits``: the oldest first."""

    def doubt(self, lines: Sequence[str]) -> str | None:
        """Why an exit status of 0 is not to be believed; None where it is."""


def raised(content: bytes) -> str | None:
    """The message in an error file as torch.distributed.elastic's ``@record`` writes it."""
    try:
        message = orjson.loads(content)["message"]
        if isinstance(message, dict):
            message = message["message"]
    except (ValueError, KeyError, TypeError):
        return None
    return message if isinstance(message, str) else None
