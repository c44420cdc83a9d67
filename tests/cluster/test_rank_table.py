"""Rank tables: the formats as they are written in the field, and what becomes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ascend_supervisor.cluster.made_table import standalone
from ascend_supervisor.cluster.parsing import MAX_BYTES, parse
from ascend_supervisor.cluster.rank_table import Device, Format, NotReady
from ascend_supervisor.errors import TableRefused
from tests.rank_tables import (
    A5,
    BOM,
    INITIALIZING,
    LAB,
    ONE_CARD,
    ONE_HOST,
    SUPER_POD,
    TEMPLATE_1,
    TWELVE_PODS,
    TWO_GROUPS,
    data,
    document,
    table,
)


@pytest.mark.parametrize(
    ("name", "layout", "world_size", "servers", "entries"),
    [
        (TEMPLATE_1, Format.TEMPLATE_1, 8, 2, 2),
        (TWELVE_PODS, Format.TEMPLATE_2, 96, 12, 12),
        (ONE_CARD, Format.TEMPLATE_2, 1, 1, 1),
        (TWO_GROUPS, Format.TEMPLATE_2, 2, 2, 3),
        (ONE_HOST, Format.TEMPLATE_2, 4, 1, 2),
        (SUPER_POD, Format.SUPER_POD, 4, 2, 2),
        (A5, Format.A5, 4, 2, 2),
        (LAB, Format.LAB, 4, 2, 2),
        (BOM, Format.TEMPLATE_1, 2, 1, 1),
    ],
)
def test_every_format_is_told_by_its_structure(
    name: str, layout: Format, world_size: int, servers: int, entries: int
) -> None:
    read = table(name)
    assert (read.format, read.world_size, read.servers) == (layout, world_size, servers)
    assert len(read.entries) == entries
    assert sorted(d.rank for e in read.entries for d in e.devices) == list(range(world_size))


@pytest.mark.parametrize("name", [TEMPLATE_1, SUPER_POD, A5, BOM])
def test_the_ranks_get_the_very_bytes_of_a_table_hccl_reads_itself(name: str) -> None:
    assert table(name).document == data(name)


@pytest.mark.parametrize("name", [TWELVE_PODS, ONE_CARD, TWO_GROUPS, ONE_HOST, LAB])
def test_the_ranks_get_template_1_in_place_of_a_group_list(name: str) -> None:
    original = table(name)
    converted = table(original.document)
    assert converted.format is Format.TEMPLATE_1
    assert (converted.world_size, converted.servers) == (original.world_size, original.servers)
    assert converted.document == original.document


def test_pods_stand_in_the_order_of_the_integers_their_names_end_in() -> None:
    entries = table(TWELVE_PODS).entries
    assert [entry.pod_name for entry in entries] == [f"jobd1b2-job-bert-{n}" for n in range(12)]
    assert [d.rank for d in entries[10].devices] == list(range(80, 88))


def test_the_device_id_of_a_one_card_job_is_kept() -> None:
    read = table(ONE_CARD)
    assert read.entries[0].devices == (Device(rank=0, device_id=4, device_ip="192.1.10.254"),)
    assert json.loads(read.document) == {
        "status": "completed",
        "version": "1.0",
        "server_count": "1",
        "server_list": [
            {
                "server_id": "192.168.0.25",
                "device": [{"device_id": "4", "device_ip": "192.1.10.254", "rank_id": "0"}],
            }
        ],
    }


def test_pods_of_a_group_without_devices_stand_last_and_are_not_checked() -> None:
    entries = table(TWO_GROUPS).entries
    assert [entry.pod_name for entry in entries] == [
        "job9-worker-0",
        "job9-worker-1",
        "job9-ps-0",
    ]
    assert [len(entry.devices) for entry in entries] == [1, 1, 0]
    for junk in (None, "x", [None, 1, {"pod_name": 5, "server_id": []}]):
        spoiled = document(TWO_GROUPS)
        spoiled["group_list"][0]["instance_list"] = junk
        assert table(spoiled).world_size == 2


def test_two_pods_of_one_host_keep_their_own_devices_but_share_a_converted_server() -> None:
    read = table(ONE_HOST)
    assert [[d.device_id for d in entry.devices] for entry in read.entries] == [[2, 3], [6, 7]]
    servers = json.loads(read.document)["server_list"]
    assert [d["device_id"] for d in servers[0]["device"]] == ["2", "3", "6", "7"]
    assert [d["rank_id"] for d in servers[0]["device"]] == ["0", "1", "2", "3"]
    assert len(servers) == 1


def test_a_lab_table_states_its_own_ranks() -> None:
    first, second = table(LAB).entries
    assert (first.server_id, second.server_id) == ("10.155.111.140", "10.155.111.141")
    assert first.devices == (Device(0, 0, "192.1.27.6"), Device(1, 1, "192.1.27.7"))


def test_template_1_keeps_the_listed_order_of_devices_and_sorts_servers_by_rank() -> None:
    shuffled = document(TEMPLATE_1)
    shuffled["server_list"].reverse()
    shuffled["server_list"][1]["device"].reverse()
    first, second = table(shuffled).entries
    assert [d.rank for d in first.devices] == [3, 2, 1, 0]
    assert (first.container_ip, first.host_ip) == ("172.16.0.4", "10.0.5.1")
    assert second.server_id == "10.0.5.2"


def test_integers_are_taken_for_strings() -> None:
    plain = document(TEMPLATE_1)
    plain["server_count"] = 2
    plain["server_list"][0]["device"][1] |= {"device_id": 1, "rank_id": 1}
    assert table(plain).entries == table(TEMPLATE_1).entries


def test_version_1_2_is_enough_for_a_super_pod() -> None:
    alone = document(SUPER_POD)
    del alone["super_pod_list"]
    assert table(alone).format is Format.SUPER_POD


@pytest.mark.parametrize("address", ["-1", "error: no link", "", None, 5, []])
def test_a_super_pod_may_hold_an_error_in_place_of_an_address(address: object) -> None:
    broken = document(SUPER_POD)
    broken["server_list"][0]["device"][0]["device_ip"] = address
    assert table(broken).world_size == 4


def test_a_server_of_2_0_begins_where_local_id_does_not_rise() -> None:
    ranks = [{"rank_id": r, "local_id": i, "device_id": i} for r, i in enumerate([0, 2, 5, 1, 1])]
    read = table({"status": "completed", "rank_count": 5, "rank_list": ranks[::-1]})
    assert [[d.rank for d in entry.devices] for entry in read.entries] == [[0, 1, 2], [3], [4]]
    assert read.servers == 3


def test_one_device_needs_no_address() -> None:
    lonely = document(ONE_CARD)
    del lonely["group_list"][0]["instance_list"][0]["devices"][0]["device_ip"]
    read = table(lonely)
    assert read.entries[0].devices == (Device(0, 4, None),)
    assert b"device_ip" not in read.document
    assert table(read.document).entries[0].devices == (Device(0, 4, None),)


@pytest.mark.parametrize("address", ["fe80::1", "2001:db8::7", "::ffff:10.0.0.1"])
def test_an_address_may_be_ipv6(address: str) -> None:
    modern = document(TEMPLATE_1)
    modern["server_list"][0]["device"][0]["device_ip"] = address
    assert table(modern).entries[0].devices[0].device_ip == address


@pytest.mark.parametrize(
    "empty",
    [
        {"group_count": "0", "group_list": []},
        {"server_count": "0", "server_list": []},
        {"rank_count": 0, "rank_list": []},
    ],
)
def test_a_table_without_devices_is_legal(empty: dict[str, Any]) -> None:
    read = table({"status": "complete", **empty})
    assert (read.world_size, read.servers, read.entries) == (0, 0, ())
    assert table(read.document).world_size == 0


@pytest.mark.parametrize(
    ("torn", "reason", "is_said"),
    [
        (b"", "the file is empty", False),
        (b" \n\t", "the file is empty", False),
        (b"{}", "no 'status'", False),
        (data(INITIALIZING), "status is 'initializing'", True),
        (b'{"status": null}', "status is null", True),
        (b'{"status": ["completed"]}', "status is a list", True),
    ],
)
def test_a_table_that_is_being_written_is_not_ready(
    torn: bytes, reason: str, is_said: bool
) -> None:
    assert parse(torn) == NotReady(reason, is_said=is_said)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (b'{"status": "failed"}', "status is 'failed'; what writes it says that it has failed"),
        (b'{"status": "COMPLETED"}', "status is 'COMPLETED'; if the table is whole, write "),
        (b'{"status": "done"}', "status is 'done'; if the table is whole, write "),
        (b"[1]", "the top level is a list, not an object; correct the document"),
        (b"{'status': 'completed'}", "double quotes; correct the document, if nobody is writing"),
        (b'{"status": "completed",', "the document ends too early"),
        (data(INITIALIZING), "status is 'initializing'"),
    ],
)
def test_what_waiting_alone_may_never_complete_is_told_with_what_to_do(
    written: bytes, told: str
) -> None:
    read = parse(written)
    assert isinstance(read, NotReady)
    assert told in read.told
    assert ("; " in read.told) == ("; " in told)


@pytest.mark.parametrize("torn", [data(ONE_CARD)[:-5], b"\xff\xfe", b"\x00" * 40, b"[" * 9999])
def test_torn_bytes_are_not_ready(torn: bytes) -> None:
    read = parse(torn)
    assert isinstance(read, NotReady)
    assert read.reason.startswith("not valid JSON yet: ")


def test_every_cut_of_a_table_is_not_ready() -> None:
    whole = data(ONE_CARD).rstrip()
    assert all(isinstance(parse(whole[:end]), NotReady) for end in range(len(whole)))


def test_a_table_larger_than_the_limit_is_refused() -> None:
    with pytest.raises(TableRefused, match=r"expected at most 67108864 bytes, found 67108865"):
        parse(b" " * (MAX_BYTES + 1))


@pytest.mark.parametrize("devices", [1, 2, 16])
def test_a_standalone_table_is_right(devices: int) -> None:
    read = table(standalone(devices))
    assert (read.format, read.world_size, len(read.entries)) == (Format.TEMPLATE_1, devices, 1)
    assert [(d.rank, d.device_id) for d in read.entries[0].devices] == [
        (n, n) for n in range(devices)
    ]


@pytest.mark.parametrize("devices", [-1, 0, 17])
def test_a_standalone_table_holds_what_a_server_holds(devices: int) -> None:
    with pytest.raises(TableRefused, match=f"has 1 to 16 devices, not {devices}"):
        standalone(devices)
