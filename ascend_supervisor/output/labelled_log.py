"""A log that is printed with a label before each line, and its unfinished line in time."""

from __future__ import annotations

import time
from collections.abc import Callable

from ascend_supervisor.output.growing_logs import PutBytes
from ascend_supervisor.output.text_lines import MOST_SECONDS, UNFINISHED_SECONDS, TextLines


class LabelledLog:
    """Puts ``lines`` of what it is given; ``now`` is in seconds, from any beginning."""

    def __init__(
        self, lines: TextLines, put: PutBytes, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._lines = lines
        self._put = put
        self._now = now
        self._patience = UNFINISHED_SECONDS
        self._due: float | None = None
        """When the unfinished line is to be shown; None if there is nothing new of it."""

    def put(self, piece: bytes) -> None:
        self._put_some(bytes(self._lines.render(piece, 0.0, None)))
        if b"\n" in piece:
            self._due, self._patience = None, UNFINISHED_SECONDS
        if self._due is None and not piece.endswith(b"\n"):
            self._due = self._now() + self._patience

    def show_unfinished(self) -> None:
        """Show the unfinished line, if it has been unfinished for long enough."""
        if self._due is not None and self._now() >= self._due:
            self._due = None
            self._patience = min(self._patience * self._lines.growth, MOST_SECONDS)
            self._put_some(bytes(self._lines.unfinished()))

    def finish(self) -> None:
        """End the unfinished line."""
        self._put_some(bytes(self._lines.rest(0.0, None)))

    def _put_some(self, lines: bytes) -> None:
        if lines:
            self._put(lines)
