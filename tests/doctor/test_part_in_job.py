"""Which names of other servers are looked up, by the rank table and the platform's variables."""

from __future__ import annotations

import pytest

from ascend_supervisor.cluster.declared import even_table
from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.rank_table import Entry, RankTable
from ascend_supervisor.doctor.check import MOST_HOSTS_ASKED, hosts_to_ask
from tests.rank_tables import TEMPLATE_1, data


def named(*hosts: str) -> RankTable:
    return even_table([Entry((), server_id=host) for host in hosts], 1)


def listed(hosts: int) -> str:
    return ",".join(f"w-{number}.job" for number in range(hosts))


def test_addresses_are_not_looked_up():
    table = parse(data(TEMPLATE_1))
    assert isinstance(table, RankTable)
    assert hosts_to_ask(table, 0, {"MASTER_ADDR": "10.0.5.1"}) == ()


def test_the_hosts_of_variables_and_of_rank_0_are_looked_up_and_not_our_own():
    table = parse(data(TEMPLATE_1))
    assert isinstance(table, RankTable)
    environ = {"VC_WORKER_HOSTS": listed(2), "MASTER_ADDR": "w-0.job"}
    assert hosts_to_ask(table, 1, environ) == ("w-0.job",)
    assert hosts_to_ask(table, 0, environ) == ("w-1.job",)
    assert hosts_to_ask(table, 1, {"MASTER_ADDR": "service.of.rank-0"}) == ("service.of.rank-0",)


@pytest.mark.parametrize("unknown", ["pod 1", "", "::1"])
def test_what_is_no_name_is_not_looked_up(unknown):
    assert hosts_to_ask(named("a", unknown), 0, {}) == ()


def test_of_many_servers_rank_0_and_the_next_ones_are_looked_up():
    hosts = [f"node-{number}" for number in range(1250)]
    found = hosts_to_ask(named(*hosts), 1247, {"MASTER_ADDR": "node-0"})
    assert found[:4] == ("node-0", "node-1248", "node-1249", "node-1")
    assert len(found) == MOST_HOSTS_ASKED
