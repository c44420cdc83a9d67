"""What the platform's variables rule out, before anything is started."""

from __future__ import annotations

import pytest

from ascend_supervisor.cluster.from_environment import check_alone, check_pod
from ascend_supervisor.errors import SettingsRefused
from tests.rank_tables import TEMPLATE_1, data
from tests.running import python

SCHEDULER = {
    "MS_ROLE": "MS_SCHED",
    "MS_SCHED_HOST": "10.0.5.9",
    "MS_SCHED_PORT": "2222",
    "MS_SERVER_NUM": "0",
    "MS_WORKER_NUM": "8",
    "MS_LOCAL_WORKER": "4",
    "MS_NODE_RANK": "0",
    "NPU_POD": "false",
}
"""What Ascend Operator gives the Scheduler of a MindSpore job."""


@pytest.mark.parametrize("known", [{}, {"NPU_POD": "false"}, {"NPU_POD": ""}])
def test_a_scheduler_pod_is_refused_by_its_name(known):
    with pytest.raises(SettingsRefused, match=r"^MS_ROLE=MS_SCHED: this pod is the MindSpore"):
        check_pod({"MS_ROLE": "MS_SCHED", **known})


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"MS_ROLE": "MS_WORKER", "NPU_POD": "true"},
        {"MS_ROLE": "MS_SCHED", "NPU_POD": "true"},  # it is in the table, with ranks of its own
    ],
)
def test_a_pod_with_ranks_is_not(environ):
    check_pod(environ)


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_scheduler_pod_beside_a_table_starts_no_ranks_of_another_pod(supervised, tmp_path, check):
    table = tmp_path / "hccl.json"
    table.write_bytes(data(TEMPLATE_1))
    job = supervised(*check, "--rank-table", str(table), *python("pass"), environ=SCHEDULER)
    assert job.end() == 64
    assert job.stderr.count("MS_ROLE=MS_SCHED") == 1
    assert [event["event"] for event in job.events] == ["supervisor.exited"]


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, "WORLD_SIZE=16 with LOCAL_WORLD_SIZE=8"),
        ({"MS_WORKER_NUM": "8", "MS_LOCAL_WORKER": "4"}, "MS_WORKER_NUM=8 with MS_LOCAL_WORKER=4"),
        (
            {"CM_WORKER_SIZE": "2", "CM_LOCAL_WORKER": "1"},
            "CM_WORKER_SIZE=2 with CM_LOCAL_WORKER=1",
        ),
        ({"MA_NUM_HOSTS": "2"}, "MA_NUM_HOSTS=2"),
        ({"VC_WORKER_HOSTS": "a, b"}, "VC_WORKER_HOSTS='a, b'"),
        ({"MA_NUM_HOSTS": "2", "VC_WORKER_HOSTS": "a,b"}, "MA_NUM_HOSTS=2, VC_WORKER_HOSTS='a,b'"),
    ],
)
def test_what_tells_of_several_pods_is_named(environ, named):
    with pytest.raises(SettingsRefused) as refused:
        check_alone(environ)
    assert str(refused.value) == (
        f"--standalone: expected a job of one pod, found {named}: each pod would train alone; "
        "leave --standalone out, or unset these variables if that is what you mean"
    )


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WORLD_SIZE": "16"},  # alone, it means something else with every operator
        {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"},
        {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "0"},
        {"WORLD_SIZE": "two", "LOCAL_WORLD_SIZE": "1"},
        {"MA_NUM_HOSTS": "1", "VC_WORKER_HOSTS": "a,"},
        {"MA_NUM_HOSTS": "", "VC_WORKER_HOSTS": ""},
    ],
)
def test_a_pod_that_may_be_alone_is_not_refused(environ):
    check_alone(environ)


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_pod_of_several_does_not_train_alone(supervised, check):
    environ = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
    job = supervised(*check, "--standalone", "1", *python("pass"), environ=environ)
    assert job.end() == 64
    assert job.stderr.count("WORLD_SIZE=16 with LOCAL_WORLD_SIZE=8") == 1
    assert [event["event"] for event in job.events] == ["supervisor.exited"]
