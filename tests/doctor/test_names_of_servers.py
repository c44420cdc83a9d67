"""Names of other servers in real jobs, each with an /etc/hosts and name servers of its own."""

from __future__ import annotations

import os

import pytest

from ascend_supervisor.doctor.check import PartInJob
from ascend_supervisor.doctor.names_of_servers import names_of_servers
from tests.doctor.servers import only, server
from tests.rank_tables import TEMPLATE_1, data
from tests.running import python

OWN_NAMES = """
mount --bind "$0"/hosts /etc/hosts
mount --bind "$0"/resolv.conf /etc/resolv.conf
exec "$@"
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an /etc/hosts of our own needs root")


@pytest.fixture
def first_server(supervised, tmp_path):
    """``first_server(hosts)``: events of the first of two servers, at which nobody else asks."""

    def run(hosts: str) -> list[str]:
        (tmp_path / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}\n")
        (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.99\noptions timeout:1\n")
        (tmp_path / "table.json").write_bytes(data(TEMPLATE_1))
        job = supervised(
            *("--rank-table", str(tmp_path / "table.json"), "--node-rank", "0", *python("")),
            before=("unshare", "--mount", "sh", "-e", "-c", OWN_NAMES, str(tmp_path)),
            environ={"VC_WORKER_HOSTS": "first.job,second.job"},
        )
        assert job.end() == 0
        return [text for event in job.all("server.checked") for text in event["warnings"]]

    return run


def test_a_name_with_the_address_of_another_server_is_fit(first_server):
    assert first_server("10.9.8.7 second.job") == []


def test_a_name_without_an_address_is_told_before_a_rank_starts(first_server):
    (told,) = first_server("10.9.8.7 other.job")
    assert told.startswith(
        "names of servers: found that 1 of 1 name have no address here: 'second.job' ("
    )


def test_a_name_that_leads_to_this_machine_is_told(first_server):
    (told,) = first_server("127.0.1.1 second.job")
    assert told == (
        "names of servers: found that 'second.job' is 127.0.1.1 here, which leads to this machine, "
        "expected the address of another server; correct /etc/hosts"
    )


async def test_a_name_that_no_resolver_takes_is_told(tmp_path):
    found = server(tmp_path, part=PartInJob(hosts=("a" * 70,)))
    assert only(await names_of_servers(found, None)).verdict == "warning"
