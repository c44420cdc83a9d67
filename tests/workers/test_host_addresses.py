"""An address for a name: which one, how long it is waited for, and what is told."""

from __future__ import annotations

import pytest

from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.events import Event
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.process_spec import HostName
from ascend_supervisor.tasks.clock import MonotonicClock
from ascend_supervisor.workers import preparation
from ascend_supervisor.workers.preparation import addresses_of, best, is_local, look_up
from tests.clocks import LeapingClock

ELSEWHERE = "192.0.2.1"
"""Of the block for documentation: no machine has it."""


@pytest.mark.parametrize(
    ("addresses", "local", "expected"),
    [
        (["10.0.0.9", "10.0.0.1"], {"10.0.0.1"}, "10.0.0.1"),
        (["127.0.1.1", "10.0.0.1"], {"127.0.1.1", "10.0.0.1"}, "10.0.0.1"),
        (["127.0.1.1", "10.0.0.9"], {"127.0.1.1"}, "10.0.0.9"),
        (["127.0.1.1"], {"127.0.1.1"}, "127.0.1.1"),
        (["fd00::1", "10.0.0.1"], {"fd00::1", "10.0.0.1"}, "10.0.0.1"),
        (["10.0.0.9", "fd00::1"], {"fd00::1"}, "fd00::1"),
        (["10.0.0.9", "10.0.0.8"], set(), "10.0.0.9"),
    ],
)
def test_the_best_address_is_reachable_and_the_servers_own(addresses, local, expected):
    assert best(addresses, local.__contains__) == expected


def test_an_address_is_local_if_this_machine_has_it():
    assert is_local("127.0.0.1")
    assert not is_local(ELSEWHERE)


@pytest.mark.parametrize("is_here", [True, False])
def test_an_address_is_its_own_address(is_here):
    assert look_up(HostName(ELSEWHERE, is_here=is_here)) == ELSEWHERE


async def test_a_name_gets_its_address_without_a_word():
    told: list[Event] = []
    hosts = [HostName(ELSEWHERE, is_here=True)]
    assert await addresses_of(hosts, MonotonicClock(), told.append) == {ELSEWHERE: ELSEWHERE}
    assert told == []


async def test_an_address_that_other_servers_cannot_reach_is_told():
    told: list[Event] = []
    hosts = [HostName("localhost", is_here=True, named_by="MS_SCHED_HOST")]
    assert await addresses_of(hosts, MonotonicClock(), told.append) == {"localhost": "127.0.0.1"}
    (event,) = told
    assert isinstance(event, Diagnostic)
    assert event.message == (
        "its address is 127.0.0.1 here, which other servers cannot reach; see /etc/hosts, or give "
        "an address in place of the name in MS_SCHED_HOST"
    )


async def test_a_name_that_stays_unknown_is_told_once_and_given_up():
    """The clock leaps: the name is asked for again and again until the end."""
    told: list[Event] = []
    hosts = [HostName("w-0.invalid", is_here=False)]
    with pytest.raises(Unavailable) as unavailable:
        await addresses_of(hosts, LeapingClock(), told.append, 0.5)
    assert str(unavailable.value).startswith(
        "'w-0.invalid': expected an address of this name within 0.5 s, found none: "
    )
    (event,) = told
    assert isinstance(event, Diagnostic)
    assert event.source == "'w-0.invalid'"
    assert event.message.startswith("the name has no address yet: ")


async def test_what_is_no_host_name_is_refused_at_once():
    with pytest.raises(SettingsRefused, match=r"expected a host name, found 'w\.\.0'"):
        await addresses_of([HostName("w..0", is_here=False)], MonotonicClock(), lambda _: None)


def test_a_wait_for_a_name_is_bounded():
    assert 0 < preparation.RESOLVE_SECONDS <= 1800
