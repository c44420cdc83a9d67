"""--metrics-address under attack: probes are answered, and the ranks never notice."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

import pytest

from tests.control.asking import ask
from tests.faults.test_control import RANKS, attacker, counting, no_free_descriptor
from tests.jobs.test_metrics_address import page
from tests.metrics.test_figures import samples_of
from tests.ports import free_port
from tests.running import DEADLINE_SECONDS, python, wait_until, with_constants

CONNECT = """
import os, resource, socket, struct, sys, threading, time

most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))

def connected(buffer=None):
    client = socket.socket()
    if buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.connect(("127.0.0.1", int(sys.argv[1])))
    return client

def say(client, words):
    try:
        client.send(words)
    except OSError:
        pass  # it has made room for another one

def there():
    os.write(1, b"there\\n")
    time.sleep(600)

"""
ATTACKS = {
    "two hundred connections": "clients = [connected() for _ in range(200)]; there()",
    "two hundred who ask": """
clients = [connected() for _ in range(200)]
for client in clients:
    say(client, b"GET /metrics HTTP/1.1\\r\\n\\r\\n")
there()
""",
    "slow headers": """
clients = [connected() for _ in range(16)]
for client in clients:
    say(client, b"GET /metrics HTTP/1.1\\r\\n")
os.write(1, b"there\\n")
while True:
    for client in clients:
        say(client, b"X: y\\r\\n")
    time.sleep(0.2)
""",
    "nobody reads": """
clients = []
for _ in range(100):
    clients.append(connected(buffer=1))
    for _ in range(20):
        say(clients[-1], b"GET /metrics HTTP/1.1\\r\\n\\r\\n")
there()
""",
    "garbage": """
for words in (b"\\x16\\x03\\x01\\x02\\xfc", b"\\0" * 9000, b"\\r\\n" * 99, b"{}\\n\\n"):
    for _ in range(20):
        say(connected(), words)
there()
""",
    "posts": """
for _ in range(50):
    client = connected()
    say(client, b"POST /metrics HTTP/1.1\\r\\nContent-Length: 99999999\\r\\n\\r\\n" + b"x" * 50000)
there()
""",
    "resets": """
for _ in range(200):
    client = connected()
    say(client, b"GET /metrics HTTP/1.1\\r\\n\\r\\n")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
there()
""",
    "for ever": """
def attack():
    while True:
        try:
            connected().send(b"GET /metrics HTTP/1.1\\r\\n\\r\\n")
        except OSError:
            time.sleep(0.1)
threading.Thread(target=attack, daemon=True).start()
there()
""",
}


# A client comes over TCP, which is the same whoever we are.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_clients_do_probes_are_answered_and_no_rank_notices(bad_day, way, attack):
    port = free_port()
    with counting(bad_day, "--metrics-address", f"127.0.0.1:{port}") as (job, path):
        assert page(port, "/metrics")[0] == 200
        before, events = job.memory, list(job.events)
        with attacker(ATTACKS[attack], port, CONNECT):
            for _ in range(5):
                assert page(port, "/healthz")[0] == 200
            assert page(port, "/readyz")[0] == 200
            found = samples_of(page(port, "/metrics")[2].encode())
            assert found["ranks", "running"] == RANKS
            assert ask(path, "ping")["ok"] is True
            connections = [name for name in job.open_files if name.startswith("socket:")]
            assert len(connections) < 50
            assert job.events == events
            assert job.memory < before + (8 << 20)


GIGABYTE = """
clients = []
for _ in range(16):
    client = connected()
    clients.append(client)
    try:
        client.sendall(b"GET /metrics HTTP/1.1\\r\\nX: " + b"x" * (8 << 20))
    except OSError:
        pass
there()
"""


def test_headers_without_end_are_not_kept(bad_day, way):
    port = free_port()
    with counting(bad_day, "--metrics-address", f"127.0.0.1:{port}") as (job, _):
        assert page(port, "/metrics")[0] == 200
        before = job.memory
        with attacker(GIGABYTE, port, CONNECT):
            assert page(port, "/healthz")[0] == 200
            assert job.memory < before + (8 << 20)


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_who_sends_a_header_a_second_is_gone_after_ten(bad_day, way):
    port = free_port()
    with counting(bad_day, "--metrics-address", f"127.0.0.1:{port}") as _:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(1)
            began = time.monotonic()
            while not is_closed(client):
                assert time.monotonic() < began + DEADLINE_SECONDS
            assert time.monotonic() - began > 9
        assert page(port, "/healthz")[0] == 200


def is_closed(client: socket.socket) -> bool:
    """After a second, unless it is closed before that."""
    try:
        client.sendall(b"X: y\r\n")
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_without_a_free_descriptor_it_answers(bad_day, way):
    port = free_port()
    with counting(bad_day, "--metrics-address", f"127.0.0.1:{port}") as (job, _):
        assert page(port, "/metrics")[0] == 200
        with no_free_descriptor(job):
            for _ in range(3):
                assert page(port, "/healthz")[0] == 200


@pytest.mark.parametrize("way", ["unprivileged"], indirect=True)
def test_a_port_that_needs_a_privilege_is_refused(bad_day, way):
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 80:
        pytest.skip("everybody may have port 80 here")
    job = bad_day("--standalone", "1", "--metrics-address", "127.0.0.1:80", *python("pass"))
    assert job.end() == 69
    assert job.all("supervisor.exited")[0]["reason"] == (
        "--metrics-address 127.0.0.1:80: only a privileged user may have a port below 1024; choose "
        "a higher one"
    )


def test_a_job_ends_at_once_while_clients_wait(bad_day, way):
    """They might wait for an hour."""
    patient = with_constants(metrics_metrics_address__REQUEST_SECONDS=3600.0)
    port = free_port()
    words = ("--standalone", "1", "--metrics-address", f"127.0.0.1:{port}")
    job = bad_day(*words, *python("import time; print('up'); time.sleep(600)"), program=patient)
    wait_until(lambda: job.all("process.started"))
    with attacker(ATTACKS["slow headers"], port, CONNECT):
        job.send(signal.SIGTERM)
        assert job.end() == 143
