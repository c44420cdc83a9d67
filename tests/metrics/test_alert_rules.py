"""The alerts of conf/alert-rules.yml: when each fires, and that they leave other jobs alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ascend_supervisor.metrics.figures import FIGURES, PREFIX
from tests.metrics.promtool import complaints_of_promtool, figures_in, written

pytestmark = pytest.mark.one_python

FILE = Path(__file__).parents[2] / "conf" / "alert-rules.yml"
RULES = [
    rule
    for group in yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
OURS = {f"{PREFIX}{figure.name}" for figure in FIGURES}
OF_NODE_EXPORTER = {
    "node_filesystem_avail_bytes",
    "node_filesystem_readonly",
    "node_filesystem_size_bytes",
}
MINUTES = 120

Series = Mapping[str, str]


def held(value: float, minutes: int = MINUTES) -> str:
    """The same for so many minutes, and the first one."""
    return f"{value}+0x{minutes}"


def rising(by: float, minutes: int = MINUTES) -> str:
    return f"0+{by}x{minutes}"


def then(first: str, *rest: float) -> str:
    """``first`` for an hour, then each value for an equal part of the other one."""
    part = MINUTES // 2 // len(rest)
    return " ".join((first, *(held(value, part - 1) for value in rest)))


STEPS_FOR_AN_HOUR = {
    "last_step_timestamp_seconds": then(rising(60, 60), 3600),
    "step": then(rising(2, 60), 120),
    "best_step": then(rising(2, 60), 120),
}
HEALTHY = {
    "phase|phase=running": held(1),
    "phase|phase=ended": held(0),
    "cpu_seconds_total": rising(0.1),
    "generation_start_time_seconds": held(0),
    "last_step_timestamp_seconds": rising(60),
    "longest_step_pause_seconds": held(30),
    "step": rising(2),
    "steps": held(900),
    "best_step": rising(2),
    "restarts_allowed": held(12),
    "restarts_left": held(12),
    "restarts_total|cause=crash": held(0),
    "restarts_total|cause=requested": held(0),
    "log_lost_bytes_total|rank=3": held(0),
    "servers|phase=lost": held(0),
    "servers|phase=running": held(4),
    "node_filesystem_avail_bytes": held(50),
    "node_filesystem_size_bytes": held(100),
    "node_filesystem_readonly": held(0),
}
FROZEN = STEPS_FOR_AN_HOUR | {"cpu_seconds_total": then(rising(0.1, 60), 6)}

FIRING: Mapping[str, Series] = {
    "AscendJobStandsStill": STEPS_FOR_AN_HOUR,
    "AscendJobDoesNotStart": STEPS_FOR_AN_HOUR
    | {"generation_start_time_seconds": then(held(0, 60), 3660)},
    "AscendJobRestartsNearlyUsed": {
        "restarts_left": then(held(12, 60), 4),
        "restarts_total|cause=crash": then(held(0, 60), 8),
    },
    "AscendJobRestartsWithoutProgress": {
        "best_step": held(50),
        "restarts_total|cause=crash": then(held(0, 60), 1, 2, 3),
    },
    "AscendJobLogLost": {"log_lost_bytes_total|rank=3": then(held(0, 60), 4096)},
    "AscendJobDiskNearlyFull": {"node_filesystem_avail_bytes": then(held(50, 60), 4)},
    "AscendJobServersLost": {"servers|phase=lost": then(held(0, 60), 1)},
    "AscendJobFiguresStale": FROZEN,
}
NO_STEP = dict.fromkeys(
    ("last_step_timestamp_seconds", "longest_step_pause_seconds", "step", "best_step"), ""
)
BEFORE_WHAT_IS_KNOWN: Mapping[str, tuple[str, Series]] = {
    "no first step, and silent": (
        "AscendJobDoesNotStart",
        NO_STEP | {"log_bytes_total|rank=0": held(9), "log_bytes_total|rank=1": held(7)},
    ),
    "one step, and no second one": (
        "AscendJobStandsStill",
        {
            "last_step_timestamp_seconds": held(60),
            "longest_step_pause_seconds": "",
            "step": held(1),
            "best_step": held(1),
        },
    ),
}
QUIET: Mapping[str, Series] = {
    "healthy": {},
    "no step is ever told": NO_STEP,
    "no step is ever told, and one rank writes": NO_STEP
    | {"log_bytes_total|rank=0": rising(100), "log_bytes_total|rank=1": held(7)},
    "its first evaluation, of 9 minutes": {
        "last_step_timestamp_seconds": f"{rising(60, 60)} {held(3600, 8)} 4200+60x50",
    },
    "its second evaluation, of 40 minutes, after one of 15": {
        "last_step_timestamp_seconds": f"{rising(60, 60)} {held(3600, 39)} 6060+60x19",
        "longest_step_pause_seconds": held(900),
    },
    "a restart whose first step takes 29 minutes": {
        "generation_start_time_seconds": then(held(0, 60), 3660),
        "last_step_timestamp_seconds": f"{rising(60, 60)} {held(3600, 28)} 5400+60x30",
        "restarts_total|cause=crash": then(held(0, 60), 1),
        "restarts_left": then(held(12, 60), 11),
    },
    "an hour of work after the last step": STEPS_FOR_AN_HOUR | {"steps": held(120)},
    "restarts that the cluster asked for": {
        "best_step": held(50),
        "restarts_total|cause=requested": then(held(0, 60), 1, 2, 3),
    },
    "few restarts left, after a long time without one": {"restarts_left": held(1)},
    "no restarts allowed": {"restarts_left": held(0), "restarts_allowed": held(0)},
    "a full disk that may not be written": {
        "node_filesystem_avail_bytes": held(0),
        "node_filesystem_readonly": held(1),
    },
    "ended after everything went wrong": FROZEN
    | {
        "phase|phase=running": then(held(1, 60), 0),
        "phase|phase=ended": then(held(0, 60), 1),
        "best_step": held(50),
        "restarts_left": then(held(12, 60), 0),
        "restarts_total|cause=crash": then(held(0, 60), 12),
        "log_lost_bytes_total|rank=3": then(held(0, 60), 4096),
        "servers|phase=lost": then(held(0, 60), 1),
        "node_filesystem_avail_bytes": then(held(50, 60), 0),
    },
}


def series_of(changes: Series) -> list[dict[str, str]]:
    """A healthy job and its server, but for the ``changes``; empty values are no series."""
    found = []
    for key, values in {**HEALTHY, **changes}.items():
        name, _, label = key.partition("|")
        if name.startswith("node_"):
            labels = 'mountpoint="/",fstype="ext4"'
        else:
            own, _, value = label.partition("=")
            name = PREFIX + name
            labels = 'job_id="job-7",pod_name="pod-0"' + (f',{own}="{value}"' if own else "")
        if values:
            found.append({"series": f'{name}{{instance="a:9100",{labels}}}', "values": values})
    return found


def complaints(tmp_path: Path, changes: Series, test: Mapping[str, Any]) -> str:
    """What promtool says of two hours of such a job."""
    tests = [{"interval": "1m", "input_series": series_of(changes), **test}]
    document = {"rule_files": [str(FILE)], "evaluation_interval": "1m", "tests": tests}
    return complaints_of_promtool("test", "rules", written(tmp_path / "test.json", document))


def fired(alerts: Iterable[str]) -> dict[str, Any]:
    """These and no others have fired at any time."""
    ever = f'group by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{MINUTES}m]))'
    found = [{"labels": f'{{alertname="{one}"}}', "value": 1} for one in alerts]
    return {"promql_expr_test": [{"expr": ever, "eval_time": f"{MINUTES}m", "exp_samples": found}]}


def test_promtool_finds_nothing_to_complain_about():
    assert complaints_of_promtool("check", "rules", str(FILE)) == ""


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_fires_when_it_should_and_no_other_one_does(alert, tmp_path):
    assert complaints(tmp_path, FIRING[alert], fired([alert])) == ""


@pytest.mark.parametrize("job", BEFORE_WHAT_IS_KNOWN)
def test_a_job_that_hangs_before_its_pace_is_known_is_told(job, tmp_path):
    alert, series = BEFORE_WHAT_IS_KNOWN[job]
    assert complaints(tmp_path, series, fired([alert])) == ""


@pytest.mark.parametrize("job", QUIET)
def test_none_fires_for_a_job_that_needs_nobody(job, tmp_path):
    assert complaints(tmp_path, QUIET[job], fired([])) == ""


def test_the_alert_for_an_address_that_the_docs_give_fires_unless_the_end_was_seen(tmp_path):
    text = (FILE.parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")
    (rule,) = (one for one in text.split("```") if "alert: AscendJobFiguresGone" in one)
    group = {"name": "a", "rules": yaml.safe_load(rule.removeprefix("yaml"))}
    rules = written(tmp_path / "rules.json", {"groups": [group]})
    series = [
        {"series": f'up{{job="j",instance="{one}"}}', "values": then(held(1, 60), 0)}
        for one in ("killed", "ended")
    ]
    for instance, last in (("killed", 0), ("ended", 1)):
        name = f'{PREFIX}phase{{job="j",instance="{instance}",phase="ended",job_id="{instance}"}}'
        series.append({"series": name, "values": f"{held(0, 59)} {last} stale"})
    ever = 'group by (job_id) (max_over_time(ALERTS{alertstate="firing"}[2h]))'
    fires = [{"labels": '{job_id="killed"}', "value": 1}]
    expected = [{"expr": ever, "eval_time": "2h", "exp_samples": fires}]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": expected}
    document = {"rule_files": [rules], "evaluation_interval": "1m", "tests": [test]}
    assert complaints_of_promtool("test", "rules", written(tmp_path / "test", document)) == ""


def test_an_alert_that_should_not_have_fired_is_found(tmp_path):
    told = complaints(tmp_path, FIRING["AscendJobLogLost"], fired([]))
    assert 'alertname="AscendJobLogLost"' in told


def test_an_alert_says_of_which_job_what_is_wrong_and_what_to_do(tmp_path):
    said = ALERTS["AscendJobStandsStill"]["annotations"]["description"]
    expected = {
        "exp_labels": {
            "instance": "a:9100",
            "job_id": "job-7",
            "pod_name": "pod-0",
            "severity": "critical",
        },
        "exp_annotations": {
            "summary": "job-7 has made no step for 1h 0m 0s",
            "description": said.replace("{{ $labels.pod_name }}", "pod-0"),
        },
    }
    test = {
        "alertname": "AscendJobStandsStill",
        "eval_time": f"{MINUTES}m",
        "exp_alerts": [expected],
    }
    assert complaints(tmp_path, STEPS_FOR_AN_HOUR, {"alert_rule_test": [test]}) == ""


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_a_severity_a_summary_and_one_sentence_of_what_to_do(alert):
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description"}
    said = rule["annotations"]["description"]
    assert (said[-1], said.count(". "), said.count(": ")) == (".", 0, 1)


def test_the_rules_ask_for_figures_that_somebody_writes():
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    asked = {name for rule in RULES for name in figures_in(rule["expr"])}
    assert asked - OURS == recorded | OF_NODE_EXPORTER


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum without (rank) (increase(a_total{b_c="d_e"}[1h])) > 0', {"a_total"}),
        ("a_b * on (pod_name) group_left (job_id) c:d_e", {"a_b", "c:d_e"}),
        ("clamp_min(3 * a_b, 600) unless on (c_d) a_b >= e_f", {"a_b", "e_f"}),
    ],
)
def test_the_names_in_an_expression_are_those_of_its_figures(expression, names):
    assert figures_in(expression) == names
