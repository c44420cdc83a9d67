"""Keeps the figures in files that node_exporter's textfile collector and npu-exporter read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from math import floor
from pathlib import Path
from typing import NoReturn

import anyio

from ascend_supervisor.events import Event
from ascend_supervisor.events.supervisor import Diagnostic, SupervisorExited
from ascend_supervisor.files.regular_file import opened, read_up_to
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.files.untrusted_json import Cursor, Misfit, NotJson, parse_json
from ascend_supervisor.files.writer_thread import LatestFile
from ascend_supervisor.metrics.figures import FIGURES, PREFIX, Figure, Snapshot, labels_text
from ascend_supervisor.metrics.registry import Registry
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import plain, printable

SOURCE = "the metrics file"
WRITE_SECONDS = 15
"""How often it is written while nothing happens: Prometheus usually asks as often."""
LEAST_SECONDS = 1.0
"""Between two writes, whatever happens."""


class MetricsFile:
    """Nothing is written before ``begin``, which opens the file.

    ``complaint`` is asked for before the first write, and told of ``source`` unless it is empty.
    It may block.
    """

    def __init__(
        self,
        opened: Callable[[], LatestFile[Snapshot]],
        clock: Clock,
        complaint: Callable[[], str] = str,
        source: str = SOURCE,
    ) -> None:
        self._opened = opened
        self._clock = clock
        self._source = source
        self._complaint = complaint
        self._changed = anyio.Event()
        self._begun = anyio.Event()

    def begin(self, registry: Registry) -> None:
        self._registry, self._file = registry, self._opened()
        self._begun.set()

    def report(self, event: Event) -> None:
        self._changed.set()
        if isinstance(event, SupervisorExited) and self._begun.is_set():
            self._write()

    async def keep(self) -> NoReturn:
        """Write the file at every event, and every WRITE_SECONDS at a whole second of the loop.

        Who sleeps until a whole second shares one wake-up (``whole_second``).
        """
        await self._begun.wait()
        if complaint := await aside(self._complaint):
            self._registry.tell(Diagnostic(self._source, complaint, None))
        while True:
            self._write()
            self._changed = anyio.Event()
            now = self._clock.now()
            with anyio.move_on_after(floor(now) + WRITE_SECONDS - now):
                await self._changed.wait()
            await self._clock.sleep(now + LEAST_SECONDS - self._clock.now())

    def _write(self) -> None:
        self._file.put(self._registry.snapshot())


RECENT_SECONDS = 4.0 * WRITE_SECONDS
"""Who has not written for so long does not write any more."""
MOST_BYTES = 1024 * 1024
_HAS_NOT_ENDED = re.compile(rf'^{PREFIX}phase{{(.*),phase="ended"}} 0$'.encode(), re.MULTILINE)


def complaint_of_sharing(path: Path, labels: str, now: float) -> str:
    """What to tell if one with other ``labels`` seems to write ``path``, else nothing. May block.

    To be called before ``path`` is written; ``now`` is in seconds since the epoch.
    """
    found = _HAS_NOT_ENDED.search(_recent_text(path, now))
    other = "" if found is None else found[1].decode("utf-8", "replace")
    if other in {"", labels}:
        return ""
    return f"{_written(path, other)}, each of them needs a --metrics-file of its own"


def complaint_of_shared_directory(directory: Path, labels: str, now: float) -> str:
    """The same of the files for npu-exporter in ``directory``."""
    text = _recent_text(directory / f"{PREFIX}phase.json", now)
    try:
        values = parse_json(text).elements("data_list") if text else []
        other = next(filter(None, map(_not_ended, values)), "")
    except (NotJson, Misfit):
        return ""
    if other in {"", labels}:
        return ""
    return (
        f"{_written(directory, other)}, npu-exporter gets now the figures of the one, now of the "
        "other: only one supervisor on a server can use it"
    )


def _recent_text(path: Path, now: float) -> bytes:
    """What was written there a short while ago; empty without such a file."""
    try:
        with opened(path) as descriptor:
            is_recent = now - os.fstat(descriptor).st_mtime <= RECENT_SECONDS
            return read_up_to(descriptor, MOST_BYTES) if is_recent else b""
    except OSError:
        return b""


def _not_ended(value: Cursor) -> str:
    """The labels of a supervisor if this value says that it has not ended; raises Misfit."""
    label = value.child("label")
    if label.get("phase") != "ended" or value.get("value") != 0:
        return ""
    return labels_text({name: label.text(name) for name in ("job_id", "pod_name")})


def _written(path: Path, other: str) -> str:
    return (
        f"{path} was written less than a minute ago by another supervisor ({plain(other)}); if "
        "that one still runs"
    )


FILES = "the files for npu-exporter"
UNKNOWN = -1
"""As npu-exporter has it of its own figures; JSON has no NaN."""
CHOSEN = (
    "phase",
    "generation",
    "ranks",
    "step",
    "steps",
    "last_step_timestamp_seconds",
    "checkpoint_step",
    "time_spent_seconds",
    "restarts_left",
    "restarts_total",
)


def npu_exporter_files(seen: Snapshot, names: Mapping[str, str]) -> dict[str, bytes]:
    """Files by name; ``names`` are labels of every value."""
    labels = {name: printable(value) for name, value in names.items()}
    return {
        f"{PREFIX}{figure.name}.json": to_json(_metric(figure, seen, labels))
        for figure in FIGURES
        if figure.name in CHOSEN
    }


def _metric(figure: Figure, seen: Snapshot, names: Mapping[str, str]) -> dict[str, object]:
    told = figure.of(seen)
    values = told if isinstance(told, Mapping) else {"": UNKNOWN if told is None else told}
    own = [{figure.label: one} if figure.label else {} for one in values]
    return {
        "version": "1.0",
        "name": f"{PREFIX}{figure.name}",
        "desc": figure.meaning,
        "timestamp": round(seen.at * 1e6),
        "data_list": [
            {"value": value, "label": {**names, **label}}
            for label, value in zip(own, values.values(), strict=True)
        ],
    }
