"""What an event log tells of a job's files: its logs, stacks, rank table, and who failed first.

Nothing in it is trusted: what is not as expected is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct, field

from ascend_supervisor.events.words import QUOTED
from ascend_supervisor.report.last_job import JobChanges
from ascend_supervisor.report.told import ToldEvent, moment

MOST_LOOKS = 10
"""So many of the latest directories with stacks are taken."""
MOST_LOGS = 10_000
_WANTED = (
    b'"process.started"',
    b'"process.exited"',
    b'"stacks.taken"',
    b'"rank_table.ready"',
    b'"restart.scheduled"',
    b'"supervisor.started"',
    b'"supervisor.exited"',
)
_LOG = re.compile(rf"^{QUOTED} (.+):$", re.MULTILINE)


def quoted_log(root_cause: str) -> str | None:
    """The log whose last lines it quotes: that of a worker, if a launcher has started it."""
    found = _LOG.search(root_cause)
    return found[1] if found else None


class Story(Struct):
    """``logs`` in the order of their ranks' first starts; ``failed`` are those that failed first.

    ``quoted`` are the logs that root causes quote, the latest one last. ``began`` is when the first
    event was written (Unix time, seconds).
    """

    logs: dict[str, int | None] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)
    quoted: list[str] = field(default_factory=list)
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rank_table: str | None = None
    this_server: str | None = None
    began: float | None = None

    def hear(self, event: dict[str, Any]) -> None:
        """Take what the next event tells."""
        match event:
            case {"event": "process.started", "log": str(log), "rank": int() | None as rank}:
                if len(self.logs) < MOST_LOGS:
                    self.logs.setdefault(log, rank)
            case {"event": "process.exited", "first_failure": True, "rank": int(rank)}:
                self.failed = [*(one for one in self.failed if one != rank), rank]
            case {
                "event": "restart.scheduled" | "supervisor.exited",
                "root_cause": str(root_cause),
            }:
                self._quote(quoted_log(root_cause))
            case {"event": "stacks.taken", "directory": str(directory), "files": list(files)}:
                self.see(directory, [name for name in files if isinstance(name, str)])
            case {"event": "rank_table.ready", "path": str(path)}:
                self.rank_table = path
                label = event.get("this_server")
                self.this_server = label if isinstance(label, str) else None
            case {"event": "supervisor.started"}:
                at = moment(event)
                if at is not None and self.began is None:
                    self.began = at / 1e6
            case _:
                pass

    def _quote(self, log: str | None) -> None:
        if log is not None:
            self.quoted = [*(one for one in self.quoted if one != log), log]

    def see(self, directory: str, files: Iterable[str]) -> None:
        """Take what a look at the ranks has left; the latest one comes last."""
        self.stacks.pop(directory, None)
        self.stacks[directory] = tuple(name for name in files if "/" not in name)

    @property
    def looks(self) -> list[tuple[Path, tuple[str, ...]]]:
        """The latest directories with stacks, and their files."""
        return [(Path(place), files) for place, files in list(self.stacks.items())[-MOST_LOOKS:]]


def story_of(pieces: Iterable[bytes], is_own: Callable[[ToldEvent], bool]) -> Story:
    """What event logs tell of their last job, from their bytes in the order of time.

    Nothing, if none of its events ``is_own``: then it is a former job. Half a line is no event.
    """
    story, changes, rest, has_own = Story(), JobChanges(), b"", False
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if any(name in line for name in _WANTED):
                event = _event(line)
                if changes.begins_with(event):
                    story, has_own = Story(), False
                has_own = has_own or is_own(event)
                story.hear(event)
    return story if has_own else Story()


def _event(line: bytes) -> dict[str, Any]:
    """Empty for a line that is no event."""
    with suppress(orjson.JSONDecodeError):
        event = orjson.loads(line)
        if isinstance(event, dict):
            return event
    return {}
