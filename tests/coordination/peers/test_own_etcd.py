"""Where the etcd of a job is, how it is started, and when it is not started again."""

from __future__ import annotations

import os
import socket
from pathlib import PurePath

import pytest
from msgspec.structs import replace

from ascend_supervisor.cluster.declared import TorchStore
from ascend_supervisor.coordination.peers.own_etcd import Pauses, command, environment
from ascend_supervisor.coordination.peers.own_etcd_address import (
    endpoint_of,
    own_addresses,
    serves_at,
)
from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.etcd.access import Endpoint
from tests.coordination.followed_cluster.test_three_servers import FOUND
from tests.ports import free_port

TABLE = FOUND.table


def test_it_is_where_the_ranks_meet() -> None:
    assert str(endpoint_of(TABLE, {"MASTER_ADDR": "pod-0"}, None, 2379)) == "http://pod-0:2379"
    named = {"VC_WORKER_HOSTS": "w-0,w-1", "MASTER_ADDR": "pod-0"}
    assert str(endpoint_of(TABLE, named, None, 2379)) == "http://w-0:2379"
    assert str(endpoint_of(TABLE, {}, TorchStore("service", 29500), 7)) == "http://service:7"
    numbered = replace(TABLE, entries=(replace(TABLE.entries[0], server_id="10.0.0.1"),))
    assert endpoint_of(numbered, {}, None, 1).host == "10.0.0.1"
    assert own_addresses(numbered) == ("10.0.0.1",)


def test_without_an_address_it_is_refused() -> None:
    entries = tuple(replace(entry, server_id="a name") for entry in TABLE.entries)
    with pytest.raises(SettingsRefused, match="set MASTER_ADDR to it, the same on all servers"):
        endpoint_of(replace(TABLE, entries=entries), {}, None, 2379)


async def test_it_listens_at_one_address_of_this_machine() -> None:
    there = Endpoint("127.0.0.1", free_port(), is_tls=False)
    assert await serves_at(there, ()) == there
    elsewhere = replace(there, host="198.51.100.1")  # of nobody, as RFC 5737 says
    assert (await serves_at(elsewhere, ("203.0.113.1", "127.0.0.3"))).host == "127.0.0.3"
    unknown = replace(there, host="no-such-host.invalid")
    assert (await serves_at(unknown, ("127.0.0.3",))).host == "127.0.0.3"


async def test_a_name_that_is_only_known_here_as_loopback_is_not_taken_first() -> None:
    there = Endpoint("localhost", free_port(), is_tls=False)
    assert (await serves_at(there, ("127.0.0.3",))).host == "127.0.0.3"
    assert (await serves_at(there, ())).host in {"127.0.0.1", "::1"}


async def test_it_listens_everywhere_only_if_nothing_else_is_known() -> None:
    there = Endpoint("198.51.100.1", free_port(), is_tls=False)
    assert (await serves_at(there, ())).host == "0.0.0.0"  # noqa: S104


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_port_that_is_taken_is_refused(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as taken:
        taken.bind((host, 0))
        taken.listen()
        there = Endpoint(host, taken.getsockname()[1], is_tls=False)
        with pytest.raises(Unavailable, match=rf"process {os.getpid()} \(state .*choose another"):
            await serves_at(there, (), looks=2)


def test_its_words_name_one_address_and_its_environment_is_ours_alone() -> None:
    words = command("/usr/bin/etcd", Endpoint("10.0.0.1", 2379, is_tls=False), PurePath("/d"))
    assert [word for word in words if "listen" in word] == [
        "--listen-client-urls=http://10.0.0.1:2379",
        "--listen-peer-urls=unix://peer:0",
    ]
    assert "ETCD_UNSUPPORTED_ARCH" not in environment("x86_64")
    assert environment("aarch64")["ETCD_UNSUPPORTED_ARCH"] == "arm64"


def test_it_is_started_again_five_times_with_longer_and_longer_pauses() -> None:
    pauses, seconds = Pauses(), []
    for _ in range(6):
        pauses = pauses.after(3.0)
        seconds.append(pauses.seconds)
    assert seconds == [1.0, 2.0, 4.0, 8.0, 16.0, None]
    assert pauses.after(60.0).seconds == 1.0
