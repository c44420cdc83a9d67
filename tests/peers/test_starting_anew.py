"""What the next generation of several servers needs: the port at which rank 0 is met."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers.cabled_servers import Cluster, cabled_servers
from tests.running import Running, wait_until
from tests.two_servers import Server

MEETING = """
import os, signal, socket, sys, time
rank, generation = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
def say(text):
    os.write(1, f"{text}\\n".encode())
if rank == 0:
    listener = socket.socket()  # without SO_REUSEADDR
    listener.bind(("", place[1]))
    listener.listen()
    other, _ = listener.accept()
    other.sendall(b"welcome")
    other.recv(1)
    if generation == 0:
        os._exit(3)  # this side closes first, so its end of the connection stays for a minute
else:
    while True:
        try:
            other = socket.create_connection(place, timeout=5)
            break
        except OSError:
            time.sleep(0.05)
    assert other.recv(7) == b"welcome"
    other.sendall(b"x")
    if generation == 0:
        other.recv(1)
        signal.pause()
say(f"rank {rank} has met the other in generation {generation}")
"""
PORT = "29500"


@pytest.fixture
def cluster(tmp_path: Path, supervised: Callable[..., Running]) -> Iterator[Cluster]:
    with cabled_servers(tmp_path, 2, 1, supervised) as made:
        yield made


def test_connections_that_hold_the_port_of_rank_0_are_waited_for(cluster):
    """Those of a program that sets no SO_REUSEADDR."""
    servers = [cluster.start(index, "--", sys.executable, "-c", MEETING) for index in (0, 1)]
    waiting = servers[0].wait_for("port.waiting")
    assert waiting["port"] == int(PORT)
    # The other side may not have closed yet.
    wait_until(lambda: "TIME-WAIT" in connections(cluster.servers[0]))
    assert not servers[1].all("generation.started", generation=1)
    forget_connections(cluster.servers[0])
    assert [server.end() for server in servers] == [0, 0]
    for rank, server in enumerate(servers):
        assert server.said(rank, 1) == [f"rank {rank} has met the other in generation 1"]
        (restart,) = server.all("restart.scheduled")
        assert restart["cause"] == "server 0: rank 0 exited with status 3"
    assert not servers[1].all("port.waiting")


def connections(server: Server, *options: str) -> str:
    """Those of this server at the port of rank 0."""
    if shutil.which("ss") is None:
        pytest.skip("ss is not installed here (Debian: iproute2)")
    words = (*server.within, "ss", *options, "-tan", f"sport = {PORT}")
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def forget_connections(server: Server) -> None:
    """As after the minute that Linux keeps them."""
    connections(server, "-K")
    if "TIME-WAIT" in connections(server):
        pytest.skip("this kernel does not let ss end connections in TIME_WAIT")
