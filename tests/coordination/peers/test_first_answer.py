"""The wait for the first answer of etcd, and for our address towards it."""

from __future__ import annotations

import pytest

from ascend_supervisor.coordination.peers.own_address import NoWay, own_address
from ascend_supervisor.coordination.peers.requests import Troubles, first_answer
from ascend_supervisor.errors import Unavailable
from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.etcd.failures import EtcdError, Refused, Unreachable
from ascend_supervisor.events import Event
from ascend_supervisor.events.peers import PeersReachable, PeersUnreachable

UNKNOWN = [Endpoint("no.invalid", 2379, is_tls=False)]
KNOWN = [Endpoint("127.0.0.1", 2379, is_tls=False)]


async def test_an_address_that_comes_late_is_waited_for_and_its_lack_told_once():
    told: list[Event] = []
    known = iter([UNKNOWN, UNKNOWN, KNOWN])

    async def ask() -> str:
        return own_address(None, {}, next(known))

    assert await first_answer(ask, 60.0, Troubles(told.append, lambda: False)) == "127.0.0.1"
    assert [type(event) for event in told] == [PeersUnreachable, PeersReachable]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (Unreachable("no etcd answers"), "--peers: no answer within 0 s: no etcd answers"),
        (NoWay("this server has none"), "--servers: after 0 s this server has none"),
        (Refused("etcd cannot be used: x"), "--peers: etcd cannot be used: x"),
    ],
)
async def test_what_does_not_come_in_time_is_named(error: EtcdError, sentence: str):
    async def ask() -> str:
        raise error

    with pytest.raises(Unavailable) as ended:
        await first_answer(ask, 0.0, Troubles(lambda _: None, lambda: False))
    assert ended.value.faults == (sentence,)
