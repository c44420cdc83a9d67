"""Where files go: the platform's variables, their defaults, and names that would lead astray."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.files.regular_file import write_atomically
from ascend_supervisor.job_files import (
    NAME_BYTES,
    Place,
    StartCount,
    mounted_log_dir,
    place_of,
    start_count,
)
from ascend_supervisor.launchers.common_parts import log_path

MOUNT = "/home/ma-user/modelarts"
MODELARTS = {
    "MA_MOUNT_PATH": MOUNT,
    "MA_VJ_NAME": "ma-job-7-ma-job",
    "MA_CURRENT_INSTANCE_NAME": "job7-worker-0",
}
HERE = PurePath("/start")


def place(environ: dict[str, str], *, mounted: bool = True, **directories: Any) -> Place:
    return place_of(environ, "host-1", mounted_log_exists=mounted, here=HERE, **directories)


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsRefused) as refused:
        place(environ)
    (fault,) = refused.value.faults
    return fault


def test_on_modelarts_everything_is_below_the_mount():
    assert place(MODELARTS) == Place(
        job_id="modelarts-job-7-ma-job",
        pod="job7-worker-0",
        log_dir=PurePath(MOUNT, "log"),
        work_dir=PurePath(MOUNT, "workspace"),
        table_file=PurePath(MOUNT, "rank_table/jobstart_hccl.json"),
        state_file=PurePath(MOUNT, "log/modelarts-job-7-ma-job-supervisor-job7-worker-0.json"),
        started_in=HERE,
    )


@pytest.mark.parametrize(
    ("schedule", "process", "count", "label"),
    [
        ("1", "2", StartCount(1, 2), "s1-p2"),
        ("", "2", StartCount(None, 2), "p2"),
        ("3", "", StartCount(3, None), "s3"),
        ("", "", StartCount(), ""),
        ("one", "-1", StartCount(), ""),
        (" 4 ", "0", StartCount(4, 0), "s4-p0"),
        ("1" * 10, "../1", StartCount(), ""),
        ("\u0661", "1.0", StartCount(), ""),
    ],
)
def test_which_start_this_is_by_the_counts_of_the_platform(schedule, process, count, label):
    environ = {"MA_SCHEDULE_CNT": schedule, "MA_PROC_START_CNT": process}
    assert start_count(environ) == place({**MODELARTS, **environ}).start == count
    assert count.label == label


def test_without_a_platform_there_are_defaults():
    assert place({}) == Place(
        job_id="job",
        pod="host-1",
        log_dir=PurePath("/tmp/log"),
        work_dir=PurePath("/cache"),
        table_file=PurePath("/tmp/log/job/rank_table/jobstart_hccl.json"),
        state_file=PurePath("/tmp/log/job-supervisor-host-1.json"),
        started_in=HERE,
    )


def test_where_the_usual_work_directory_cannot_be_made_each_pod_has_its_own_beside_the_logs():
    work = PurePath("/tmp/log/job/workspace/host-1")
    assert place({}, cache=None).work_dir == work
    assert place({}, cache=None, work_dir=PurePath("/work")).work_dir == PurePath("/work")
    assert place(MODELARTS, cache=None).work_dir == place(MODELARTS).work_dir


def test_a_mount_without_a_log_directory_does_not_take_the_logs():
    found = place(MODELARTS, mounted=False)
    assert (found.log_dir, found.work_dir) == (PurePath("/tmp/log"), PurePath(MOUNT, "workspace"))
    assert found.state_file.parent == PurePath("/tmp/log")
    assert found.table_file == PurePath(MOUNT, "rank_table/jobstart_hccl.json")


@pytest.mark.parametrize(
    ("environ", "directory"),
    [({}, None), ({"MA_MOUNT_PATH": ""}, None), (MODELARTS, f"{MOUNT}/log")],
)
def test_only_a_mount_has_a_log_directory_to_look_for(environ, directory):
    assert mounted_log_dir(environ) == directory


@pytest.mark.parametrize(
    ("environ", "job_id"),
    [
        ({"MA_VJ_NAME": "ma-job-1"}, "modelarts-job-1"),
        ({"MA_VJ_NAME": "ma-job-ma-job-1"}, "modelarts-job-ma-job-1"),
        ({"MA_VJ_NAME": "my-ma-job-1"}, "my-modelarts-job-1"),
        ({"MA_VJ_NAME": "train"}, "train"),
        ({"MA_VJ_NAME": "ma-job-1", "JOB_ID": "other"}, "modelarts-job-1"),
        ({"JOB_ID": "ma-job-1"}, "ma-job-1"),
        ({"MA_VJ_NAME": "", "JOB_ID": ""}, "job"),
        ({"MA_VJ_NAME": "训练-1"}, "训练-1"),
    ],
)
def test_the_job_id_is_the_jobs_name_with_its_first_ma_job_replaced(environ, job_id):
    assert place(environ).job_id == job_id


@pytest.mark.parametrize(
    ("environ", "pod"),
    [
        ({"MA_CURRENT_INSTANCE_NAME": "a", "POD_NAME": "b", "HOSTNAME": "c"}, "a"),
        ({"MA_CURRENT_INSTANCE_NAME": "", "POD_NAME": "b", "HOSTNAME": "c"}, "b"),
        ({"HOSTNAME": "c"}, "c"),
        ({}, "host-1"),
    ],
)
def test_the_pod_has_the_most_trustworthy_name(environ, pod):
    assert place(environ).pod == pod


def test_explicit_directories_come_before_the_platforms():
    found = place(
        MODELARTS,
        log_dir=PurePath("/logs"),
        work_dir=PurePath("/work"),
        state_file=PurePath("/run/state.json"),
    )
    assert (found.log_dir, found.work_dir) == (PurePath("/logs"), PurePath("/work"))
    assert found.state_file == PurePath("/run/state.json")


def test_an_explicit_log_directory_takes_the_state_file_along():
    name = "modelarts-job-7-ma-job-supervisor-job7-worker-0.json"
    assert place(MODELARTS, log_dir=PurePath("/logs")).state_file == PurePath("/logs", name)


def test_what_is_relative_starts_where_we_were_started():
    found = place(
        {"MA_MOUNT_PATH": "mount"},
        log_dir=PurePath("logs"),
        work_dir=PurePath("work"),
        state_file=PurePath("state.json"),
    )
    assert found == Place(
        job_id="job",
        pod="host-1",
        log_dir=HERE / "logs",
        work_dir=HERE / "work",
        table_file=HERE / "mount/rank_table/jobstart_hccl.json",
        state_file=HERE / "state.json",
        started_in=HERE,
    )
    usual = place({"MA_MOUNT_PATH": "mount"})
    assert (usual.log_dir, usual.work_dir) == (HERE / "mount/log", HERE / "mount/workspace")


VARIABLES = ("MA_VJ_NAME", "JOB_ID", "MA_CURRENT_INSTANCE_NAME", "POD_NAME", "HOSTNAME")
ASTRAY = (
    "../x",
    "a/../../b",
    "/etc/passwd",
    "a/b",
    "/",
    ".",
    "..",
    "a\0b",
    "a\nb",
    "\x1b[2J",
    "\udcff",
)


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_name_that_leads_out_of_the_directory_is_refused(variable):
    expected = f"{variable}: expected a name that can be part of a file's name, found"
    for name in ASTRAY:
        fault = refusal({variable: name})
        assert fault.startswith(expected), name
        assert fault.isprintable(), name


@pytest.mark.parametrize(
    "name", ["x" * (NAME_BYTES + 1), "训" * (NAME_BYTES // 3 + 1), "x" * 99_999]
)
@pytest.mark.parametrize("variable", VARIABLES)
def test_a_name_that_is_too_long_is_refused(variable, name):
    fault = refusal({variable: name})
    found = f"found {len(name)} characters"
    assert fault.startswith(f"{variable}: expected at most {NAME_BYTES} bytes, {found}")
    assert len(fault) < 200


def test_the_hosts_own_name_is_no_safer_than_a_variable():
    with pytest.raises(SettingsRefused, match=r"the host's name: expected a name"):
        place_of({}, "../x", mounted_log_exists=False, here=HERE)


@pytest.mark.parametrize("letter", ["x", "训"])
def test_the_longest_names_still_make_files(tmp_path, letter):
    longest = letter * (NAME_BYTES // len(letter.encode()))
    found = place({"MA_VJ_NAME": longest, "POD_NAME": longest}, log_dir=tmp_path)
    Path(f"{log_path(found, 99_999, 15)}.99999").touch()
    write_atomically(Path(found.state_file), b"{}", 0o600)
    assert Path(found.state_file).read_bytes() == b"{}"


@given(job=st.text(), pod=st.text(), hostname=st.text(min_size=1))
def test_every_file_is_in_the_log_directory_or_the_name_is_refused(job, pod, hostname):
    environ = {"MA_VJ_NAME": job, "POD_NAME": pod}
    try:
        found = place_of(environ, hostname, mounted_log_exists=False, here=HERE)
    except SettingsRefused:
        return
    assert found.state_file.parent == log_path(found, 0, 0).parent == PurePath("/tmp/log")
    assert PurePath(found.job_id).parts == (found.job_id,)
    assert PurePath(found.pod).parts == (found.pod,)


@pytest.mark.parametrize(
    ("known", "job_id"),
    [
        ({"MINDX_TASK_ID": "uid"}, "uid"),
        ({"MINDX_TASK_ID": "uid", "JOB_ID": "mine"}, "mine"),
        ({"MINDX_TASK_ID": "uid", "MA_VJ_NAME": "ma-job-1"}, "modelarts-job-1"),
        ({"MINDX_TASK_ID": ""}, "job"),
    ],
)
def test_the_uid_of_an_ascend_job_names_it_where_nothing_better_does(known, job_id):
    place = place_of(known, "host", mounted_log_exists=False, here=PurePath("/"))
    assert place.job_id == job_id
