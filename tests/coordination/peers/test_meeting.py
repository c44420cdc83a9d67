"""What all servers of a job must have in common, and what may differ between them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from platform import node
from typing import Any

import pytest

from ascend_supervisor.coordination.peers.meeting import PeersMeeting, machine_told, settings_of
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.outcome import Patience
from ascend_supervisor.program.coordination import in_common
from ascend_supervisor.restart_policy import RestartBudget
from tests.job_settings import of_command_line

OPTIONS = ("--peers=http://a:1", "--peers-job=j")


def shared(*words: str, options: tuple[str, ...] = (), **environ: str) -> str:
    read = of_command_line(*OPTIONS, *options, "--", *words)
    return in_common(read, environ)


TRAIN = shared("python3", "train.py", "--lr", "1")


@pytest.mark.parametrize(
    "words",
    [
        ("python3", "eval.py"),
        ("python3", "train.py", "--lr", "2"),
        ("bash", "train.py", "--lr", "1"),
    ],
)
def test_another_command_is_another_job(words):
    assert shared(*words) != TRAIN


def test_the_script_is_named_and_nothing_else_of_the_command_is_told():
    told = shared("python3", "a b/train it.py", "--token", "s3cret")
    assert " command=train_it.py:" in told
    assert "s3cret" not in told
    assert len(told.split()) == len(TRAIN.split())


def test_what_names_this_server_may_differ():
    logs = [
        shared("python3", "train.py", f"--log=/logs/{pod}/x", POD_NAME=pod)
        for pod in ("job-worker-0", "job-worker-1")
    ]
    assert logs[0] == logs[1]
    assert shared("/opt/a/python3", "train.py", "--lr", "1") == TRAIN
    assert shared("python3.10", "train.py", "--lr", "1") == TRAIN
    for option in ("--node_rank", "--node-rank", "--rank", "--host"):
        one, other = (shared("python3", "train.py", option, value) for value in "01")
        assert one == other
        assert shared("python3", "train.py", f"{option}=0") == shared(
            "python3", "train.py", f"{option}=17"
        )
    addresses = [shared("python3", "t.py", "--m", f"tcp://10.0.0.{n}:1") for n in (1, 20)]
    assert addresses[0] == addresses[1]
    names = ("job-worker-1", "job-worker-10")
    one, other = (shared("python3", "t.py", pod, POD_NAME=pod, HOSTNAME=names[0]) for pod in names)
    assert one == other
    assert shared("python3", "train.py", HOSTNAME="train") == shared("python3", "train.py")
    assert node()


def test_of_once_any_command_may_differ_and_of_all_the_port_of_rank_0_may_not():
    once = ("--method=once",)
    assert shared("torchrun", "--node_rank=0", options=once) == shared("a", options=once)
    assert shared("python3", "train.py", options=("--master-port=2222",)) != shared(
        "python3", "train.py"
    )


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"NODE_NAME": "n2", "POD_NAME": "job-1"}, "n2"),
        ({"MA_CURRENT_HOST_IP": "10.0.0.2", "MA_CURRENT_INSTANCE_NAME": "job-1"}, "10.0.0.2"),
        ({"XDL_IP": "10.0.0.3"}, "10.0.0.3"),
        ({"HOST_IP": "10.0.0.4"}, "10.0.0.4"),
        ({"POD_NAME": "job-1"}, ""),
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, ""),
        ({}, node()),
    ],
)
def test_a_machine_is_its_node_and_never_the_pod(environ, expected):
    assert machine_told(environ) == expected


def nowhere() -> AbstractAsyncContextManager[Etcd]:
    raise AssertionError("nobody meets here")


def settings_told(servers: int, **more: Any) -> str:
    fixed = ("job", Path("state"), "restarts=3", RestartBudget(3), Patience(0.0, 1.0))
    meeting = PeersMeeting(nowhere, *fixed, 10.0, 30.0, 60.0, version="1.2", **more)
    return settings_of(meeting, servers)


def test_many_servers_must_have_the_same_version_of_this_program():
    assert settings_told(65) == "restarts=3 ascend-supervisor=1.2"


def test_few_servers_need_not_and_where_a_table_may_bring_more_it_is_not_asked_for():
    assert settings_told(64) == settings_told(65, may_move=True) == "restarts=3"
