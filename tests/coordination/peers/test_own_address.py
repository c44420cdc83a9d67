"""At which address the other servers reach this one."""

from __future__ import annotations

import pytest

from ascend_supervisor.coordination.peers.own_address import NoWay, own_address
from ascend_supervisor.etcd.access import Endpoint

HERE = Endpoint("127.0.0.1", 2379, is_tls=False)
NOWHERE = Endpoint("no.invalid", 2379, is_tls=False)


def test_what_is_said_comes_first():
    assert own_address("named", {"POD_IP": "10.1.2.3"}, [HERE]) == "named"
    assert own_address(None, {"POD_IP": "10.1.2.3"}, [HERE]) == "10.1.2.3"


def test_else_it_is_the_address_from_which_etcd_is_reached():
    assert own_address(None, {}, [HERE]) == "127.0.0.1"
    assert own_address(None, {"POD_IP": ""}, [NOWHERE, HERE]) == "127.0.0.1"


def test_without_a_way_to_etcd_it_says_how_to_name_one():
    told = (
        r"could reach it \(no.invalid: .*\); set POD_IP to its address, or give it as --server-id"
    )
    with pytest.raises(NoWay, match=told):
        own_address(None, {}, [NOWHERE])
