"""Whose file of figures it is, before it is written."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from ascend_supervisor.metrics.figures import PREFIX, Snapshot, labels_text, text_of
from ascend_supervisor.metrics.metrics_file import (
    complaint_of_shared_directory,
    complaint_of_sharing,
    npu_exporter_files,
)
from ascend_supervisor.reporters.status_document import StatusPhase
from tests.metrics.snapshots import full_snapshot

OURS = {"job_id": "job-7", "pod_name": "pod-0"}
NOW = 1_795_316_460.0


OTHERS = pytest.mark.parametrize(
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


def snapshot(phase: StatusPhase) -> Snapshot:
    seen = full_snapshot()
    return replace(seen, live=replace(seen.live, status=replace(seen.live.status, phase=phase)))


@OTHERS
def test_another_one_that_still_writes_is_told(tmp_path, names, phase, ago, is_told):
    path = tmp_path / "a.prom"
    path.write_bytes(text_of(snapshot(phase), names))
    os.utime(path, (NOW - ago, NOW - ago))
    told = complaint_of_sharing(path, labels_text(OURS), NOW)
    assert (f"another supervisor ({labels_text(names)})" in told) == is_told
    assert bool(told) == is_told


@OTHERS
def test_another_one_that_still_writes_for_npu_exporter_is_told(
    tmp_path, names, phase, ago, is_told
):
    for name, content in npu_exporter_files(snapshot(phase), names).items():
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, (NOW - ago, NOW - ago))
    told = complaint_of_shared_directory(tmp_path, labels_text(OURS), NOW)
    assert (f"another supervisor ({labels_text(names)})" in told) == is_told
    assert bool(told) == is_told


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"{}", b'{"data_list": 1}', b'{"data_list": [1]}', b"[" * 9999),
        *(b'{"data_list": [{"value": 0, "label": %s}]}' % label for label in (b"1", b"{}")),
        b'{"data_list": [{"value": 0, "label": {"phase": "ended", "job_id": 1}}]}',
    ],
)
def test_what_is_no_file_of_ours_in_the_directory_is_not_told(tmp_path, content):
    path = tmp_path / f"{PREFIX}phase.json"
    path.write_bytes(content)
    os.utime(path, (NOW, NOW))
    assert complaint_of_shared_directory(tmp_path, labels_text(OURS), NOW) == ""


@pytest.mark.parametrize("make", [lambda _: None, os.mkdir, os.mkfifo])
def test_what_is_no_file_of_figures_is_not_told(tmp_path, make):
    make(tmp_path / "a.prom")
    assert complaint_of_sharing(tmp_path / "a.prom", labels_text(OURS), NOW) == ""
    make(tmp_path / f"{PREFIX}phase.json")
    assert complaint_of_shared_directory(tmp_path, labels_text(OURS), NOW) == ""
