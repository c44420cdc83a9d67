"""The records of a job live as long as one of its servers does; their lease is kept in turn."""

from __future__ import annotations

import json
import signal
import time
from base64 import b64decode

import pytest

from ascend_supervisor.coordination.agreement.records import job_prefix, lease_of
from tests.etcd.servers import EtcdServer
from tests.peers.servers import Job, with_shorter
from tests.running import wait_until

LEASE, TURN = 10, 1
"""Seconds that the records live, in truth an hour; and between two turns of a server."""
PROGRAM = with_shorter(
    f"coordination.peers.store.JOB_LEASE_SECONDS={LEASE}",
    f"coordination.peers.session.JOB_SECONDS={TURN}",
    f"coordination.peers.session.MOST_JOB_SECONDS={TURN}",
)
LONG = ("--peers-fence", "120", "--peers-timeout", "240")


def records(etcd: EtcdServer) -> dict[str, bytes]:
    """Those of the job, without what lives with one server."""
    found = json.loads(etcd.control("get", "--prefix", job_prefix("test"), "-w", "json"))
    kept = {b64decode(one["key"]).decode(): one for one in found.get("kvs", ())}
    epoch = json.loads(b64decode(kept[job_prefix("test") + "epoch"]["value"]))
    lease = lease_of(epoch["job"])
    values = ((key, b64decode(one["value"])) for key, one in kept.items() if one["lease"] == lease)
    return {key.removeprefix(job_prefix("test")): value for key, value in values}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "stops"])
def test_where_servers_that_kept_the_lease_die_or_stop_the_last_one_keeps_it(
    job: Job, etcd: EtcdServer, number: signal.Signals
):
    job.servers = [job.start(index, *LONG, program=PROGRAM) for index in range(3)]
    job.all_up(0)
    before = records(etcd)
    assert {"epoch", "about", *(f"server/{index}" for index in range(3))} <= before.keys()
    for server in job.servers[:2]:
        server.send(number)
    job.servers[2].wait_for("peers.waiting")
    time.sleep(2.5 * LEASE)
    after = records(etcd)
    assert before.keys() <= after.keys() | {f"ready/0/{index}" for index in range(3)}
    assert json.loads(after["epoch"])["job"] == json.loads(before["epoch"])["job"]
    for index, server in enumerate(job.servers[:2]):
        if number is signal.SIGKILL:
            job.servers[index] = job.start(index, *LONG, program=PROGRAM)
        else:
            server.send(signal.SIGCONT)
    last = job.servers[2].wait_for("process.started", generation=1)["generation"]
    job.all_up(last)
    (restart,) = job.servers[2].all("restart.scheduled")
    assert restart["restarts_left"] == 2
    job.succeed(last)


def test_without_any_server_they_are_gone_after_their_lease(job: Job, etcd: EtcdServer):
    """So the test above sees what it is to see."""
    servers = [job.start(index, *LONG, program=PROGRAM) for index in range(3)]
    for server in servers:
        server.wait_for("process.started")
    assert records(etcd)
    for server in servers:
        server.send(signal.SIGKILL)
    prefix = ("get", "--prefix", "--keys-only", job_prefix("test"))
    wait_until(lambda: not etcd.control(*prefix).strip())
