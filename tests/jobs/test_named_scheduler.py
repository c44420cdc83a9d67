"""MindSpore on two servers that are known by name: the scheduler gets an address of its server."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.running import Running
from tests.two_servers import Server, on_each, two_servers

NAMES = "w-0.job,w-1.job"
SERVICE = "192.0.2.7"
"""An address that neither server has."""
WORKER = """\
import os, sys, time
if os.environ["MS_ROLE"] == "MS_SCHED":
    time.sleep(1)  # it ends by itself, after the workers
    sys.exit()
print("scheduler at", os.environ["MS_SCHED_HOST"])
"""
MSRUN = """\
#!/bin/sh
for word; do
    case $word in
        --master_addr=*) address=${word#*=} ;;
        --node_rank=*) rank=${word#*=} ;;
        --log_dir=*) directory=${word#*=} ;;
    esac
done
echo "scheduler at $address" >"$directory/worker_$rank.log"
"""


class Hosts:
    """What the resolver of each server knows: its own /etc/hosts."""

    def __init__(self, servers: tuple[Server, Server]) -> None:
        self._paths = [Path("/etc/netns", server.name, "hosts") for server in servers]
        for path in self._paths:
            path.parent.mkdir(parents=True)
            path.write_text("127.0.0.1 localhost\n")

    def add(self, server: int, *addresses: str) -> None:
        """``addresses`` of the first server, as ``server`` sees them."""
        with self._paths[server].open("a") as file:
            file.writelines(f"{address} w-0.job\n" for address in addresses)

    def remove(self) -> None:
        for path in self._paths:
            shutil.rmtree(path.parent)


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    with two_servers() as both:
        yield both


@pytest.fixture
def hosts(servers: tuple[Server, Server]) -> Iterator[Hosts]:
    known = Hosts(servers)
    yield known
    known.remove()


@pytest.fixture(params=["mindspore", "msrun"])
def start(
    request: pytest.FixtureRequest,
    servers: tuple[Server, Server],
    hosts: Hosts,
    supervised: Callable[..., Running],
    tmp_path: Path,
) -> Callable[[], list[Running]]:
    msrun, worker = tmp_path / "bin" / "msrun", tmp_path / "worker.py"
    msrun.parent.mkdir()
    msrun.write_text(MSRUN)
    msrun.chmod(0o755)
    worker.write_text(WORKER)
    environ = {
        "PATH": f"{msrun.parent}:/usr/bin:/bin",
        "MA_NUM_GPUS": "1",
        "VC_WORKER_HOSTS": NAMES,
    }
    words = ("--method", request.param, "--grace", "1")
    words = (*words, "--", *((sys.executable,) if request.param == "mindspore" else ()))

    def both() -> list[Running]:
        return on_each(
            servers, supervised, tmp_path, *words, str(worker), deadline=30.0, environ=environ
        )

    return both


def told(job: Running) -> list[str]:
    return [event["msg"] for event in job.all("output")]


def test_each_server_gets_an_address_that_suits_it(start, hosts, servers):
    """The first one takes an address of its own; the other cannot tell them apart."""
    first = servers[0].address
    hosts.add(0, "127.0.1.1", SERVICE, first)
    hosts.add(1, SERVICE)
    jobs = start()
    assert [job.end() for job in jobs] == [0, 0]
    assert [told(job) for job in jobs] == [[f"scheduler at {first}"], [f"scheduler at {SERVICE}"]]


def test_a_name_is_waited_for(start, hosts, servers):
    hosts.add(0, servers[0].address)
    head, other = start()
    assert head.end() == 0
    waiting = other.wait_for("diagnostic", source="'w-0.job'")
    assert waiting["message"].startswith("the name has no address yet: ")
    assert not other.all("process.started")
    hosts.add(1, servers[0].address)
    assert other.end() == 0
    assert told(other) == [f"scheduler at {servers[0].address}"]
    assert len(other.all("diagnostic")) == 1


def test_the_wait_for_a_name_ends_when_told_to_stop(start):
    for job in start():
        job.wait_for("diagnostic", source="'w-0.job'")
        job.send(signal.SIGTERM)
        assert job.end() == 143
        assert not job.all("process.started")
