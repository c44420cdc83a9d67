"""Whatever the bytes, a table is right, not ready, or refused; and conversion loses no device."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_supervisor.cluster.conversion import standalone
from ascend_supervisor.cluster.identity import find_entry, identity_of
from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.rank_table import NotReady, RankTable
from ascend_supervisor.errors import TableRefused
from tests.rank_tables import COMPLETED, LAB, ONE_HOST, TWELVE_PODS, TWO_GROUPS, document, table

some = settings(max_examples=200)

KEYS = [
    "device",
    "device_count",
    "device_id",
    "device_ip",
    "devices",
    "instance_count",
    "instance_list",
    "local_id",
    "pod_name",
    "rank_id",
    "server_id",
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.integers(-2, 20).map(str),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


def check(data: bytes) -> None:
    """Nothing but the three ends that parse promises; and a right table holds together."""
    try:
        read = parse(data)
    except TableRefused:
        return
    if isinstance(read, NotReady):
        assert read.reason
        return
    ranks = [device.rank for entry in read.entries for device in entry.devices]
    assert sorted(ranks) == list(range(read.world_size))
    again = parse(read.document)
    assert isinstance(again, RankTable)
    assert devices_of(again) == devices_of(read)
    for node_rank in range(len(read.entries)):
        assert find_entry(read, identity_of({}, node_rank=node_rank))[0] == node_rank


def devices_of(read: RankTable) -> set[tuple[object, ...]]:
    return {
        (entry.server_id, device.rank, device.device_id, device.device_ip)
        for entry in read.entries
        for device in entry.devices
    }


@some
@given(st.binary(max_size=200))
def test_no_bytes_are_a_surprise(data: bytes) -> None:
    check(data)


@some
@given(st.dictionaries(st.text(max_size=8), values, max_size=4), values, values, values)
def test_no_json_is_a_surprise(
    extra: dict[str, Any], groups: Any, servers: Any, ranks: Any
) -> None:
    lists = {"group_list": groups, "server_list": servers, "rank_list": ranks}
    for name, listed in lists.items():
        check(json.dumps({**extra, "status": "completed", name: listed}).encode())
    check(json.dumps({"status": "completed", **lists, **extra}).encode())


def containers(value: Any) -> Iterator[Any]:
    """Every list and object with something in it, from the top down."""
    if isinstance(value, dict | list) and value:
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)


def mutate(draw: Any, top: Any) -> None:
    where = draw(st.sampled_from(list(containers(top))))
    key = draw(st.sampled_from(sorted(where) if isinstance(where, dict) else range(len(where))))
    act = draw(st.sampled_from(["delete", "replace", "duplicate", "shuffle"]))
    if act == "delete":
        del where[key]
    elif isinstance(where, list) and act == "duplicate":
        where.append(where[key])
    elif isinstance(where, list) and act == "shuffle":
        where.sort(key=lambda _: draw(st.integers(0, 99)))
    elif key != "status":
        where[key] = draw(values)


@some
@given(st.data())
def test_no_nearly_right_table_is_a_surprise(draws: st.DataObject) -> None:
    top = document(draws.draw(st.sampled_from(COMPLETED)))
    for _ in range(draws.draw(st.integers(1, 3))):
        if top:
            mutate(draws.draw, top)
    check(json.dumps(top).encode())


@given(st.sampled_from([TWELVE_PODS, ONE_HOST, TWO_GROUPS, LAB]), st.integers())
@some
def test_the_order_in_which_instances_are_listed_does_not_matter(name: str, seed: int) -> None:
    shuffled = document(name)
    for group in shuffled["group_list"]:
        random.Random(seed).shuffle(group["instance_list"])  # noqa: S311 - not a secret
    assert table(shuffled).entries == table(name).entries
    assert table(shuffled).document == table(name).document


@some
@given(st.integers(1, 16))
def test_a_standalone_table_is_read_back(devices: int) -> None:
    check(standalone(devices))
    assert table(standalone(devices)).world_size == devices


@some
@given(st.lists(st.tuples(st.integers(0, 5), st.sets(st.integers(0, 3), max_size=4)), max_size=4))
def test_any_spread_of_pods_over_hosts_converts_without_loss(
    spread: list[tuple[int, set[int]]],
) -> None:
    pods = [
        {
            "pod_name": f"job-{index}",
            "server_id": f"10.0.0.{host}",
            "devices": [
                {"device_id": str(device), "device_ip": f"10.{host}.{index}.{device}"}
                for device in sorted(devices)
            ],
        }
        for index, (host, devices) in enumerate(spread)
    ]
    total = sum(len(devices) for _, devices in spread)
    groups = [{"instance_count": len(pods), "device_count": total, "instance_list": pods}]
    check(json.dumps({"status": "completed", "group_count": 1, "group_list": groups}).encode())
