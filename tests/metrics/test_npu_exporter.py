"""What npu-exporter finds in its JSON files, and that it takes them.

Its conditions are those of MindCluster's documentation, "Custom Metric File" (26.0):
gitcode.com/Ascend/mind-cluster, docs/en/scheduling/06_api/00_npu_exporter/03_custom_metrics_file.md
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.metrics.figures import PREFIX, Snapshot
from ascend_supervisor.metrics.metrics_file import CHOSEN, UNKNOWN, npu_exporter_files
from tests.metrics.snapshots import full_snapshot, snapshot
from tests.metrics.test_figures import NAMES, PAGES
from tests.test_docs import page


def metrics_of(seen: Snapshot, names: dict[str, str] = NAMES) -> dict[str, Any]:
    """The contents by name of the figure."""
    files = npu_exporter_files(seen, names)
    return {
        name.removeprefix(PREFIX).removesuffix(".json"): json.loads(data)
        for name, data in files.items()
    }


def refusals(name: str, metric: dict[str, Any]) -> list[str]:
    """Why npu-exporter would not take a file."""
    values, keys = metric["data_list"], {tuple(one["label"]) for one in metric["data_list"]}
    conditions = {
        "version": metric["version"] == "1.0",
        "name": metric["name"] == PREFIX + name and len(metric["name"]) <= 128,
        "desc": 0 < len(metric["desc"]) <= 1024,
        "timestamp": isinstance(metric["timestamp"], int) and metric["timestamp"] > 0,
        "data_list": 0 < len(values) <= 128,
        "value": all(isinstance(one["value"], (int, float)) for one in values),
        "label": len(keys) == 1
        and all(isinstance(text, str) for one in values for text in one["label"].values()),
        "labels": all(len(key) <= 10 for key in keys),
        "size": len(json.dumps(metric)) < 100_000,
    }
    return [condition for condition, holds in conditions.items() if not holds]


@pytest.mark.parametrize("seen", [snapshot(), full_snapshot()], ids=["at first", "later"])
def test_it_takes_every_file_from_the_first_one_on(seen):
    metrics = metrics_of(seen)
    assert set(metrics) == set(CHOSEN)
    assert len(metrics) <= 10
    assert [refusals(*metric) for metric in metrics.items()] == [[]] * len(metrics)


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        ("version", {"version": "1.1"}),
        ("name", {"name": "step"}),
        ("desc", {"desc": ""}),
        ("timestamp", {"timestamp": 1.5}),
        ("data_list", {"data_list": [{"value": 1, "label": {}}] * 129}),
        ("value", {"data_list": [{"value": None, "label": {}}]}),
        ("label", {"data_list": [{"value": 1, "label": {"rank": 0}}]}),
        ("label", {"data_list": [{"value": 1, "label": {}}, {"value": 1, "label": {"a": ""}}]}),
        ("labels", {"data_list": [{"value": 1, "label": dict.fromkeys("abcdefghijk", "")}]}),
    ],
)
def test_a_file_that_it_would_not_take_is_found(condition, wrong):
    assert refusals("step", {**metrics_of(snapshot())["step"], **wrong}) == [condition]


def test_the_names_of_labels_stay_those_of_the_first_file():
    def keys(metrics: dict[str, Any]) -> dict[str, set[str]]:
        return {name: set(one["data_list"][0]["label"]) for name, one in metrics.items()}

    assert keys(metrics_of(snapshot())) == keys(metrics_of(full_snapshot()))


def test_a_file_has_the_values_of_its_figure_and_their_moment():
    metric = metrics_of(full_snapshot())["time_spent_seconds"]
    assert (metric["name"], metric["timestamp"]) == (
        f"{PREFIX}time_spent_seconds",
        1795316460250000,
    )
    assert metric["data_list"] == [
        {"value": 60.5, "label": {**NAMES, "category": "training"}},
        {"value": 3.0, "label": {**NAMES, "category": "stalled"}},
    ]


def test_what_is_not_known_yet_is_told_as_unknown():
    metrics = metrics_of(snapshot())
    unknown = [name for name, one in metrics.items() if one["data_list"][0]["value"] == UNKNOWN]
    assert {"step", "generation", "time_spent_seconds"} <= set(unknown)
    assert {"phase", "ranks", "restarts_total"} & set(unknown) == set()
    assert UNKNOWN not in {
        one["data_list"][0]["value"] for one in metrics_of(full_snapshot()).values()
    }


@pytest.mark.parametrize("name", PAGES)
def test_the_page_lists_them(name):
    listed = page(name).partition("<!-- npu-exporter:begin -->")[2].partition("<!--")[0]
    assert tuple(re.findall(r"`(\w+)`", listed)) == CHOSEN


@given(st.text())
def test_no_name_of_a_job_makes_a_file_that_cannot_be_read(name):
    for metric in metrics_of(snapshot(), {"job_id": name}).items():
        assert refusals(*metric) == []
