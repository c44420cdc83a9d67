"""conf/grafana-dashboard.json asks Prometheus for what somebody writes.

The names of npu-exporter are those of MindCluster 7.3:
https://www.hiascend.com/document/detail/zh/mindcluster/730/clustersched/dlug/dlug_api_004.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ascend_supervisor.metrics.figures import FIGURES, PREFIX
from tests.metrics.promtool import complaints_of_promtool, figures_in, written

FILE = Path(__file__).parents[2] / "conf" / "grafana-dashboard.json"
DASHBOARD = json.loads(FILE.read_text(encoding="utf-8"))
KNOWN = {
    *(f"{PREFIX}{figure.name}" for figure in FIGURES),
    "container_npu_total_memory",
    "container_npu_used_memory",
    "container_npu_utilization",
}


def values(document: Any, key: str) -> Iterator[Any]:
    """Every value of this key, at any depth."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name == key:
                yield value
            yield from values(value, key)
    elif isinstance(document, list):
        for one in document:
            yield from values(one, key)


# Grafana's own range, which is no duration yet.
EXPRESSIONS = [one.replace("$__rate_interval", "5m") for one in values(DASHBOARD, "expr")]
OF_VARIABLES = [one for one in values(DASHBOARD["templating"], "query") if "(" in one]


def test_prometheus_understands_every_expression(tmp_path):
    rules = [{"record": "it", "expr": one} for one in EXPRESSIONS]
    document = {"groups": [{"name": "dashboard", "rules": rules}]}
    assert len(rules) > len(DASHBOARD["panels"])
    assert (
        complaints_of_promtool("check", "rules", written(tmp_path / "rules.json", document)) == ""
    )


def test_an_expression_that_prometheus_does_not_understand_is_found(tmp_path):
    document = {"groups": [{"name": "it", "rules": [{"record": "it", "expr": "max(a_b"}]}]}
    assert complaints_of_promtool("check", "rules", written(tmp_path / "rules.json", document))


def test_every_figure_is_ours_or_one_of_npu_exporter():
    asked = {name for one in EXPRESSIONS for name in figures_in(one)}
    asked |= {name for one in OF_VARIABLES for name in KNOWN if f"({name}," in one}
    assert len(OF_VARIABLES) == 1
    assert f"{PREFIX}phase" in asked
    assert asked - KNOWN == set()


def test_panels_have_room_side_by_side():
    taken = [
        (x, y)
        for place in values(DASHBOARD, "gridPos")
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
