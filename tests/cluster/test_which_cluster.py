"""A rank table, or variables in its place: which of them counts, and that it is said."""

from __future__ import annotations

import pytest

from tests.pods import (
    kubeflow_v1,
    mindspore_scheduler,
    mindspore_worker,
    pytorch,
    tensorflow,
    trainer_v2,
)
from tests.rank_tables import A5, ONE_CARD, TEMPLATE_1, data
from tests.running import python

NAMED = ("RANK_TABLE_FILE", "RANK_TABLE_FILE_V_1_0")
PODS = {
    "PyTorch": (pytorch(1, 1, 0), "operator"),
    "MindSpore": (mindspore_worker(1, 1, 0), "operator"),
    "TensorFlow": (tensorflow(1, 1, 0), "operator"),
    "v1": (kubeflow_v1(1, 1, 0), "kubeflow"),
    "v2": (trainer_v2(1, 1, 0), "kubeflow"),
}
"""A pod of each kind, and where its cluster comes from."""
IN_EACH_POD = pytest.mark.parametrize(("pod", "source"), PODS.values(), ids=PODS)


@pytest.fixture
def mounted(tmp_path):
    """A directory in which a table may appear."""
    place = tmp_path / "config"
    place.mkdir()
    return place


OF_THE_TABLE = {
    "PyTorch": pytorch(4, 2, 1),
    "TensorFlow": tensorflow(4, 2, 1),
    "v1": kubeflow_v1(4, 2, 1),
    "v2": trainer_v2(4, 2, 1),
}
"""The second of two pods, as many as TEMPLATE_1 holds, whose ranks read a table by default."""


@pytest.mark.parametrize("variable", NAMED)
@pytest.mark.parametrize("pod", OF_THE_TABLE.values(), ids=OF_THE_TABLE)
def test_a_table_that_exists_wins_over_variables(check, mounted, pod, variable):
    (mounted / "hccl.json").write_bytes(data(TEMPLATE_1))
    for place in (mounted, mounted / "hccl.json"):
        plan = check.plan({**pod, variable: str(place), "XDL_IP": "10.0.5.2"})
        assert plan.shape == (8, 2)
        assert plan.ranks == [4, 5, 6, 7]
        assert plan.document["cluster"] == "rank_table"
        assert plan.document["rank_table"]["path"] == str(mounted / "hccl.json")


@pytest.mark.parametrize(
    ("pod", "method"),
    [
        (pytorch(4, 2, 1), "torchrun"),
        (mindspore_worker(4, 2, 1), "mindspore"),
        (trainer_v2(4, 2, 1), "torchrun"),
    ],
)
def test_methods_that_read_no_table_take_variables_whether_there_is_a_table_or_not(
    check, mounted, pod, method
):
    """It may come between the starts of two pods, and they must decide alike."""
    environ = {**pod, "RANK_TABLE_FILE": str(mounted)}
    before = check.plan(environ, "--method", method)
    (mounted / "hccl.json").write_bytes(data(TEMPLATE_1))
    after = check.plan({**environ, "XDL_IP": "10.0.5.1"}, "--method", method)
    assert before.ranks == after.ranks
    assert [before.document["processes"], after.document["cluster_hint"]] == [
        after.document["processes"],
        f"to use the rank table, give --rank-table {mounted / 'hccl.json'}",
    ]


@pytest.mark.parametrize(
    ("pod", "found"),
    [
        (pytorch(2, 2, 1), "8 devices, but WORLD_SIZE=4 and LOCAL_WORLD_SIZE=2"),
        (pytorch(8, 1, 0), "4 devices of this machine, but WORLD_SIZE=8 and LOCAL_WORLD_SIZE=8"),
        (tensorflow(4, 1, 0), "8 devices, but CM_WORKER_SIZE=4 and CM_LOCAL_WORKER=4"),
        (trainer_v2(4, 3, 1), "2 entries with devices, but PET_NNODES=3"),
    ],
)
def test_a_table_of_another_run_is_refused(check, mounted, pod, found):
    """Else pods would train alone, or wait for ranks that nobody starts."""
    (mounted / "hccl.json").write_bytes(data(TEMPLATE_1))
    answer = check({**pod, "RANK_TABLE_FILE": str(mounted), "XDL_IP": "10.0.5.2"})
    assert answer.code == 65
    assert (
        f"the table holds {found}: it may be left over from an earlier run; see that the cluster "
        "writes a new one, or unset these variables"
    ) in answer.complaint


@IN_EACH_POD
def test_a_table_that_is_named_by_the_option_wins_over_variables(check, mounted, pod, source):
    assert check(pod, "--rank-table", str(mounted / "hccl.json")).code == 75
    (mounted / "hccl.json").write_bytes(data(ONE_CARD))
    plan = check.plan(pod, "--rank-table", str(mounted))
    assert plan.document["rank_table"]["format"].startswith("template 2")


@pytest.mark.parametrize("pod", [pytorch(1, 1, 0), tensorflow(1, 1, 0), trainer_v2(1, 1, 0)])
def test_standalone_wins_over_variables_of_one_pod(check, pod):
    plan = check.plan(pod, "--standalone", "3")
    assert plan.ranks == [0, 1, 2]
    assert plan.document["cluster"] == "standalone"


@IN_EACH_POD
def test_where_no_table_can_come_variables_count(check, mounted, pod, source):
    plan = check.plan({**pod, "RANK_TABLE_FILE": str(mounted / "nowhere" / "hccl.json")})
    assert plan.shape == (1, 1)
    assert plan.document["cluster"] == source
    for process in plan.processes:
        assert "RANK_TABLE_FILE" not in process.environ


@pytest.mark.parametrize("named", ["", "hccl.json"])
@pytest.mark.parametrize("pod", [pytorch(1, 1, 0), trainer_v2(1, 1, 0)], ids=["PyTorch", "v2"])
def test_where_a_table_may_come_it_is_waited_for_by_ranks_that_read_it(check, mounted, pod, named):
    assert check({**pod, "RANK_TABLE_FILE": str(mounted / named)}).code == 75


@pytest.mark.parametrize("named", ["", "hccl.json"])
@pytest.mark.parametrize(
    ("pod", "options"),
    [
        (pytorch(1, 1, 0), ("--method", "torchrun")),
        (trainer_v2(1, 1, 0), ("--method", "torchrun")),
        (mindspore_worker(1, 1, 0), ()),
    ],
    ids=["PyTorch", "v2", "MindSpore"],
)
def test_where_a_table_may_come_variables_count_for_a_method_that_needs_none(
    check, mounted, pod, options, named
):
    plan = check.plan({**pod, "RANK_TABLE_FILE": str(mounted / named)}, *options)
    assert plan.document["cluster"] in {"operator", "kubeflow"}
    assert f"--rank-table {mounted}" in plan.document["cluster_hint"]


def test_no_table_tells_of_a_scheduler_without_npus(check, mounted):
    pod = mindspore_scheduler(1, 1, npus=False)
    plan = check.plan({**pod, "RANK_TABLE_FILE": str(mounted)})
    assert plan.document["cluster"] == "operator"
    assert plan.document["cluster_hint"] is None


@pytest.mark.parametrize(
    "environ",
    [{}, {"WORLD_SIZE": "2"}, {"WORLD_SIZE": "2", "RANK": "1"}, {"RANK": "1"}],
    ids=["nothing", "WORLD_SIZE", "WORLD_SIZE and RANK", "RANK"],
)
def test_without_variables_that_tell_of_a_cluster_the_table_is_waited_for(check, environ):
    assert check(environ).code == 75


def test_the_variables_of_modelarts_count_for_methods_that_need_no_table(check):
    environ = {"MA_NUM_HOSTS": "2", "MA_NUM_GPUS": "2", "VC_TASK_INDEX": "1", "MASTER_ADDR": "a"}
    assert check(environ).code == 75
    plan = check.plan(environ, "--method", "torchrun")
    assert plan.shape == (4, 2)
    assert plan.document["cluster"] == "modelarts"


def test_the_variables_of_an_operator_win_over_those_of_modelarts(check):
    more = {"MA_NUM_HOSTS": "4", "MA_NUM_GPUS": "8", "VC_TASK_INDEX": "3"}
    plan = check.plan({**more, **pytorch(2, 2, 1)}, "--method", "torchrun")
    assert plan.shape == (4, 2)
    assert plan.node_rank == 1


@IN_EACH_POD
def test_the_first_event_says_where_the_cluster_comes_from(supervised, pod, source):
    job = supervised(*python("pass"), environ=pod)
    started = job.wait_for("supervisor.started")
    assert started["cluster"] == source
    assert {"operator": "Ascend Operator", "kubeflow": "Kubeflow"}[source] in started["msg"]


def test_the_first_event_says_how_to_choose_the_other_source(supervised, mounted):
    environ = {**pytorch(1, 1, 0), "RANK_TABLE_FILE": str(mounted)}
    waiting = supervised(*python("pass"), environ=environ).wait_for("supervisor.started")
    assert waiting["cluster"] == "rank_table"
    assert waiting["cluster_hint"] in waiting["msg"]
    assert "RANK_TABLE_FILE" in waiting["cluster_hint"]


def test_a_table_without_names_takes_the_number_of_the_pod(check, mounted):
    (mounted / "hccl.json").write_bytes(data(A5))
    pod = {**pytorch(2, 2, 1), "RANK_TABLE_FILE": str(mounted)}
    assert check.plan(pod).ranks == [2, 3]


@pytest.mark.parametrize("option", ["--pod-name", "--server-id"])
@pytest.mark.parametrize("method", ["ranktable", "once"])
def test_names_are_not_needed_where_variables_give_the_number(check, option, method):
    """A template may set them for all jobs."""
    plan = check.plan(pytorch(4, 2, 1), option, "job-worker-0", "--method", method)
    assert plan.node_rank == 1


def test_a_command_that_runs_once_runs_in_the_pod_of_a_scheduler_too(check, mounted):
    (mounted / "hccl.json").write_bytes(data(TEMPLATE_1))
    options = ("--method", "once", "--rank-table", str(mounted))
    plan = check.plan(mindspore_scheduler(4, 2, npus=False), *options)
    assert plan.document["cluster"] == "none"


def test_hosts_that_are_named_but_not_counted_do_not_train_alone(check):
    pod = {"MA_NUM_GPUS": "2", "VC_WORKER_HOSTS": "a.job,b.job", "VC_TASK_INDEX": "1"}
    plan = check.plan(pod, "--method", "torchrun")
    assert (plan.shape, plan.node_rank) == ((4, 2), 1)


def test_a_single_entry_that_contradicts_this_machine_is_used_with_warnings(check, mounted):
    (mounted / "hccl.json").write_bytes(data(ONE_CARD))
    environ = {"XDL_IP": "10.9.9.9", "MA_NUM_HOSTS": "2", "VC_WORKER_HOSTS": "a,b"}
    plan = check.plan({**environ, "RANK_TABLE_FILE": str(mounted)})
    address, hosts, names = plan.document["rank_table"]["warnings"]
    assert "XDL_IP is '10.9.9.9'" in address
    assert hosts == (
        "the table has a single entry, but MA_NUM_HOSTS=2: each of these servers would train alone"
    )
    assert "VC_WORKER_HOSTS='a,b'" in names


def test_ranks_of_one_server_meet_there_whatever_the_platform_calls_it(check, mounted):
    """The host's address may lead nowhere from a container with a network of its own."""
    (mounted / "hccl.json").write_bytes(data(ONE_CARD))
    named = {"VC_WORKER_HOSTS": "a.job", "MASTER_ADDR": "10.9.9.9"}
    for environ in ({}, named):
        plan = check.plan({**environ, "RANK_TABLE_FILE": str(mounted)})
        assert plan.processes[0].environ["MASTER_ADDR"] == "127.0.0.1"


@pytest.mark.parametrize("method", ["torch-ddp", "mindspore", "msrun", "torchrun"])
def test_every_method_lets_ranks_of_one_server_meet_there(check, mounted, method):
    (mounted / "hccl.json").write_bytes(data(ONE_CARD))
    named = {"VC_WORKER_HOSTS": "a.job", "MASTER_ADDR": "10.9.9.9"}
    plan = check.plan(named, "--rank-table", str(mounted), "--method", method)
    said = " ".join([*plan.processes[0].argv, plan.processes[0].environ.get("MS_SCHED_HOST", "")])
    assert "10.9.9.9" not in said
    assert "a.job" not in said


def test_a_job_that_waits_for_a_table_warns_when_it_is_ready(supervised, mounted):
    (mounted / "hccl.json").write_bytes(data(ONE_CARD))
    environ = {"XDL_IP": "10.9.9.9"}
    job = supervised("--rank-table", str(mounted), *python("pass"), environ=environ)
    ready = job.wait_for("rank_table.ready")
    assert ready["level"] == "warning"
    assert "XDL_IP is '10.9.9.9'" in ready["msg"]
