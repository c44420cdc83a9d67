"""Which entry of a table is this machine, told by names, addresses and ranks."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_supervisor.cluster.ascend_operator import first_rank_told
from ascend_supervisor.cluster.identity import Identity, doubts, find_entry, identity_of
from ascend_supervisor.cluster.model_arts import declared_table
from ascend_supervisor.errors import SettingsRefused, TableRefused
from tests.pods import mindspore_worker, pytorch, tensorflow
from tests.rank_tables import (
    A5,
    LAB,
    ONE_CARD,
    ONE_HOST,
    SUPER_POD,
    TEMPLATE_1,
    TWELVE_PODS,
    document,
    table,
)


def place(name: str, environ: dict[str, str], **explicit: str | int) -> int:
    identity = identity_of(environ, **explicit)  # type: ignore[arg-type]
    node_rank, entry = find_entry(table(name), identity)
    assert table(name).entries[node_rank] == entry
    return node_rank


def refusal(name: str, environ: dict[str, str], **explicit: str | int) -> str:
    with pytest.raises(TableRefused) as caught:
        place(name, environ, **explicit)
    return str(caught.value)


def test_an_identity_keeps_known_variables_in_their_order() -> None:
    environ = {"HOME": "/", "VC_TASK_INDEX": "0", "HOST_IP": "10.0.0.1", "POD_NAME": ""}
    assert identity_of(environ, pod_name="a", server_id="b", node_rank=1) == Identity(
        pod_name="a",
        server_id="b",
        node_rank=1,
        known=(("HOST_IP", "10.0.0.1"), ("VC_TASK_INDEX", "0")),
    )


@pytest.mark.parametrize(
    ("name", "variable", "value", "node_rank"),
    [
        (TWELVE_PODS, "MA_CURRENT_INSTANCE_NAME", "jobd1b2-job-bert-10", 10),
        (TWELVE_PODS, "POD_NAME", "jobd1b2-job-bert-7", 7),
        (TWELVE_PODS, "HOSTNAME", "jobd1b2-job-bert-0", 0),
        (TWELVE_PODS, "MA_CURRENT_HOST_IP", "10.0.3.22", 2),
        (TEMPLATE_1, "XDL_IP", "10.0.5.2", 1),
        (SUPER_POD, "HOST_IP", "10.0.6.2", 1),
        (TEMPLATE_1, "POD_IP", "172.16.0.5", 1),
        (SUPER_POD, "POD_UID", "sp-1", 1),
        (A5, "VC_TASK_INDEX", "1", 1),
        (A5, "MA_TASK_INDEX", "1", 1),
        (LAB, "VK_TASK_INDEX", "1", 1),
        (LAB, "MS_NODE_RANK", "1", 1),
    ],
)
def test_each_variable_knows_a_machine(
    name: str, variable: str, value: str, node_rank: int
) -> None:
    assert place(name, {variable: value}) == node_rank


def test_a_pod_name_counts_for_more_than_an_address_and_that_for_more_than_a_rank() -> None:
    environ = {
        "VC_TASK_INDEX": "3",
        "HOST_IP": "10.0.3.22",
        "HOSTNAME": "jobd1b2-job-bert-1",
    }
    assert place(TWELVE_PODS, environ) == 1
    assert place(TWELVE_PODS, environ | {"HOSTNAME": "elsewhere"}) == 2
    assert place(TWELVE_PODS, {"VC_TASK_INDEX": "3", "HOST_IP": "elsewhere"}) == 3


def test_what_was_told_explicitly_counts_for_more_than_any_variable() -> None:
    environ = {"HOSTNAME": "jobd1b2-job-bert-1"}
    assert place(TWELVE_PODS, environ, pod_name="jobd1b2-job-bert-4") == 4
    assert place(TWELVE_PODS, environ, server_id="10.0.3.25") == 5
    assert place(TWELVE_PODS, environ, node_rank=6) == 6
    assert place(SUPER_POD, {}, server_id="10.0.6.2") == 1


def test_explicit_names_must_match() -> None:
    known = {"HOSTNAME": "jobd1b2-job-bert-1"}
    assert refusal(TWELVE_PODS, known, pod_name="x").startswith(
        "no entry matches --pod-name 'x'; the candidates are node rank 0 (pod"
    )
    assert "--server-id '10.9.9.9'" in refusal(TWELVE_PODS, known, server_id="10.9.9.9")
    assert "--node-rank '12'" in refusal(TWELVE_PODS, known, node_rank=12)
    assert "--node-rank '-1'" in refusal(TWELVE_PODS, known, node_rank=-1)
    assert "--pod-name 'jobd1b2-job-bert-1' and --node-rank '2'" in refusal(
        TWELVE_PODS, {}, pod_name="jobd1b2-job-bert-1", node_rank=2
    )


def test_the_only_entry_is_always_this_machine_unless_an_option_contradicts() -> None:
    assert place(ONE_CARD, {}) == 0
    assert place(ONE_CARD, {"HOSTNAME": "x", "VC_TASK_INDEX": "7"}) == 0
    assert "--pod-name 'x'" in refusal(ONE_CARD, {}, pod_name="x")


def test_an_address_of_two_pods_leaves_the_decision_to_the_next_name() -> None:
    assert place(ONE_HOST, {"HOST_IP": "10.0.3.9", "VC_TASK_INDEX": "1"}) == 1
    assert place(ONE_HOST, {"HOSTNAME": "job77-job-small-1"}, server_id="10.0.3.9") == 1
    assert refusal(ONE_HOST, {"HOST_IP": "10.0.3.9"}) == (
        "cannot tell which entry is this machine, tried HOST_IP '10.0.3.9'; the candidates are "
        "node rank 0 (pod 'job77-job-small-0' server '10.0.3.9'), "
        "node rank 1 (pod 'job77-job-small-1' server '10.0.3.9'); "
        "tell it by --pod-name, --server-id or --node-rank"
    )


def test_a_machine_without_a_name_is_never_taken_for_the_first() -> None:
    assert refusal(A5, {}) == (
        "cannot tell which entry is this machine: none of these variables is set: "
        "MA_CURRENT_INSTANCE_NAME, POD_NAME, HOSTNAME, MA_CURRENT_HOST_IP, XDL_IP, HOST_IP, "
        "POD_IP, POD_UID, VC_TASK_INDEX, MA_TASK_INDEX, VK_TASK_INDEX, MS_NODE_RANK; "
        "the candidates are "
        "node rank 0, node rank 1; tell it by --pod-name, --server-id or --node-rank"
    )
    assert refusal(TEMPLATE_1, {"HOSTNAME": "x", "VC_TASK_INDEX": "2"}).startswith(
        "cannot tell which entry is this machine, tried HOSTNAME 'x', VC_TASK_INDEX '2'; "
    )


DECLARED = declared_table({"MA_NUM_HOSTS": "2", "MA_NUM_GPUS": "2"})


@pytest.mark.parametrize(
    ("environ", "found"),
    [({}, "nothing"), ({"HOSTNAME": "x", "VC_TASK_INDEX": "2"}, "'2'")],
)
def test_where_variables_declare_the_cluster_the_missing_one_is_named(environ, found) -> None:
    assert DECLARED is not None
    with pytest.raises(SettingsRefused) as refused:
        find_entry(DECLARED, identity_of(environ))
    assert str(refused.value) == (
        f"VC_TASK_INDEX: expected this server's number, from 0 to 1, found {found}; set it, or "
        "give --node-rank"
    )


@pytest.mark.parametrize(
    ("environ", "usual"),
    [
        ({"MA_TASK_INDEX": "1", "VC_TASK_INDEX": "0", "VK_TASK_INDEX": "0"}, 0),
        ({"VC_TASK_INDEX": "1", "VK_TASK_INDEX": "0"}, 1),
        ({"VK_TASK_INDEX": "1"}, 1),
    ],
)
def test_under_mpirun_the_index_of_modelarts_comes_first(environ, usual) -> None:
    """As in its run_mpi.sh; elsewhere Volcano's comes first."""
    assert DECLARED is not None
    assert find_entry(DECLARED, identity_of(environ, under_mpirun=True))[0] == 1
    assert find_entry(DECLARED, identity_of(environ))[0] == usual


def test_a_long_list_of_candidates_is_cut() -> None:
    ranks = [{"rank_id": rank, "local_id": 0, "device_id": 0} for rank in range(1000)]
    many = table({"status": "completed", "rank_count": 1000, "rank_list": ranks})
    with pytest.raises(TableRefused, match=r"node rank 19, and 980 more; tell it by"):
        find_entry(many, identity_of({}))


def test_a_table_without_entries_holds_no_machine() -> None:
    nobody = table({"status": "completed", "group_count": "0", "group_list": []})
    with pytest.raises(TableRefused, match="but lists no server; see what wrote it"):
        find_entry(nobody, identity_of({"HOSTNAME": "x"}, node_rank=0))


@pytest.mark.parametrize("variable", ["MA_CURRENT_INSTANCE_NAME", "POD_NAME"])
def test_a_table_of_pods_without_this_one_is_from_another_run(variable: str) -> None:
    said = refusal(TWELVE_PODS, {variable: "jobd1b2-job-bert-99", "VC_TASK_INDEX": "3"})
    assert said.startswith(f"no pod of the table is 'jobd1b2-job-bert-99' ({variable}): ")
    assert "left over from an earlier run" in said


# What is certain of a machine, and contradicts the table.


ON_HOSTS = {"MA_CURRENT_HOST_IP": "10.9.9.9", "XDL_IP": "10.9.9.9"}


def warnings(name: str, environ: dict[str, str], **explicit: str | int) -> tuple[str, ...]:
    return doubts(table(name), identity_of(environ, **explicit))  # type: ignore[arg-type]


@pytest.mark.parametrize("variable", ON_HOSTS)
def test_a_single_entry_of_another_host_is_used_with_a_warning(variable: str) -> None:
    environ = {variable: "10.9.9.9"}
    assert place(ONE_CARD, environ) == 0
    (warning,) = warnings(ONE_CARD, environ)
    assert warning == (
        f"{variable} is '10.9.9.9', but this machine's entry is pod "
        "'jobxxxxxxxx-job-trainjob-0' server '192.168.0.25': the table may be left over from an "
        "earlier run"
    )
    assert warnings(ONE_CARD, {variable: "192.168.0.25"}) == ()


@pytest.mark.parametrize("variable", ["MA_CURRENT_INSTANCE_NAME", "POD_NAME"])
def test_a_single_entry_of_another_pod_is_used_with_a_warning(variable: str) -> None:
    assert len(warnings(ONE_CARD, {variable: "x-0", "XDL_IP": "10.9.9.9"})) == 2
    assert warnings(ONE_CARD, {variable: "jobxxxxxxxx-job-trainjob-0"}) == ()


@pytest.mark.parametrize(
    ("name", "environ", "explicit"),
    [
        (ONE_CARD, {"HOSTNAME": "the-host", "HOST_IP": "10.9.9.9"}, {}),
        (ONE_CARD, {"XDL_IP": "a-name"}, {}),
        (ONE_CARD, {"XDL_IP": "fd00::9"}, {}),
        (ONE_CARD, {"XDL_IP": "10.9.9.9"}, {"node_rank": 0}),
        (A5, {"XDL_IP": "10.9.9.9", "VC_TASK_INDEX": "1"}, {}),
        (TWELVE_PODS, {"XDL_IP": "10.9.9.9"}, {}),
        (TWELVE_PODS, {"POD_NAME": "jobd1b2-job-bert-3", "XDL_IP": "10.0.3.23"}, {}),
    ],
)
def test_what_cannot_be_compared_or_was_said_by_an_option_is_no_contradiction(
    name: str, environ: dict[str, str], explicit: dict[str, int]
) -> None:
    assert warnings(name, environ, **explicit) == ()


def test_a_pod_that_was_moved_is_warned_of_its_old_host() -> None:
    environ = {"POD_NAME": "jobd1b2-job-bert-3", "XDL_IP": "10.9.9.9"}
    assert place(TWELVE_PODS, environ) == 3
    assert "XDL_IP is '10.9.9.9'" in warnings(TWELVE_PODS, environ)[0]


@pytest.mark.parametrize("variable", ON_HOSTS)
@pytest.mark.parametrize("name", [TWELVE_PODS, TEMPLATE_1, SUPER_POD, LAB])
def test_several_entries_of_other_hosts_are_refused_where_only_an_index_tells_ours(
    name: str, variable: str
) -> None:
    said = refusal(name, {variable: "10.9.9.9", "VC_TASK_INDEX": "1"})
    assert said.startswith(f"no server of the table has the address '10.9.9.9' ({variable}): ")
    assert "left over from an earlier run" in said
    assert place(name, {variable: "10.9.9.9", "VC_TASK_INDEX": "1"}, node_rank=1) == 1


def test_what_is_surer_than_an_index_is_asked_before() -> None:
    assert place(SUPER_POD, {"XDL_IP": "10.9.9.9", "POD_UID": "sp-1", "VC_TASK_INDEX": "0"}) == 1
    assert place(A5, {"XDL_IP": "10.9.9.9", "VC_TASK_INDEX": "1"}) == 1


# Two pods on one machine.


def one_node() -> dict[str, Any]:
    """As Ascend Operator writes it for two pods of one node: their server_id is their uid."""
    shared: dict[str, Any] = document(TEMPLATE_1)
    for number, server in enumerate(shared["server_list"]):
        server |= {"server_id": f"uid-{number}", "host_ip": "10.0.5.1"}
        del server["container_ip"]
    return shared


@pytest.mark.parametrize("pod", [pytorch, tensorflow, mindspore_worker])
@pytest.mark.parametrize("node", [0, 1])
def test_of_two_pods_on_a_node_the_first_rank_decides(pod: Any, node: int) -> None:
    environ = {**pod(4, 2, node), "XDL_IP": "10.0.5.1"}
    whoami = identity_of(environ, first_rank=first_rank_told(environ))
    assert find_entry(table(one_node()), whoami)[0] == node


def test_a_first_rank_decides_between_pods_of_one_machine_only() -> None:
    """The Operator may list its pods in another order."""
    environ = pytorch(4, 2, 1)
    with pytest.raises(TableRefused, match="cannot tell which entry"):
        find_entry(table(TEMPLATE_1), identity_of(environ, first_rank=first_rank_told(environ)))
    elsewhere = pytorch(3, 2, 1) | {"XDL_IP": "10.0.5.1"}
    whoami = identity_of(elsewhere, first_rank=first_rank_told(elsewhere))
    with pytest.raises(TableRefused, match="RANK=1 and LOCAL_WORLD_SIZE=3 '3'"):
        find_entry(table(one_node()), whoami)


# A name that was cut.


LONG = "a-job-whose-name-is-almost-as-long-as-kubernetes-allows-it-to-be-worker"


def long_names() -> dict[str, Any]:
    named: dict[str, Any] = document(ONE_HOST)
    for number, pod in enumerate(named["group_list"][0]["instance_list"]):
        pod["pod_name"] = f"{LONG}-{number}"
    return named


def test_a_host_name_that_is_cut_is_told_with_what_to_set() -> None:
    environ = {"HOSTNAME": LONG[:63].rstrip("-.")}
    with pytest.raises(TableRefused) as refused:
        find_entry(table(long_names()), identity_of(environ))
    assert (
        "HOSTNAME holds only the first 63 characters of the pod's name; set POD_NAME to all of it "
        "(metadata.name), or tell it by --pod-name, --server-id or --node-rank"
    ) in str(refused.value)
    assert find_entry(table(long_names()), identity_of({**environ, "POD_NAME": f"{LONG}-1"}))[0]


def test_a_host_name_that_is_another_is_not_taken_for_a_cut_one() -> None:
    for name in (LONG[:40], "x" * 63):
        with pytest.raises(TableRefused) as refused:
            find_entry(table(long_names()), identity_of({"HOSTNAME": name}))
        assert "63" not in str(refused.value)
