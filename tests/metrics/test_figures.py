"""The figures as Prometheus reads them, and as docs/metrics.md lists them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ascend_supervisor.metrics.figures import FIGURES, PREFIX, Figure, text_of
from ascend_supervisor.untrusted_text import printable
from tests.metrics.snapshots import full_snapshot, snapshot
from tests.test_docs import between, differences, page, rows

NAMES = {"job_id": "job-7", "pod_name": "pod-0"}
PAGES = ("docs/metrics.md", "docs/metrics.zh.md")

Samples = dict[tuple[str, str], float]


def samples_of(text: bytes) -> Samples:
    """The values by name (without PREFIX) and the value of the label that is its own."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            (own,) = [v for name, v in sample.labels.items() if name not in NAMES] or [""]
            found[sample.name.removeprefix(PREFIX), own] = sample.value
    return found


def test_of_a_job_that_has_not_begun_only_what_is_known_is_told():
    found = samples_of(text_of(snapshot(), NAMES))
    names = {name for name, _ in found}
    assert {"step", "exit_code", "generation", "servers"} & names == set()
    assert found["info", "0.1.0"] == 1
    assert (found["phase", "starting"], found["phase", "running"]) == (1, 0)
    assert found["restarts_total", "crash"] == 0


def test_every_figure_has_the_value_of_its_source():
    found = samples_of(text_of(full_snapshot(), NAMES))
    assert {name for name, _ in found} == {figure.name for figure in FIGURES}
    expected = {
        ("start_time_seconds", ""): 1795316400.5,
        ("generation", ""): 2,
        ("generation_start_time_seconds", ""): 1795316100,
        ("exit_code", ""): 3,
        ("ranks", "running"): 1,
        ("ranks", "ended"): 1,
        ("step", ""): 1200,
        ("steps", ""): 5000,
        ("best_step", ""): 1250,
        ("step_duration_seconds", ""): 2.125,
        ("longest_step_pause_seconds", ""): 9.5,
        ("last_step_timestamp_seconds", ""): 1795316400.25,
        ("checkpoint_step", ""): 1000,
        ("checkpoint_timestamp_seconds", ""): 1795315800,
        ("time_spent_seconds", "training"): 60.5,
        ("restarts_left", ""): 1,
        ("log_bytes_total", "0"): 9,
        ("log_bytes_total", "msrun"): 50,
        ("log_lost_bytes_total", "0"): 0,
        ("log_lost_bytes_total", "1"): 7,
        ("servers", "lost"): 1,
        ("servers", "missing"): 0,
        ("cpu_seconds_total", ""): 1.25,
        ("memory_bytes", ""): 4096,
    }
    assert {key: found.get(key) for key in expected} == expected


def test_promtool_finds_nothing_to_complain_about():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed here (Debian: prometheus)")
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=text_of(full_snapshot(), NAMES),
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


@given(st.text())
def test_no_name_of_a_job_makes_a_line_that_cannot_be_read(name):
    text = text_of(snapshot(), {"job_id": name}).decode()
    families = list(text_string_to_metric_families(text))
    assert {sample.labels["job_id"] for one in families for sample in one.samples} == {
        printable(name)
    }


# The pages ---------------------------------------------------------------------------------------


def told_of(figure: Figure, *, translated: bool) -> list[str]:
    """Its row: a translation has words of its own."""
    return [
        f"{PREFIX}{figure.name}",
        figure.kind,
        figure.label,
        *([] if translated else [figure.meaning]),
    ]


def figure_complaints(text: str, *, translated: bool) -> list[str]:
    found = [row[: 3 if translated else 4] for row in rows(between(text, "figures"))]
    expected = [told_of(figure, translated=translated) for figure in FIGURES]
    return differences(expected, found, "figure")


@pytest.mark.parametrize("name", PAGES)
def test_the_page_lists_the_figures_of_the_program(name):
    assert figure_complaints(page(name), translated=name.endswith(".zh.md")) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("`ascend_supervisor_best_step` | gauge", "`ascend_supervisor_best_step` | counter"),
        ("`ascend_supervisor_ranks` | gauge | `state`", "`ascend_supervisor_ranks` | gauge | "),
        ("| `ascend_supervisor_step` |", "| `ascend_supervisor_stop` |"),
    ],
)
@pytest.mark.parametrize("translated", [True, False])
def test_a_wrong_list_of_figures_is_found(right, wrong, translated):
    broken = page(PAGES[0]).replace(right, wrong, 1)
    assert broken != page(PAGES[0])
    assert figure_complaints(broken, translated=translated)
