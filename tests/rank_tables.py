"""The rank tables of tests/data, by name, and the ways in which tests read and spoil them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.errors import TableRefused

if TYPE_CHECKING:
    from collections.abc import Callable

TEMPLATE_1 = "template1-two-servers"
TWELVE_PODS = "template2-12-pods-unsorted"
ONE_CARD = "template2-one-card"
TWO_GROUPS = "template2-two-groups"
ONE_HOST = "template2-two-pods-one-host"
SUPER_POD = "superpod-1.2"
A5 = "a5-2.0"
LAB = "lab-two-servers"
BOM = "template1-bom"
FREE_NAMES = "template2-free-names"
WITHOUT_ADDRESSES = "template1-one-server-without-addresses"
HOST_NIC = "template1-host-nic"
TWO_ADDRESSES = "template1-two-addresses"
WITHOUT_COUNT = "template1-without-count"
SUPER_POD_WITHOUT_COUNT = "superpod-1.2-without-count"
A5_WITHOUT_STATUS = "a5-2.0-without-status"
A5_WITH_SERVERS = "a5-2.0-with-servers"
INTERLEAVED = "template1-interleaved"
CROSS_CLUSTER = "template1-cross-cluster"
INITIALIZING = "template2-initializing"

FOR_INFERENCE = "mindie-server-groups"
SHARED_ADDRESS = "template1-shared-address"
EMPTY_SUPER_DEVICE_ID = "superpod-1.2-empty-super-device-id"
COMMENTED = "template1-commented"
TRAILING_COMMA = "template1-trailing-comma"

COMPLETED = (
    *(TEMPLATE_1, TWELVE_PODS, ONE_CARD, TWO_GROUPS, ONE_HOST, SUPER_POD, A5, LAB, BOM),
    *(FREE_NAMES, WITHOUT_ADDRESSES, HOST_NIC, TWO_ADDRESSES, WITHOUT_COUNT),
    *(SUPER_POD_WITHOUT_COUNT, A5_WITHOUT_STATUS, A5_WITH_SERVERS, INTERLEAVED, CROSS_CLUSTER),
)

_TABLES = Path(__file__).parent / "data" / "rank_tables"


def data(name: str) -> bytes:
    return (_TABLES / f"{name}.json").read_bytes()


def document(name: str) -> Any:
    return json.loads(data(name).decode("utf-8-sig"))


def table(source: bytes | str | dict[str, Any]) -> RankTable:
    """The right table that is named, or written, or made so."""
    if isinstance(source, dict):
        source = json.dumps(source).encode()
    read = parse(data(source) if isinstance(source, str) else source)
    assert isinstance(read, RankTable)
    return read


def refusal(name: str, spoil: Callable[[Any], object]) -> str:
    """The sentence with which the table is refused after it has been spoiled."""
    spoiled = document(name)
    spoil(spoiled)
    with pytest.raises(TableRefused) as caught:
        parse(json.dumps(spoiled).encode())
    return str(caught.value)
