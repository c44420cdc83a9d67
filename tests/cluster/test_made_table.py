"""The rank table that servers make of what they publish."""

from __future__ import annotations

import json

import pytest

from ascend_supervisor.cluster.made_table import Server, ServerDevice, made_table
from ascend_supervisor.cluster.platforms import master_address
from ascend_supervisor.cluster.rank_table import Format
from ascend_supervisor.errors import TableRefused


def server(address: str, *ips: str | None, machine: str | None = None) -> Server:
    devices = tuple(ServerDevice(number, ip) for number, ip in enumerate(ips))
    return Server(address, devices, address if machine is None else machine)


TWO = (
    server("10.0.0.1", "192.168.0.1", "192.168.0.2"),
    server("10.0.0.2", "192.168.0.3", "192.168.0.4"),
)


def test_ranks_follow_the_order_of_servers_and_of_their_devices():
    found = made_table(TWO)
    assert found.table.format is Format.TEMPLATE_1
    assert [[one.rank for one in entry.devices] for entry in found.table.entries] == [
        [0, 1],
        [2, 3],
    ]
    assert [entry.label for entry in found.table.entries] == ["10.0.0.1", "10.0.0.2"]
    assert found.table.warnings == ()
    assert json.loads(found.table.document)["server_list"][1] == {
        "server_id": "10.0.0.2",
        "host_ip": "10.0.0.2",
        "device": [
            {"device_id": "0", "device_ip": "192.168.0.3", "rank_id": "2"},
            {"device_id": "1", "device_ip": "192.168.0.4", "rank_id": "3"},
        ],
    }


@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1", "spare-0.svc"])
def test_ranks_meet_at_the_first_server_whatever_the_environment_says(address):
    """A spare may have its place, which the platform does not know."""
    table = made_table((server(address, "192.168.0.1"), TWO[1])).table
    hosts = {"VC_WORKER_HOSTS": "w-0.job,w-1.job"}
    tasks = {"VC_MASTER_HOSTS": "m-0.job", "VC_WORKER_HOSTS": "w-0.job"}
    for environ in ({}, hosts, tasks, {"MASTER_ADDR": "head"}, {**hosts, "MASTER_ADDR": "head"}):
        assert master_address(table, environ) == address


def test_servers_may_have_different_numbers_of_devices():
    table = made_table((TWO[0], server("10.0.0.2", "192.168.0.3"))).table
    assert (table.world_size, table.servers) == (3, 2)


def test_two_servers_with_one_address_are_two_entries():
    here = [server("10.0.0.5", "192.168.0.1"), server("10.0.0.5", "192.168.0.2")]
    table = made_table(here).table
    assert [entry.server_id for entry in table.entries] == ["10.0.0.5-0", "10.0.0.5-1"]
    assert {entry.host_ip for entry in table.entries} == {"10.0.0.5"}


def test_servers_of_one_machine_meet_on_it():
    here = [server("127.0.0.1", None, machine="m"), server("127.0.0.1", None, machine="m")]
    table = made_table(here).table
    assert table.warnings == ()
    assert master_address(table, {}) == "127.0.0.1"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_server_of_another_machine_is_not_met_at_a_loopback_address(address):
    with pytest.raises(TableRefused, match=r"server 1: expected an address .* found .*POD_IP"):
        made_table((TWO[0], server(address, "192.168.0.3")))


def test_a_device_that_two_servers_publish_is_refused():
    with pytest.raises(TableRefused, match=r"device_ip 192\.168\.0\.1 is taken already"):
        made_table((TWO[0], server("10.0.0.2", "192.168.0.1")))


def test_devices_without_addresses_beside_others_are_warned_of():
    (warning,) = made_table((TWO[0], server("10.0.0.2", None))).table.warnings
    assert "Atlas A2 refuses the table" in warning
