"""Method ranktable: the processes of a generation, with exactly the promised environment."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import pytest
from msgspec.structs import replace

from ascend_supervisor.cluster.identity import Identity, find_entry, identity_of
from ascend_supervisor.cluster.made_table import standalone
from ascend_supervisor.cluster.platforms import master_address
from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.rank_environment import master_port, without_address
from ascend_supervisor.launchers.ranktable import RankTableLauncher
from ascend_supervisor.process_spec import ProcessSpec
from tests.rank_tables import (
    A5,
    COMPLETED,
    LAB,
    ONE_CARD,
    ONE_HOST,
    SUPER_POD,
    TEMPLATE_1,
    TWELVE_PODS,
    TWO_GROUPS,
    document,
    table,
)

COMMAND = ("python", "train.py", "--epochs", "3")
PLACE = Place(
    job_id="modelarts-job-7",
    pod="pod-0",
    log_dir=PurePath("/mnt/log"),
    work_dir=PurePath("/mnt/workspace"),
    table_file=PurePath("/mnt/rank_table/jobstart_hccl.json"),
    state_file=PurePath("/mnt/log/state.json"),
    started_in=PurePath("/home/me"),
)


def plan(
    source: str | bytes | dict[str, Any],
    environ: dict[str, str] | None = None,
    *,
    node_rank: int | None = None,
    generation: int = 0,
    restarts: int = 0,
) -> tuple[ProcessSpec, ...]:
    """The plan of the machine that these variables, or the node rank, name."""
    read = table(source)
    environ = environ or {}
    here = Here(*find_entry(read, identity_of(environ, node_rank=node_rank)), PLACE)
    return RankTableLauncher(Boot(COMMAND, environ, restarts, script="train.py")).plan(
        read, here, generation
    )


def variables(specs: tuple[ProcessSpec, ...], name: str) -> list[str | None]:
    return [spec.environ[name] for spec in specs]


def test_one_card_gets_exactly_what_is_promised():
    assert plan(ONE_CARD, generation=2, restarts=3) == (
        ProcessSpec(
            argv=COMMAND,
            cwd=PurePath("/mnt/workspace/device0"),
            log=PurePath("/mnt/log/modelarts-job-7-proc-rank-0-device-0.txt"),
            environ={
                "JOB_ID": "modelarts-job-7",
                "RANK_ID": "0",
                "RANK_SIZE": "1",
                "DEVICE_ID": "0",
                "ASCEND_DEVICE_ID": "0",
                "RANK_TABLE_FILE": "/mnt/rank_table/jobstart_hccl.json",
                "HCCL_CONNECT_TIMEOUT": "1800",
                "ASCEND_PROCESS_LOG_PATH": "/mnt/log/modelarts-job-7/ascend/process_log/rank_0",
                "RANK": "0",
                "LOCAL_RANK": "0",
                "WORLD_SIZE": "1",
                "LOCAL_WORLD_SIZE": "1",
                "GROUP_RANK": "0",
                "NODE_RANK": "0",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "29500",
                "TORCHELASTIC_RESTART_COUNT": "2",
                "TORCHELASTIC_MAX_RESTARTS": "3",
                "TORCHELASTIC_RUN_ID": "modelarts-job-7",
                "TORCHELASTIC_ERROR_FILE": (
                    "/mnt/log/modelarts-job-7/errors/rank_0/generation_2.json"
                ),
                "PYTHONUNBUFFERED": "1",
                "PYTHONFAULTHANDLER": "1",
            },
            rank=0,
            local_rank=0,
            script="train.py",
            significant=True,
            directories=(
                PurePath("/mnt/log/modelarts-job-7/ascend/process_log/rank_0"),
                PurePath("/mnt/log/modelarts-job-7/errors/rank_0"),
            ),
            error_file=PurePath("/mnt/log/modelarts-job-7/errors/rank_0/generation_2.json"),
            port=29500,
        ),
    )


@pytest.mark.parametrize(("pod", "ranks"), [(0, [0, 1]), (1, [2, 3])])
def test_of_two_pods_on_one_host_each_starts_only_its_own_devices(pod, ranks):
    specs = plan(ONE_HOST, {"MA_CURRENT_INSTANCE_NAME": f"job77-job-small-{pod}"})
    assert [spec.rank for spec in specs] == ranks
    assert variables(specs, "RANK_ID") == [str(rank) for rank in ranks]
    assert variables(specs, "DEVICE_ID") == variables(specs, "LOCAL_RANK") == ["0", "1"]
    assert variables(specs, "RANK_SIZE") == ["4", "4"]
    assert variables(specs, "LOCAL_WORLD_SIZE") == ["2", "2"]
    assert variables(specs, "NODE_RANK") == [str(pod)] * 2


@pytest.mark.parametrize("pod", range(12))
def test_pods_that_are_listed_unsorted_have_the_ranks_of_their_index(pod):
    specs = plan(TWELVE_PODS, {"MA_CURRENT_INSTANCE_NAME": f"jobd1b2-job-bert-{pod}"})
    assert [(spec.rank, spec.local_rank) for spec in specs] == [
        (8 * pod + index, index) for index in range(8)
    ]
    assert set(variables(specs, "GROUP_RANK")) == {str(pod)}
    assert set(variables(specs, "RANK_SIZE")) == set(variables(specs, "WORLD_SIZE")) == {"96"}
    assert set(variables(specs, "MASTER_ADDR")) == {"10.0.3.20"}


@pytest.mark.parametrize("name", COMPLETED)
def test_all_machines_together_start_every_rank_once(name):
    read = table(name)
    holders = [node for node, entry in enumerate(read.entries) if entry.devices]
    specs = [spec for node in holders for spec in plan(name, node_rank=node)]
    assert len(specs) == read.world_size
    assert {spec.rank for spec in specs} == set(range(read.world_size))
    for path in ("log", "error_file"):
        assert len({getattr(spec, path) for spec in specs}) == read.world_size


@pytest.mark.parametrize("name", COMPLETED)
def test_on_a_machine_no_two_ranks_share_a_file_or_a_device(name):
    specs = plan(name, node_rank=0)
    assert variables(specs, "DEVICE_ID") == [str(index) for index in range(len(specs))]
    assert [spec.cwd for spec in specs] == [
        PurePath(f"/mnt/workspace/device{index}") for index in range(len(specs))
    ]
    assert len({spec.directories for spec in specs}) == len(specs)


def test_what_the_operator_says_of_the_node_is_overridden_for_every_rank():
    node_level = {
        "RANK": "1",
        "LOCAL_RANK": "{0,1,2,3}",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": "9",
        "NODE_RANK": "9",
        "RANK_ID": "9",
        "RANK_SIZE": "9",
        "DEVICE_ID": "9",
        "ASCEND_DEVICE_ID": "9",
        "RANK_TABLE_FILE": "/user/config",
        "JOB_ID": "other",
    }
    for spec in plan(TEMPLATE_1, node_level, node_rank=1):
        rank, local_rank = str(spec.rank), str(spec.local_rank)
        assert {name: spec.environ[name] for name in node_level} == {
            "RANK": rank,
            "LOCAL_RANK": local_rank,
            "WORLD_SIZE": "8",
            "LOCAL_WORLD_SIZE": "4",
            "GROUP_RANK": "1",
            "NODE_RANK": "1",
            "RANK_ID": rank,
            "RANK_SIZE": "8",
            "DEVICE_ID": local_rank,
            "ASCEND_DEVICE_ID": local_rank,
            "RANK_TABLE_FILE": "/mnt/rank_table/jobstart_hccl.json",
            "JOB_ID": "modelarts-job-7",
        }


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HCCL_CONNECT_TIMEOUT", "120"),
        ("PYTHONUNBUFFERED", "x"),
        ("PYTHONUNBUFFERED", ""),
        ("PYTHONFAULTHANDLER", "0"),
        ("PYTHONFAULTHANDLER", ""),
        ("ASCEND_PROCESS_LOG_PATH", "/plog"),
        ("ASCEND_PROCESS_LOG_PATH", "/plog//all/"),
    ],
)
def test_what_the_user_has_set_stays_as_it_is(variable, value):
    specs = plan(ONE_HOST, {variable: value}, node_rank=0)
    changes = [spec.environ.get(variable, value) for spec in specs]
    assert changes == [value, value]


def test_a_process_log_directory_of_the_users_own_is_made():
    (spec,) = plan(ONE_CARD, {"ASCEND_PROCESS_LOG_PATH": "/plog"})
    assert spec.directories[0] == PurePath("/plog")


def test_what_the_operator_says_of_a_mindspore_pod_reaches_no_rank():
    of_the_pod = {
        "MS_ROLE": "MS_WORKER",
        "MS_SCHED_HOST": "10.0.5.9",
        "MS_SCHED_PORT": "2222",
        "MS_SERVER_NUM": "0",
        "MS_WORKER_NUM": "8",
        "MS_LOCAL_WORKER": "4",
        "MS_NODE_RANK": "1",
    }
    of_the_user = {"MS_ENABLE_GE": "1", "MS_DEV_X": "2", "MS_NODE_TIMEOUT": "3", "MSX": "4"}
    for spec in plan(TEMPLATE_1, {**of_the_pod, **of_the_user}):
        assert {name: spec.environ[name] for name in of_the_pod} == dict.fromkeys(of_the_pod)
        assert not of_the_user.keys() & spec.environ.keys()


PROMISED = {
    *("JOB_ID", "RANK_ID", "RANK_SIZE", "DEVICE_ID", "ASCEND_DEVICE_ID", "RANK_TABLE_FILE"),
    *("HCCL_CONNECT_TIMEOUT", "ASCEND_PROCESS_LOG_PATH", "PYTHONUNBUFFERED"),
    "PYTHONFAULTHANDLER",
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT"),
    *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID"),
    "TORCHELASTIC_ERROR_FILE",
}


@pytest.mark.parametrize("name", COMPLETED)
def test_nothing_else_of_the_environment_changes(name):
    environ = {"PATH": "/bin", "LD_LIBRARY_PATH": "/lib", "PYTHONPATH": "/p", "MINE": "1"}
    for spec in plan(name, environ, node_rank=0):
        assert spec.environ.keys() <= PROMISED


def test_names_in_a_table_never_become_paths():
    named = document(ONE_CARD)
    pod = named["group_list"][0]["instance_list"][0]
    pod["pod_name"], pod["server_id"] = "../../pod/-0", "/etc/server"
    for usual, spec in zip(plan(ONE_CARD), plan(named), strict=True):
        environ = {**spec.environ, "MASTER_ADDR": usual.environ["MASTER_ADDR"]}
        assert replace(spec, environ=environ) == usual


def test_without_any_device_one_process_runs_and_no_table_is_named():
    idle = document(TWO_GROUPS)
    idle["group_count"] = "1"
    idle["group_list"] = [g for g in idle["group_list"] if g["device_count"] == "0"]
    (spec,) = plan(idle, {"RANK_TABLE_FILE": "/user/config"})
    assert (spec.rank, spec.local_rank, spec.argv) == (0, 0, COMMAND)
    assert spec.environ["RANK_TABLE_FILE"] is None
    told = {name: spec.environ[name] for name in ("RANK_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    assert told == {"RANK_SIZE": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}


def test_an_entry_without_devices_is_refused_where_others_have_some():
    read = table(TWO_GROUPS)
    node_rank, entry = find_entry(read, Identity(pod_name="job9-ps-0"))
    with pytest.raises(TableRefused, match=r"the entry of this machine \(job9-ps-0\) has no dev"):
        RankTableLauncher(Boot(COMMAND, {}, 0)).plan(read, Here(node_rank, entry, PLACE), 0)


@pytest.mark.parametrize(
    ("source", "hosts", "address"),
    [
        (TEMPLATE_1, "worker-0.job,worker-1.job", "worker-0.job"),
        (TEMPLATE_1, " worker-0.job , worker-1.job", "worker-0.job"),
        (TEMPLATE_1, "", "172.16.0.4"),
        (TWELVE_PODS, "", "10.0.3.20"),
        (SUPER_POD, "", "10.0.6.1"),
        (LAB, "", "10.155.111.140"),
        (A5, "", None),
        (standalone(2), "", "127.0.0.1"),
        (standalone(2), "worker-0.job", "127.0.0.1"),
        (A5, "worker-0.job", "worker-0.job"),
    ],
)
def test_the_master_is_the_first_worker_else_the_server_of_rank_0(source, hosts, address):
    assert master_address(table(source), {"VC_WORKER_HOSTS": hosts}) == address


@pytest.mark.parametrize(
    ("source", "hosts", "address"),
    [
        (TEMPLATE_1, "worker-0.job", "worker-0.job"),
        (TEMPLATE_1, "", "service.job"),
        (A5, "", "service.job"),
        (standalone(2), "", "127.0.0.1"),
    ],
)
def test_the_platforms_own_master_comes_before_the_table(source, hosts, address):
    environ = {"VC_WORKER_HOSTS": hosts, "MASTER_ADDR": "service.job"}
    assert master_address(table(source), environ) == address


def test_on_several_servers_without_an_address_none_is_made_up():
    for node_rank in range(2):
        specs = plan(A5, {"MASTER_ADDR": ""}, node_rank=node_rank)
        assert set(variables(specs, "MASTER_ADDR")) == {None}
        assert without_address(specs)
    assert not without_address(plan(TEMPLATE_1, node_rank=1))


def rank_0_at(**names: Any) -> RankTable:
    """Template 1 with two servers, that of rank 0 with these names only."""
    source = document(TEMPLATE_1)
    server = source["server_list"][0]
    for name in ("host_ip", "container_ip"):
        server.pop(name)
    server.update(names)
    return table(source)


@pytest.mark.parametrize(
    ("names", "address"),
    [
        ({"server_id": "10.0.0.1"}, "10.0.0.1"),
        ({"server_id": "10.0.0.1", "host_ip": "10.0.0.2"}, "10.0.0.2"),
        ({"host_ip": "10.0.0.2", "container_ip": "10.0.0.3"}, "10.0.0.3"),
        ({"server_id": "uid-7", "pod_ip": "10.0.0.4", "server_ip": "10.0.0.5"}, "10.0.0.4"),
        ({"server_id": "uid-7", "server_ip": "10.0.0.5"}, "10.0.0.5"),
        ({"server_id": "uid-7", "host_ip": "unknown"}, None),
        ({"server_id": "node-7.example"}, None),
        ({"server_id": "127.0.0.1"}, None),
        ({"server_id": "fd00::1"}, "fd00::1"),
        ({"server_id": "uid-7", "pod_ip": "fe80::1%\x00"}, None),
    ],
)
def test_the_address_of_a_server_is_what_one_can_connect_to(names, address):
    assert master_address(rank_0_at(**names), {}) == address


def test_a_server_that_holds_all_ranks_needs_no_address():
    source = document(ONE_CARD)
    source["group_list"][0]["instance_list"][0]["server_id"] = "uid-7"
    assert master_address(table(source), {}) == "127.0.0.1"


@pytest.mark.parametrize(
    ("given", "port"),
    [({}, "29500"), ({"MASTER_PORT": "6000"}, "6000"), ({"MASTER_PORT": "x"}, "29500")],
)
def test_the_port_is_the_platforms_else_torchs(given, port):
    read = table(document(ONE_CARD))
    here = Here(0, read.entries[0], PLACE)
    assert master_port(Boot(COMMAND, given, 0), here) == port
    assert master_port(Boot(COMMAND, given, 0, 7000), here) == "7000"
    (spec,) = plan(ONE_CARD, given)
    assert spec.environ["MASTER_PORT"] == port


@pytest.mark.parametrize("name", COMPLETED)
def test_the_same_arguments_give_the_same_plan(name):
    environ = {"VC_WORKER_HOSTS": "a,b"}
    assert plan(name, environ, node_rank=0) == plan(name, environ, node_rank=0)
    assert environ == {"VC_WORKER_HOSTS": "a,b"}


def test_a_restart_changes_nothing_but_the_count_and_the_error_file():
    changing = {"TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_ERROR_FILE"}
    for before, after in zip(
        plan(TEMPLATE_1, node_rank=0),
        plan(TEMPLATE_1, node_rank=0, generation=1),
        strict=True,
    ):
        assert before.error_file != after.error_file
        environ = {**after.environ, **{name: before.environ[name] for name in changing}}
        assert replace(after, environ=environ, error_file=before.error_file) == before


OF_TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "outer",
    "MASTER_ADDR": "10.0.9.9",
    "MASTER_PORT": "34567",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "ROLE_RANK": "3",
    "ROLE_NAME": "default",
    "ROLE_WORLD_SIZE": "4",
    "GROUP_WORLD_SIZE": "2",
}
"""What a torchrun gives to its workers, of which the supervisor is one."""
NOT_OURS = ("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE")


def test_ranks_that_meet_elsewhere_are_no_clients_of_a_torchrun_above():
    """It holds its port, which is no port for rank 0 then."""
    for environ in (OF_TORCHRUN, {**OF_TORCHRUN, "MASTER_PORT": ""}):
        specs = plan(ONE_CARD, environ)
        for name in (*NOT_OURS, "TORCHELASTIC_USE_AGENT_STORE"):
            assert variables(specs, name) == [None]
        assert variables(specs, "MASTER_ADDR") == ["127.0.0.1"]
        assert (variables(specs, "MASTER_PORT"), specs[0].port) == (["29500"], 29500)


def test_ranks_that_meet_at_the_agent_of_a_torchrun_above_are_its_clients():
    for node_rank in range(2):
        for spec in plan(TEMPLATE_1, OF_TORCHRUN, node_rank=node_rank):
            assert spec.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True"
            assert spec.environ["MASTER_PORT"] == "34567"
            assert spec.port is None  # no rank listens there
            assert {spec.environ[name] for name in NOT_OURS} == {None}


@pytest.mark.parametrize("missing", ["TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"])
def test_a_store_without_a_torchrun_is_nobodys(missing):
    environ = {name: value for name, value in OF_TORCHRUN.items() if name != missing}
    for spec in plan(TEMPLATE_1, environ, node_rank=0):
        assert spec.environ["TORCHELASTIC_USE_AGENT_STORE"] is None
