"""What the platform's variables rule out, before anything is started."""

from __future__ import annotations

import pytest

from ascend_supervisor.cluster.platforms import check_alone
from ascend_supervisor.errors import SettingsRefused


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, "WORLD_SIZE=16 with LOCAL_WORLD_SIZE=8"),
        ({"MS_WORKER_NUM": "8", "MS_LOCAL_WORKER": "4"}, "MS_WORKER_NUM=8 with MS_LOCAL_WORKER=4"),
        (
            {"CM_WORKER_SIZE": "2", "CM_LOCAL_WORKER": "1"},
            "CM_WORKER_SIZE=2 with CM_LOCAL_WORKER=1",
        ),
        ({"MS_ROLE": "MS_SCHED", "NPU_POD": "false"}, "MS_ROLE=MS_SCHED"),
        ({"PET_NNODES": "2"}, "PET_NNODES='2'"),
        ({"PET_NNODES": "1:4"}, "PET_NNODES='1:4'"),
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
        {"PET_NNODES": "1"},
        {"MS_ROLE": "MS_SCHED", "NPU_POD": "true"},
        {"MA_NUM_HOSTS": "1", "VC_WORKER_HOSTS": "a,"},
        {"MA_NUM_HOSTS": "", "VC_WORKER_HOSTS": ""},
    ],
)
def test_a_pod_that_may_be_alone_is_not_refused(environ):
    check_alone(environ)
