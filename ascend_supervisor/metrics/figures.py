"""The table of all figures: their names, what they mean, and where each comes from; values, pure.

Names follow the conventions of Prometheus: base units, and ``_total`` for what only goes up. Their
names and labels are promises (docs/metrics.md). A moment is a time stamp, so that how long ago it
was can be asked at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import get_args

from msgspec import Struct

from ascend_supervisor.control.status_answer import LiveStatus, RankState
from ascend_supervisor.life import ServerPhase
from ascend_supervisor.metrics.tally import ByLabel, Tally, teller
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.reporters.status_document import StatusPhase
from ascend_supervisor.untrusted_text import printable

PREFIX = "ascend_supervisor_"

Value = float | ByLabel | None
"""One for each value of the label, if there is one; None: it is not known."""


class Snapshot(Struct, frozen=True):
    """What is known at one moment: ``now``, in seconds of ``Clock.elapsed``, ``at`` since 1970.

    ``live`` is what ``status`` shows, ``longest_pause`` how long a step took at most, in seconds.
    The last two are ours: seconds of CPU, and bytes of memory.
    """

    live: LiveStatus
    tally: Tally
    now: float
    at: float
    longest_pause: float | None
    cpu_seconds: float
    memory_bytes: int


class Figure(Struct, frozen=True):
    """Its name without PREFIX, its HELP, and its value ``of`` what is known."""

    name: str
    meaning: str
    of: Callable[[Snapshot], Value]
    label: str = ""

    @property
    def kind(self) -> str:
        return "counter" if self.name.endswith("_total") else "gauge"


def _of_training(of: Callable[[ProgressStatus], Value]) -> Callable[[Snapshot], Value]:
    def known(seen: Snapshot) -> Value:
        progress = seen.live.status.progress
        return None if progress is None else of(progress)

    return known


def _moment(text: str | None) -> float | None:
    """Seconds since 1970, of RFC 3339 in UTC."""
    if text is None:
        return None
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _each(names: Iterable[str], found: Iterable[str]) -> ByLabel:
    """How often each was found, also those that were not."""
    return dict.fromkeys(names, 0) | Counter(found)


def _ranks(seen: Snapshot) -> ByLabel:
    rows = [one for one in seen.live.ranks if one.rank is not None]
    return _each(get_args(RankState), [one.state for one in rows])


def _generation_start(seen: Snapshot) -> Value:
    generations = seen.live.status.generations
    return _moment(generations[-1].started_at) if generations else None


def _log_bytes(seen: Snapshot) -> ByLabel:
    rows = (one for one in seen.live.ranks if one.bytes is not None)
    return {teller(one.rank, one.program): one.bytes or 0 for one in rows}


def _lost_bytes(seen: Snapshot) -> ByLabel:
    return {**dict.fromkeys(_log_bytes(seen), 0), **seen.tally.lost}


def _servers(seen: Snapshot) -> Value:
    peers = seen.live.peers
    if peers is None:
        return None
    return _each(get_args(ServerPhase), [one.phase for one in peers.servers])


FIGURES = (
    Figure(
        "info",
        "Always 1; the version of ascend_supervisor.",
        lambda seen: {seen.live.status.version: 1},
        "version",
    ),
    Figure(
        "start_time_seconds",
        "When this supervisor was started, in seconds since 1970.",
        lambda seen: _moment(seen.live.started_at),
    ),
    Figure(
        "phase",
        "1 for the phase that the job is in, 0 for the others.",
        lambda seen: _each(get_args(StatusPhase), [seen.live.status.phase]),
        "phase",
    ),
    Figure(
        "exit_code",
        "The exit code, once the supervisor has ended.",
        lambda seen: seen.live.status.exit_code,
    ),
    Figure(
        "generation",
        "The generation that runs or ran last, from 0.",
        lambda seen: seen.live.status.generation,
    ),
    Figure(
        "generation_start_time_seconds",
        "When this generation was started, in seconds since 1970.",
        _generation_start,
    ),
    Figure(
        "ranks",
        "Ranks of this server by what they do.",
        _ranks,
        "state",
    ),
    Figure("step", "The last step that the ranks told.", _of_training(lambda one: one.step)),
    Figure("steps", "How many steps there are in all.", _of_training(lambda one: one.steps)),
    Figure(
        "best_step",
        "The furthest step of all generations.",
        _of_training(lambda one: one.best_step),
    ),
    Figure(
        "step_duration_seconds",
        "How long a step takes.",
        _of_training(lambda one: one.seconds_per_step),
    ),
    Figure(
        "longest_step_pause_seconds",
        "The longest time between two steps so far.",
        lambda seen: seen.longest_pause,
    ),
    Figure(
        "last_step_timestamp_seconds",
        "When the last step was told, in seconds since 1970.",
        _of_training(lambda one: _moment(one.last_step_time)),
    ),
    Figure(
        "checkpoint_step",
        "The step of the last checkpoint.",
        _of_training(lambda one: one.checkpoint_step),
    ),
    Figure(
        "checkpoint_timestamp_seconds",
        "When the last checkpoint was told to be complete, in seconds since 1970.",
        _of_training(lambda one: _moment(one.checkpoint_time)),
    ),
    Figure(
        "time_spent_seconds",
        "What the time was spent on; time may move to another category afterwards.",
        _of_training(lambda one: one.account),
        "category",
    ),
    Figure(
        "restarts_allowed",
        "How many restarts --restarts allows.",
        lambda seen: seen.tally.restarts_allowed,
    ),
    Figure(
        "restarts_left",
        "How many of them are left.",
        lambda seen: seen.live.restarts_left,
    ),
    Figure(
        "restarts_total",
        "Restarts of all ranks by what caused them.",
        lambda seen: seen.tally.restarts,
        "cause",
    ),
    Figure(
        "hangs_total",
        "Hangs that were noticed, by what noticed them.",
        lambda seen: seen.tally.hangs,
        "source",
    ),
    Figure(
        "stalls_total",
        "How often the training stood still for longer than was expected.",
        lambda seen: seen.tally.stalls,
    ),
    Figure(
        "waits_seconds_total",
        "Waits that events told of, by what was waited for.",
        lambda seen: seen.tally.waits(seen.now),
        "wait",
    ),
    Figure(
        "ending_seconds_total",
        "Seconds of the ends of generations: drain until the ranks are told to stop, grace until "
        "nothing of them is left, release until the next generation starts.",
        lambda seen: seen.tally.endings(seen.now),
        "part",
    ),
    Figure(
        "leftovers_killed_total",
        "Processes that ranks, or an earlier start, had left behind, and that were killed.",
        lambda seen: seen.tally.killed,
    ),
    Figure(
        "log_bytes_total",
        "Bytes that a rank has written in this generation.",
        _log_bytes,
        "rank",
    ),
    Figure(
        "log_lost_bytes_total",
        "Bytes that are missing in the log of a rank.",
        _lost_bytes,
        "rank",
    ),
    Figure(
        "console_dropped_lines_total",
        "Lines of ranks that stdout does not have, because its reader was slow.",
        lambda seen: seen.tally.dropped_lines,
    ),
    Figure("servers", "Servers of the job by phase (--peers).", _servers, "phase"),
    Figure(
        "cpu_seconds_total", "CPU time of the supervisor itself.", lambda seen: seen.cpu_seconds
    ),
    Figure("memory_bytes", "Memory of the supervisor itself.", lambda seen: seen.memory_bytes),
)


def text_of(seen: Snapshot, names: Mapping[str, str]) -> bytes:
    """All that is known, in Prometheus' text format; ``names`` are labels of every line."""
    lines: list[str] = []
    for figure in FIGURES:
        told = figure.of(seen)
        if told is None:
            continue
        name = f"{PREFIX}{figure.name}"
        lines += [f"# HELP {name} {figure.meaning}", f"# TYPE {name} {figure.kind}"]
        values = told if isinstance(told, Mapping) else {"": told}
        for one, value in values.items():
            labels = {**names, figure.label: one} if figure.label else names
            lines.append(f"{name}{{{labels_text(labels)}}} {value}")
    return "".join(f"{line}\n" for line in lines).encode()


def labels_text(labels: Mapping[str, str]) -> str:
    """As they stand between the braces."""
    return ",".join(map(_label, labels.items()))


def _label(label: tuple[str, str]) -> str:
    r"""As the format wants it: \ and " are escaped, and nothing breaks the line."""
    name, value = label
    escaped = printable(value).replace("\\", r"\\").replace('"', r"\"")
    return f'{name}="{escaped}"'
