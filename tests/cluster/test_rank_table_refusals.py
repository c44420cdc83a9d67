"""Tables that claim completion but are wrong: each is refused by path, expectation and finding."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.errors import BAD_TABLE, TableRefused
from tests.rank_tables import (
    A5,
    EMPTY_SUPER_DEVICE_ID,
    FOR_INFERENCE,
    LAB,
    ONE_CARD,
    ONE_HOST,
    SHARED_ADDRESS,
    SUPER_POD,
    TEMPLATE_1,
    TWO_ADDRESSES,
    refusal,
)

Spoil = Callable[[Any], object]


def setting(leaf: str, value: object) -> Spoil:
    """Sets one leaf, named by keys and positions: ``group_list 0 device_count``."""

    def spoil(top: Any) -> None:
        *way, last = [int(step) if step.isdigit() else step for step in leaf.split()]
        for step in way:
            top = top[step]
        top[last] = value

    return spoil


def deleting(leaf: str) -> Spoil:
    def spoil(top: Any) -> None:
        *way, last = [int(step) if step.isdigit() else step for step in leaf.split()]
        for step in way:
            top = top[step]
        del top[last]

    return spoil


DEVICE = "server_list 0 device 1"
POD = "group_list 0 instance_list 1"
LAB_POD = "group_list 0 instance_list 3"


@pytest.mark.parametrize(
    ("name", "spoil", "sentence"),
    [
        (
            TEMPLATE_1,
            deleting("server_list"),
            "$: expected 'group_list', 'server_list' or 'rank_list', found none of them",
        ),
        (
            ONE_CARD,
            deleting("group_list 0 instance_list 0 pod_name"),
            "$.group_list[0].instance_list[0]: expected 'pod_name' (template 2) or 'rank_id' (lab ",
        ),
        (TEMPLATE_1, setting("server_list", 1), "$.server_list: expected a list, found 1"),
        (
            TEMPLATE_1,
            setting("server_list 1", "x"),
            "$.server_list[1]: expected an object, found 'x'",
        ),
        (SUPER_POD, setting("super_pod_list", {}), "$.super_pod_list: expected a list, found an"),
    ],
)
def test_a_table_of_no_known_shape_is_refused(name: str, spoil: Spoil, sentence: str) -> None:
    assert refusal(name, spoil).startswith(sentence)


@pytest.mark.parametrize(
    ("name", "leaf", "found"),
    [
        (TEMPLATE_1, "server_count", 2),
        (SUPER_POD, "server_count", 2),
        (ONE_HOST, "group_count", 1),
        (ONE_HOST, "group_list 0 instance_count", 2),
        (ONE_HOST, "group_list 0 device_count", 4),
        (A5, "rank_count", 4),
        (LAB, "group_count", 1),
        (LAB, "group_list 0 instance_count", 4),
        (LAB, "group_list 0 device_num", 4),
        (LAB, "group_list 0 device_count", 4),
    ],
)
def test_a_count_that_disagrees_is_refused_with_both_numbers(
    name: str, leaf: str, found: int
) -> None:
    path = "$." + leaf.replace(" 0 ", "[0].")
    assert refusal(name, setting(leaf, "9")) == f"{path}: states 9, but the table lists {found}"
    assert refusal(name, setting(leaf, "eight")) == (
        f"{path}: expected an integer, at least 0, found 'eight'"
    )
    if name != LAB and "server_count" not in leaf:
        key = leaf.rsplit(maxsplit=1)[-1]
        assert refusal(name, deleting(leaf)).endswith(f": missing '{key}'")


@pytest.mark.parametrize(
    ("name", "spoil", "sentence"),
    [
        (
            TEMPLATE_1,
            setting(f"{DEVICE} rank_id", "7"),
            "$.server_list[1].device[3]: rank_id 7 is taken already by $.server_list[0].device[1]",
        ),
        (
            TEMPLATE_1,
            setting(f"{DEVICE} rank_id", "8"),
            "$: rank_id 1 is missing, expected 0 to 7 for 8 devices, found 8 at $.server_list[0]",
        ),
        (
            TEMPLATE_1,
            deleting(f"{DEVICE} rank_id"),
            "$.server_list[0].device[1]: missing 'rank_id'",
        ),
        (
            A5,
            setting("rank_list 1 rank_id", 3),
            "$.rank_list[3]: rank_id 3 is taken already by $.rank_list[1]",
        ),
        (
            A5,
            setting("rank_list 1 rank_id", 9),
            "$: rank_id 1 is missing, expected 0 to 3 for 4 devices, found 9 at $.rank_list[1]",
        ),
        (
            LAB,
            setting(f"{LAB_POD} rank_id", "2"),
            "$.group_list[0].instance_list[3].devices[0]: rank_id 2 is taken already by $.",
        ),
        (
            LAB,
            deleting(f"{LAB_POD} rank_id"),
            "$.group_list[0].instance_list[3]: missing 'rank_id'",
        ),
    ],
)
def test_ranks_run_from_0_without_a_gap(name: str, spoil: Spoil, sentence: str) -> None:
    assert refusal(name, spoil).startswith(sentence)


@pytest.mark.parametrize("value", ["16", -1, "x", None, 4.5, True])
@pytest.mark.parametrize("name", [TEMPLATE_1, SUPER_POD])
def test_a_device_id_is_an_integer_from_0_to_15(name: str, value: object) -> None:
    assert refusal(name, setting(f"{DEVICE} device_id", value)).startswith(
        "$.server_list[0].device[1].device_id: expected an integer from 0 to 15, found "
    )


def test_a_device_stands_once_on_its_server() -> None:
    assert refusal(TEMPLATE_1, setting(f"{DEVICE} device_id", "3")) == (
        "$.server_list[0].device[3]: on server '10.0.5.1', device_id 3 is taken already by "
        "$.server_list[0].device[1]"
    )


def test_two_pods_of_one_host_do_not_share_a_device() -> None:
    assert refusal(ONE_HOST, setting(f"{POD} devices 0 device_id", "6")) == (
        "$.group_list[0].instance_list[0].devices[0]: on server '10.0.3.9', device_id 6 is taken "
        "already by $.group_list[0].instance_list[1].devices[0]"
    )


@pytest.mark.parametrize(
    "address",
    [
        "-1",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.01",
        "10.0.0.1\n",
        "::g",
        5,
        "x" * 10**6,
        "1.2.3.4,",
        ",1.2.3.4",
        "1.2.3.4, 1.2.3.5",
    ],
)
def test_an_address_is_checked(address: object) -> None:
    path = "$.server_list[0].device[1].device_ip"
    sentence = refusal(TEMPLATE_1, setting(f"{DEVICE} device_ip", address))
    assert sentence.startswith(f"{path}: expected an IPv4 or IPv6 address, found ")
    assert len(sentence) < 200


@pytest.mark.parametrize("spoil", [deleting("device_ip"), setting("device_ip", "")])
def test_several_servers_need_addresses(spoil: Spoil) -> None:
    def without_host(top: Any) -> None:
        del top["server_list"][0]["host_ip"]
        spoil(top["server_list"][0]["device"][1])

    assert refusal(TEMPLATE_1, without_host) == "$.server_list[0].device[1]: missing 'device_ip'"
    assert refusal(LAB, deleting(f"{LAB_POD} devices 0 device_ip")) == (
        "$.group_list[0].instance_list[3].devices[0]: missing 'device_ip'"
    )


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        (SHARED_ADDRESS, lambda _: None),
        (SUPER_POD, setting("server_list 1 device 0 device_ip", "10.1.0.2")),
        (TWO_ADDRESSES, setting("server_list 1 device 0 device_ip", "192.1.1.1,192.2.0.2")),
    ],
)
def test_two_servers_do_not_share_an_address(name: str, spoil: Spoil) -> None:
    assert re.fullmatch(
        r"\$\.server_list\[1\]\.device\[0\]: device_ip \S+ is taken already by "
        r"\$\.server_list\[0\]\.device\[1\], on another server",
        refusal(name, spoil),
    )


def test_a_super_device_id_is_not_empty() -> None:
    assert refusal(EMPTY_SUPER_DEVICE_ID, lambda _: None) == (
        "$.server_list[0].device[1].super_device_id: expected the number of a device in its super "
        "pod, found ''"
    )


@pytest.mark.parametrize("spoil", [lambda _: None, deleting("status")])
def test_a_table_for_inference_is_refused_by_name(spoil: Spoil) -> None:
    assert refusal(FOR_INFERENCE, spoil) == (
        "$: expected a table for training, found 'server_group_list', a table of MindIE for "
        "inference; name another file with --rank-table"
    )


@pytest.mark.parametrize("name", [TEMPLATE_1, SUPER_POD])
def test_a_server_id_stands_once(name: str) -> None:
    def spoil(top: Any) -> None:
        top["server_list"][1]["server_id"] = top["server_list"][0]["server_id"]

    assert refusal(name, spoil).startswith("$.server_list[1]: server_id ")
    assert refusal(name, spoil).endswith(" is taken already by $.server_list[0]")


@pytest.mark.parametrize("server_id", ["", "x" * 65])
@pytest.mark.parametrize(("name", "place"), [(TEMPLATE_1, "server_list 1"), (LAB, LAB_POD)])
def test_a_server_id_has_1_to_64_characters(name: str, place: str, server_id: str) -> None:
    sentence = refusal(name, setting(f"{place} server_id", server_id))
    assert ".server_id: expected 1 to 64 characters, found '" in sentence


@pytest.mark.parametrize("pod_name", ["nodash", "15", "job-", "job-x", "job-1x", "job-٣"])
def test_if_one_pod_name_of_a_group_ends_in_an_index_all_do(pod_name: str) -> None:
    assert refusal(ONE_HOST, setting(f"{POD} pod_name", pod_name)) == (
        "$.group_list[0].instance_list[1].pod_name: "
        "expected a name that ends in '-' and an integer, like others of its group, found "
        f"{pod_name!r}"
    )


@pytest.mark.parametrize("pod_name", ["job77-job-small-1", "other-1", "other-01"])
def test_two_pods_of_a_group_do_not_share_an_index(pod_name: str) -> None:
    assert refusal(ONE_HOST, setting(f"{POD} pod_name", pod_name)) == (
        "$.group_list[0].instance_list[1]: pod index 1 is taken already by "
        "$.group_list[0].instance_list[0]"
    )


def test_two_pods_of_two_groups_do_not_share_a_name() -> None:
    def spoil(top: Any) -> None:
        top["group_list"].append(top["group_list"][0])
        top["group_count"] = "2"

    assert refusal(ONE_CARD, spoil) == (
        "$.group_list[1].instance_list[0]: pod_name 'jobxxxxxxxx-job-trainjob-0' is taken already "
        "by $.group_list[0].instance_list[0]"
    )


@pytest.mark.parametrize("devices", [0, 2])
def test_a_lab_instance_is_one_device(devices: int) -> None:
    assert refusal(LAB, setting(f"{LAB_POD} devices", [{}] * devices)) == (
        f"$.group_list[0].instance_list[3].devices: expected exactly one device, found {devices}"
    )


def test_a_refusal_carries_its_exit_code() -> None:
    with pytest.raises(TableRefused) as caught:
        parse(json.dumps({"status": "completed"}).encode())
    assert caught.value.exit_code == BAD_TABLE
