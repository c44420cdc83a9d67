"""Rank tables that HCCL accepts although they lack, or add, something."""

from __future__ import annotations

import json

import pytest

from ascend_supervisor.cluster.identity import find_entry, identity_of
from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.platforms import master_address
from ascend_supervisor.cluster.rank_table import Format, NotReady
from tests.rank_tables import (
    A5,
    A5_WITH_SERVERS,
    A5_WITHOUT_STATUS,
    COMMENTED,
    COMPLETED,
    CROSS_CLUSTER,
    FREE_NAMES,
    HOST_NIC,
    INTERLEAVED,
    SUPER_POD,
    SUPER_POD_WITHOUT_COUNT,
    TEMPLATE_1,
    TRAILING_COMMA,
    TWO_ADDRESSES,
    WITHOUT_ADDRESSES,
    WITHOUT_COUNT,
    data,
    document,
    table,
)


def test_pods_whose_names_end_in_no_index_stand_as_listed() -> None:
    first, second = table(FREE_NAMES).entries
    assert (first.pod_name, second.pod_name) == ("lenet-blue", "lenet-amber")
    assert [device.rank for device in second.devices] == [2, 3]
    servers = json.loads(table(FREE_NAMES).document)["server_list"]
    assert [server["server_id"] for server in servers] == ["10.0.9.2", "10.0.9.1"]


def test_one_server_needs_no_addresses_however_many_devices_it_has() -> None:
    (entry,) = table(WITHOUT_ADDRESSES).entries
    assert [device.device_ip for device in entry.devices] == [None] * 4


def test_converted_devices_without_addresses_have_none() -> None:
    lonely = document(FREE_NAMES)
    (group,) = lonely["group_list"]
    group["instance_list"][1]["server_id"] = group["instance_list"][0]["server_id"]
    for index, pod in enumerate(group["instance_list"]):
        pod["devices"] = [{"device_id": str(2 * index)}, {"device_id": 2 * index + 1}]
    group["instance_list"][0]["devices"][0]["device_ip"] = ""
    assert b"device_ip" not in table(lonely).document
    assert table(lonely).world_size == 4


def test_several_servers_may_use_the_nics_of_their_hosts() -> None:
    read = table(HOST_NIC)
    assert (read.world_size, read.servers) == (4, 2)
    assert read.document == data(HOST_NIC)


def test_a_device_may_have_several_addresses() -> None:
    read = table(TWO_ADDRESSES)
    assert read.entries[0].devices[0].device_ip == "192.1.0.1,192.2.0.1"


def test_several_addresses_are_converted_as_they_are() -> None:
    several = document(FREE_NAMES)
    device = several["group_list"][0]["instance_list"][0]["devices"][0]
    device["device_ip"] = "192.1.9.2,2001:db8::1"
    assert b'"192.1.9.2,2001:db8::1"' in table(several).document


@pytest.mark.parametrize(
    ("name", "layout"),
    [(WITHOUT_COUNT, Format.TEMPLATE_1), (SUPER_POD_WITHOUT_COUNT, Format.SUPER_POD)],
)
def test_a_server_count_may_be_left_out(name: str, layout: Format) -> None:
    read = table(name)
    assert read.format is layout
    assert read.servers == len(document(name)["server_list"])


def test_devices_of_one_server_may_share_an_address() -> None:
    shared = document(TEMPLATE_1)
    for device in shared["server_list"][0]["device"]:
        device["device_ip"] = "127.0.0.1"
    assert table(shared).world_size == 8


def test_a_whole_table_of_2_0_is_completed_without_a_status() -> None:
    assert table(A5_WITHOUT_STATUS).world_size == 4
    for key, value in (("rank_count", 5), ("rank_count", None), ("rank_list", [])):
        torn = document(A5_WITHOUT_STATUS) | {key: value}
        assert parse(json.dumps(torn).encode()) == NotReady("no 'status'")


def test_a_status_of_2_0_counts_if_there_is_one() -> None:
    begun = document(A5_WITHOUT_STATUS) | {"status": "initializing"}
    assert parse(json.dumps(begun).encode()) == NotReady("status is 'initializing'", is_said=True)


def test_a_server_list_beside_2_0_gives_names_and_addresses() -> None:
    read = table(A5_WITH_SERVERS)
    assert (read.format, read.document) == (Format.A5, data(A5_WITH_SERVERS))
    assert [entry.server_id for entry in read.entries] == ["node-a", "node-b"]
    assert [device.rank for device in read.entries[1].devices] == [2, 3]
    assert find_entry(read, identity_of({"HOST_IP": "10.0.9.12"}))[0] == 1
    assert find_entry(read, identity_of({"POD_UID": "node-a"}))[0] == 0
    assert master_address(read, {}) == "10.0.9.11"


@pytest.mark.parametrize(
    "spoiled",
    [
        [],
        [{"server_id": "node-a", "host_ip": "10.0.9.11"}],
        [{"device": [{"rank_id": 0}, {"rank_id": 1}]}],
        [{"device": [{"rank_id": 0}, {"rank_id": 1}]}, {"device": [{"rank_id": 1}]}],
        [{"device": [{"rank_id": rank} for rank in (0, 1, 2, 3, 3)]}],
        [{"device": [{"rank_id": rank} for rank in range(5)]}],
        [{"device": [{"rank_id": rank} for rank in range(4)], "host_ip": "\x1b[2J"}],
        "x",
    ],
)
def test_a_server_list_that_does_not_match_2_0_is_not_read(spoiled: object) -> None:
    read = table(document(A5_WITH_SERVERS) | {"server_list": spoiled})
    assert read.entries == table(A5_WITHOUT_STATUS).entries


def test_a_rank_list_beside_another_version_is_not_read() -> None:
    both = document(TEMPLATE_1) | {"rank_list": document(A5)["rank_list"], "rank_count": 4}
    assert table(both).format is Format.TEMPLATE_1


@pytest.mark.parametrize(
    ("variable", "value"), [("HOST_IP", "10.0.2.15"), ("POD_IP", "172.16.2.15")]
)
def test_addresses_of_clusters_identify_a_machine(variable: str, value: str) -> None:
    assert find_entry(table(CROSS_CLUSTER), identity_of({variable: value}))[0] == 1


def test_a_server_ip_is_named_by_option_and_a_pod_ip_is_the_rendezvous_address() -> None:
    read = table(CROSS_CLUSTER)
    assert find_entry(read, identity_of({}, server_id="10.0.1.15"))[0] == 0
    assert master_address(read, {}) == "172.16.1.15"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (COMMENTED, "line 2, column 26: a comment, which JSON does not allow"),
        (
            TRAILING_COMMA,
            "line 9, column 71: a comma after the last element, which JSON does not allow",
        ),
    ],
)
def test_what_a_sample_adds_to_json_is_named_with_its_place(name: str, reason: str) -> None:
    read = parse(data(name))
    assert isinstance(read, NotReady)
    assert read.reason == f"not valid JSON yet: {reason}"


def test_nics_of_hosts_are_warned_of_because_some_hccl_refuses_them() -> None:
    (warning,) = table(HOST_NIC).warnings
    assert warning == (
        "server 'node-0' (and 1 more) has devices without device_ip, so HCCL uses the NIC of "
        "host_ip: Atlas A3 can do this, Atlas A2 refuses the table"
    )


def test_nics_of_hosts_are_no_doubt_in_a_table_of_atlas_a3_or_on_one_server() -> None:
    bare = document(SUPER_POD)
    for server in bare["server_list"]:
        for device in server["device"]:
            del device["device_ip"]
    assert table(bare).warnings == ()
    one = document(HOST_NIC)
    del one["server_list"][1]
    assert table(one | {"server_count": "1"}).warnings == ()


def test_ranks_that_interleave_are_warned_of() -> None:
    (warning,) = table(INTERLEAVED).warnings
    assert warning == (
        "server '10.0.9.13' has 4 ranks between 0 and 7, and other servers have the rest of "
        "these: HCCL does not support ranks that interleave, so number them server by server"
    )


def test_ranks_of_two_pods_interleave_if_a_third_pod_is_between_them() -> None:
    pods = [
        {
            "pod_name": f"p-{at}",
            "server_id": server,
            "devices": [{"device_id": at, "device_ip": ip}],
        }
        for at, (server, ip) in enumerate([("a", "10.0.0.1"), ("b", "10.0.0.2"), ("a", "10.0.0.3")])
    ]
    group = {"instance_count": 3, "device_count": 3, "instance_list": pods}
    between = {"status": "completed", "group_count": 1, "group_list": [group]}
    assert [text[:36] for text in table(between).warnings] == [
        "server 'a' has 2 ranks between 0 and"
    ]
    pods[1]["server_id"] = "a"
    assert table(between).warnings == ()


@pytest.mark.parametrize("name", sorted({*COMPLETED} - {HOST_NIC, INTERLEAVED}))
def test_usual_tables_have_no_warnings(name: str) -> None:
    assert table(name).warnings == ()
