"""Whatever the bytes, a table is right, not ready, or refused; and conversion loses no device."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_supervisor.cluster.identity import find_entry, identity_of
from ascend_supervisor.cluster.made_table import standalone
from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.rank_table import NotReady, RankTable
from ascend_supervisor.errors import TableRefused
from tests.rank_tables import COMPLETED, LAB, ONE_HOST, TWELVE_PODS, TWO_GROUPS, document, table

pytestmark = pytest.mark.thorough

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


SERVERS = st.lists(
    st.tuples(
        st.sampled_from(["", "10.0.0.9"]),  # host_ip
        st.lists(st.sampled_from(["address", "two addresses", "empty", "absent"]), max_size=3),
    ),
    min_size=1,
    max_size=4,
)


def server(at: int, host_ip: str, kinds: list[str], ranks: list[int]) -> dict[str, Any]:
    """A server of template 1, whose devices have addresses of these kinds."""
    devices: list[dict[str, Any]] = []
    for index, kind in enumerate(kinds):
        address = f"192.1.{at}.{index}"
        known = {"address": address, "two addresses": f"{address},2001:db8::{at}:{index}"}
        device = {"device_id": str(index), "rank_id": ranks.pop()}
        devices.append(device if kind == "absent" else {**device, "device_ip": known.get(kind, "")})
    return {"server_id": f"s{at}", "device": devices, "host_ip": host_ip}


def shuffled(count: int, chance: random.Random) -> list[int]:
    ranks = list(range(count))
    chance.shuffle(ranks)
    return ranks


@some
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_warning_tells_of_ranks_that_interleave_and_of_no_others(
    sizes: list[int], chance: random.Random
) -> None:
    ranks = shuffled(sum(sizes), chance)
    servers = [server(at, "10.0.0.9", ["address"] * size, ranks) for at, size in enumerate(sizes)]
    read = table({"status": "completed", "server_list": servers})
    consecutive = [
        sorted(d.rank for d in entry.devices) == list(range(first, first + len(entry.devices)))
        for entry in read.entries
        for first in [min(d.rank for d in entry.devices)]
    ]
    assert any("interleave" in warning for warning in read.warnings) is not all(consecutive)


@some
@given(SERVERS, st.randoms(use_true_random=False), st.booleans())
def test_addresses_are_needed_only_between_servers_without_host_ip(
    listed: list[tuple[str, list[str]]], chance: random.Random, counted: bool
) -> None:
    ranks = shuffled(sum(len(kinds) for _, kinds in listed), chance)
    servers = [server(at, *one, ranks) for at, one in enumerate(listed)]
    count = {"server_count": len(servers)} if counted else {}
    data = json.dumps({"status": "completed", **count, "server_list": servers}).encode()
    check(data)
    bare = any(not host and {"empty", "absent"} & set(kinds) for host, kinds in listed)
    several = sum(bool(kinds) for _, kinds in listed) > 1
    if bare and several:
        with pytest.raises(TableRefused, match=r"missing 'device_ip'$"):
            parse(data)
    else:
        assert isinstance(parse(data), RankTable)


@some
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_server_list_in_any_order_places_the_ranks_of_2_0(
    sizes: list[int], chance: random.Random
) -> None:
    places = [(at, local) for at, size in enumerate(sizes) for local in range(size)]
    ranks = [
        {"rank_id": rank, "local_id": local, "device_id": local}
        for rank, (_, local) in enumerate(places)
    ]
    servers = [
        {
            "server_id": f"s{at}",
            "device": [
                {"rank_id": str(rank)} for rank, place in enumerate(places) if place[0] == at
            ],
        }
        for at in range(len(sizes))
    ]
    plain = {"version": "2.0", "rank_count": len(ranks), "rank_list": ranks}
    chance.shuffle(servers)
    read = table({**plain, "server_list": servers})
    assert [entry.server_id for entry in read.entries] == [f"s{at}" for at in range(len(sizes))]
    assert [entry.devices for entry in read.entries] == [e.devices for e in table(plain).entries]
