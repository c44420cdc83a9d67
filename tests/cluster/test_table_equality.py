"""What of a rank table the ranks depend on: how it is written makes no difference to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor.cluster.rank_table import FoundTable
from tests.rank_tables import (
    A5,
    COMPLETED,
    LAB,
    SUPER_POD,
    TEMPLATE_1,
    TWELVE_PODS,
    document,
    table,
)


def turned(value: Any) -> Any:
    """The same, with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return list(map(turned, value)) if isinstance(value, list) else value


def rewritten(name: str) -> bytes:
    top = {"update_time": "2026-11-23T02:00:00Z", **turned(document(name)), "timestamp": 1}
    return json.dumps(top, indent=3, ensure_ascii=True).encode()


@pytest.mark.parametrize("name", COMPLETED)
def test_spaces_the_order_of_keys_and_unknown_keys_make_no_difference(name: str) -> None:
    before = table(name)
    assert before.essence
    after = table(rewritten(name))
    assert (after.essence, after.placement) == (before.essence, before.placement)


def test_a_version_makes_no_difference() -> None:
    assert table(document(TEMPLATE_1) | {"version": "7"}).essence == table(TEMPLATE_1).essence


def first(top: Any, *keys: str) -> Any:
    """The first element of the list at ``keys[0]``, then of the list in that, and so on."""
    for key in keys:
        top = top[key][0]
    return top


def device_of_template_1(top: Any) -> Any:
    return first(top, "server_list", "device")


def device_of_template_2(top: Any) -> Any:
    return first(top, "group_list", "instance_list", "devices")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (TEMPLATE_1, lambda top: device_of_template_1(top).update(device_ip="192.9.9.9")),
        (TEMPLATE_1, lambda top: device_of_template_1(top).update(device_id="7")),
        (TEMPLATE_1, lambda top: device_of_template_1(top).update(hardware_type="other")),
        (TEMPLATE_1, lambda top: first(top, "server_list").update(server_id="10.9.9.9")),
        (TEMPLATE_1, lambda top: first(top, "server_list").update(container_ip="10.9.9.9")),
        (SUPER_POD, lambda top: device_of_template_1(top).update(super_device_id="99")),
        (SUPER_POD, lambda top: first(top, "super_pod_list").update(super_pod_id="99")),
        (A5, lambda top: first(top, "rank_list").update(added="x")),
        (A5, lambda top: first(top, "rank_list", "level_list").update(net_instance_id="x")),
        (TWELVE_PODS, lambda top: device_of_template_2(top).update(device_ip="192.9.9.9")),
        (
            TWELVE_PODS,
            lambda top: first(top, "group_list", "instance_list").update(server_id="10.9.9.9"),
        ),
        (LAB, lambda top: device_of_template_2(top).update(device_ip="192.9.9.9")),
    ],
)
def test_servers_devices_and_addresses_make_one(name: str, change: Callable[[Any], object]) -> None:
    top = document(name)
    change(top)
    assert top != document(name)
    before, after = table(name), table(top)
    assert after.essence != before.essence
    assert after.placement != before.placement


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        (TEMPLATE_1, lambda top: top["server_list"]),
        (SUPER_POD, lambda top: top["server_list"]),
        (SUPER_POD, lambda top: top["super_pod_list"]),
        (SUPER_POD, lambda top: top["super_pod_list"][0]["server_list"]),
    ],
)
def test_the_order_of_servers_makes_no_difference_to_ranks_that_run(
    name: str, listed: Callable[[Any], list[Any]]
) -> None:
    top = document(name)
    if len(listed(top)) == 1:  # a second one, so that there is an order
        listed(top).append({"server_id": "x", "super_pod_id": "x"})
    before = table(top)
    listed(top).reverse()
    after = table(top)
    assert after.essence != before.essence
    assert after.placement == before.placement


def test_other_ranks_make_another_placement_though_all_else_is_listed_as_before() -> None:
    top = document(TEMPLATE_1)
    one, other = (server["device"][0] for server in top["server_list"])
    one["rank_id"], other["rank_id"] = other["rank_id"], one["rank_id"]
    assert table(top).placement != table(TEMPLATE_1).placement


def test_a_document_that_is_nested_too_deep_to_be_written_is_compared_by_its_bytes() -> None:
    top = document(TEMPLATE_1)
    first(top, "server_list")["deep"] = json.loads("[" * 500 + "]" * 500)
    deep = table(top)
    assert deep.essence == deep.placement == ""
    found = FoundTable(Path("/t"), deep, "of its bytes")
    assert found.essence == found.placement == "of its bytes"
