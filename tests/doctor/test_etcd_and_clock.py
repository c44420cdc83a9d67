"""A real etcd: dead, frozen, slow, and with another time than ours."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from ascend_supervisor.coordination.peers.meeting import PeersEtcd
from ascend_supervisor.doctor.check import PartInJob
from ascend_supervisor.doctor.etcd_and_clock import etcd_and_clock
from ascend_supervisor.etcd.access import Endpoint, Password
from ascend_supervisor.events.server import Result
from tests.doctor import other_clock
from tests.doctor.servers import server, verdicts
from tests.etcd.fixtures import etcd, etcd_server
from tests.etcd.servers import EtcdServer

__all__ = ["etcd", "etcd_server"]


@pytest.fixture
def rows(tmp_path):
    """``await rows(endpoint)``, with a TTL of 4 s."""

    async def looked(*endpoints: Endpoint) -> tuple[Result, ...]:
        named = PeersEtcd(endpoints, 4, None, None, Password(""), None)
        found = server(tmp_path, part=PartInJob(etcd=named, job="test"))
        return tuple(await etcd_and_clock(found, None))

    return looked


@pytest.fixture
def behind(etcd: EtcdServer) -> Iterator[Callable[..., Endpoint]]:
    """``behind(late, date)``: where this etcd answers so late, and with this date."""
    started: list[subprocess.Popen[bytes]] = []

    def start(late: float, date: str) -> Endpoint:
        words = (other_clock.__file__, etcd.endpoint.host, str(etcd.endpoint.port), str(late), date)
        started.append(subprocess.Popen((sys.executable, *words), stdout=subprocess.PIPE))
        assert started[-1].stdout is not None
        return Endpoint("127.0.0.1", int(started[-1].stdout.readline()), is_tls=False)

    yield start
    for one in started:
        one.kill()
        one.communicate()


async def test_an_etcd_that_answers_is_fit_and_so_is_the_clock(rows, etcd):
    found = await rows(etcd.endpoint)
    assert verdicts(found) == {"etcd": "fit", "clock": "fit"}
    assert found[0].found.startswith(f"an answer of {etcd.url} within ")


async def test_a_dead_etcd_is_told(rows, etcd):
    etcd.kill()
    (row,) = await rows(etcd.endpoint)
    assert row.verdict == "warning"
    assert row.sentence.startswith(f"etcd: found no answer of {etcd.url}: ")
    assert "connection refused" in row.found


async def test_a_frozen_etcd_is_told(rows, etcd):
    etcd.freeze()
    (row,) = await rows(etcd.endpoint)
    assert row.verdict == "warning"


async def test_an_etcd_that_is_slow_against_the_ttl_is_told(rows, behind):
    etcd_row, clock_row = await rows(behind(0.3, ""))
    assert (etcd_row.verdict, clock_row.verdict) == ("warning", "fit")
    assert etcd_row.expected.startswith("at most 200 ms: after 4 s (--peers-ttl) without one")


@pytest.mark.parametrize(("seconds", "side"), [(-600, "ahead of"), (600, "behind")])
async def test_another_time_than_that_of_etcd_is_told(rows, behind, seconds, side):
    _, row = await rows(behind(0.0, str(seconds)))
    assert row.verdict == "warning"
    assert re.match(rf"the clock here (59[0-9]|60[0-9]) s {side} that of", row.found)


@pytest.mark.parametrize("date", ["yesterday", "Thu, 99 Nov 2026 00:00:00 GMT"])
async def test_a_date_that_is_none_says_nothing(rows, behind, date):
    assert verdicts(await rows(behind(0.0, date))) == {"etcd": "fit"}


async def test_nothing_is_asked_without_peers_or_where_the_job_brings_its_etcd(tmp_path, rows):
    assert await rows() == ()
    assert await etcd_and_clock(server(tmp_path), None) == ()
