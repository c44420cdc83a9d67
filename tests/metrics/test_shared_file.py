"""Whose file of figures it is, before it is written."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from ascend_supervisor.metrics.figures import labels_text, text_of
from ascend_supervisor.metrics.shared_file import complaint_of_sharing
from tests.metrics.snapshots import full_snapshot

OURS = {"job_id": "job-7", "pod_name": "pod-0"}
NOW = 1_795_316_460.0


@pytest.mark.parametrize(
    ("names", "phase", "ago", "is_told"),
    [
        ({"job_id": "job-8", "pod_name": "pod-0"}, "running", 16, True),
        ({"job_id": "job-7", "pod_name": "pod-1"}, "running", 16, True),
        ({"job_id": 'a"b\\c', "pod_name": "pod-0"}, "running", 16, True),
        (OURS, "running", 16, False),
        ({"job_id": "job-8", "pod_name": "pod-0"}, "running", 61, False),
        ({"job_id": "job-8", "pod_name": "pod-0"}, "ended", 16, False),
    ],
)
def test_another_one_that_still_writes_is_told(tmp_path, names, phase, ago, is_told):
    path = tmp_path / "a.prom"
    seen = full_snapshot()
    live = replace(seen.live, status=replace(seen.live.status, phase=phase))
    path.write_bytes(text_of(replace(seen, live=live), names))
    os.utime(path, (NOW - ago, NOW - ago))
    told = complaint_of_sharing(path, labels_text(OURS), NOW)
    assert (f"another supervisor ({labels_text(names)})" in told) == is_told
    assert bool(told) == is_told


@pytest.mark.parametrize("make", [lambda _: None, os.mkdir, os.mkfifo])
def test_what_is_no_file_of_figures_is_not_told(tmp_path, make):
    make(tmp_path / "a.prom")
    assert complaint_of_sharing(tmp_path / "a.prom", labels_text(OURS), NOW) == ""
