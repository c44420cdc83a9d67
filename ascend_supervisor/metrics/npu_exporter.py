"""The figures that MindCluster's npu-exporter takes from JSON files, one of each; pure.

It calls them custom metrics, and takes at most 10 files of 100 KB, each with at most 128 values
whose labels have the same names. Only files that are there when it starts count. So all of them
are there from the first write on, and what is not known yet is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.metrics.figures import FIGURES, PREFIX, Figure, Snapshot
from ascend_supervisor.untrusted_text import printable

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
