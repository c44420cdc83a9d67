"""What a restart of many simulated servers asks of a real etcd: counts, which no load changes."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import anyio
import pytest

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.etcd.values import Get, Got, Prefix
from tests.etcd.asking import at
from tests.etcd.servers import EtcdServer

ROOT = Path(__file__).parents[3]
TTL = 60.0
"""Longer than the test: nobody is lost, and nobody waits for it."""
FEW = 8
MOST_REQUESTS, MOST_BYTES = 6, 12_000
"""For each server, of a restart: two of its own, and keepalives on a machine that is busy."""


@pytest.fixture(scope="module")
def scale() -> ModuleType:
    loader = SourceFileLoader("peers_at_scale", str(ROOT / "scripts" / "peers-at-scale"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


async def marks(etcd: EtcdServer) -> int:
    """How many ``ready`` there are, of any generation."""
    async with at(etcd) as client:
        job = client.below(records.job_prefix("scale"))
        (found,) = (await job.read(Get(Prefix("ready/"), only_count=True))).got
    assert isinstance(found, Got)
    return found.count


@pytest.mark.parametrize("servers", [24, 64])
def test_a_restart_costs_each_of_many_servers_few_requests_and_the_same_bytes(
    scale: ModuleType, etcd: EtcdServer, servers: int
) -> None:
    job = scale.Job(etcd.url, servers, ROOT, TTL, [str(FEW)])
    try:
        job.all_say({"started"}, (0, 0))
        before = scale.load(etcd.url, job.processes[0].pid, job)
        for number in range(2):
            job.fail(number * 7)
            job.all_say({"fails", "told", "started"}, (number, number + 1))
        after = scale.load(etcd.url, job.processes[0].pid, job)
        ready = anyio.run(marks, etcd)
    finally:
        job.close()
    each = {what: (after[what] - before[what]) / 2 / servers for what in before}
    assert each["requests"] <= MOST_REQUESTS
    assert each["sent"] <= MOST_BYTES
    assert ready == servers
    assert job.troubles == 0
