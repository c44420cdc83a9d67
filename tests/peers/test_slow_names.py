"""The name of etcd is looked up at name servers that are dead, in a network of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ascend_supervisor.processes.pid import Pid
from tests.etcd.servers import PROGRAM, EtcdServer
from tests.peers import name_server
from tests.peers.servers import RANK
from tests.running import Running, wait_until
from tests.two_servers import Server, switch_and_servers

NETNS = Path("/etc/netns")
"""``ip netns exec NAME`` puts NAME/resolv.conf there in the place of the machine's."""
FIRST, SECOND = "127.0.0.53", "127.0.0.54"


class Network:
    """One machine with an etcd and two name servers, of which the first is dead."""

    def __init__(
        self, root: Path, machine: Server, etcd: EtcdServer, supervised: Callable[..., Running]
    ) -> None:
        self.etcd = etcd
        self._root = root
        self._machine = machine
        self._supervised = supervised
        self._names = [self._name_server(address) for address in (FIRST, SECOND)]
        self.silence(0)

    def silence(self, number: int) -> None:
        self._names[number].send_signal(signal.SIGSTOP)

    def find(self, number: int) -> None:
        self._names[number].send_signal(signal.SIGCONT)

    def start(self, *words: str, own: tuple[str, ...] = ("--server-id", "127.0.0.1")) -> Running:
        """A supervisor with one rank; it asks for a name each second at most."""
        return self._supervised(
            *("--servers", "1", "--standalone", "1", *own),
            *("--peers", "http://etcd.test:2379", "--peers-job", "test", "--release-delay", "0"),
            *("--peers-ttl", "4", "--peers-fence", "30", "--peers-timeout", "90"),
            *("--restart-delay", "0", "--restart-delay-max", "1", *words),
            *("--", sys.executable, "-c", RANK),
            root=self._root,
            before=self._machine.within,
            deadline=60.0,
        )

    def close(self) -> None:
        for one in self._names:
            one.kill()
            one.communicate()

    def _name_server(self, address: str) -> subprocess.Popen[bytes]:
        words = (*self._machine.within, sys.executable, name_server.__file__, address, "127.0.0.1")
        started = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        return started


@pytest.fixture
def network(tmp_path: Path, supervised: Callable[..., Running]) -> Iterator[Network]:
    if PROGRAM is None:
        pytest.skip("etcd is not installed here (Debian: etcd-server)")
    with switch_and_servers(1) as (machine, _):
        settings = NETNS / machine.name
        settings.mkdir(parents=True)
        names = "".join(f"nameserver {address}\n" for address in (FIRST, SECOND))
        (settings / "resolv.conf").write_text(names)
        etcd = EtcdServer(tmp_path / "etcd", port=2379, before=machine.within)
        made = None
        try:
            etcd.start()
            made = Network(tmp_path, machine, etcd, supervised)
            yield made
        finally:
            if made is not None:
                made.close()
            etcd.kill()
            shutil.rmtree(settings)


def test_a_name_whose_look_up_takes_longer_than_a_request_is_found(network):
    """The first name server is given up after 5 s, and a connection has 0.5 s."""
    server = network.start()
    told = server.wait_for("peers.unreachable")["reason"]
    assert told.startswith(
        "no etcd answers: http://etcd.test:2379: the look-up of its name has had"
    )
    server.wait_for("output", msg="rank 0 runs")
    os.kill(server.wait_for("process.started")["child_pid"], signal.SIGUSR2)
    assert server.end() == 0


def test_an_etcd_that_starts_again_is_found_without_any_name_server(network):
    server = network.start()
    server.wait_for("output", msg="rank 0 runs")
    rank = Pid.of(server.wait_for("process.started")["child_pid"])
    network.silence(1)
    server.wait_for("peers.reachable")
    seen = len(server.all("peers.unreachable"))
    network.etcd.kill()
    wait_until(lambda: len(server.all("peers.unreachable")) > seen)
    network.etcd.start()
    wait_until(lambda: len(server.all("peers.reachable")) > seen)
    assert rank is not None
    assert rank.lives
    os.kill(server.wait_for("process.started")["child_pid"], signal.SIGUSR2)
    assert server.end() == 0
    assert not server.all("restart.scheduled")


def test_a_name_that_is_never_found_is_told_as_the_reason(network):
    network.silence(1)
    server = network.start("--peers-fence", "15", "--peers-timeout", "20")
    assert server.end() == 69
    told = server.events[-1]["reason"]
    assert "its name has no address" in told or "the look-up of its name has had no answer" in told


def test_a_server_that_asks_the_name_of_etcd_for_its_own_address_waits_for_it(network):
    """As in a pod that starts before its name server knows etcd."""
    network.silence(1)
    server = network.start(own=())
    server.wait_for("peers.unreachable")
    network.find(1)
    server.wait_for("output", msg="rank 0 runs")
    os.kill(server.wait_for("process.started")["child_pid"], signal.SIGUSR2)
    assert server.end() == 0
    assert len(server.all("peers.unreachable")) == 1
