"""Which entry of a table is this machine, told by names, addresses and ranks."""

from __future__ import annotations

import pytest

from ascend_supervisor.cluster.from_environment.model_arts import declared_table
from ascend_supervisor.cluster.identity import Identity, find_entry, identity_of
from ascend_supervisor.errors import SettingsRefused, TableRefused
from tests.rank_tables import (
    A5,
    LAB,
    ONE_CARD,
    ONE_HOST,
    SUPER_POD,
    TEMPLATE_1,
    TWELVE_PODS,
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
