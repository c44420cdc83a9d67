"""The next generation waits for the port of rank 0; sockets are real, time is not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath

import anyio
import pytest
from msgspec.structs import replace

from ascend_supervisor.events import Event
from ascend_supervisor.events.leftovers import PortWaiting, WaitEnded
from ascend_supervisor.life import Plan
from ascend_supervisor.probes.rendezvous import MOST_SECONDS, OwnPort, Rendezvous
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes.tcp_ports import can_bind
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.clocks import LeapingClock
from tests.probes.lives import life
from tests.running import DEADLINE_SECONDS


def listener(*, reuses: bool, port: int = 0) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuses))
    made.bind(("127.0.0.1", port))
    made.listen()
    return made


def port_of(made: socket.socket) -> int:
    port: int = made.getsockname()[1]
    return port


def plan(port: int, generation: int) -> Plan:
    start = replace(life().plan.start, generation=generation)
    here = PurePath("/")
    return Plan(start, (ProcessSpec((), here, here), ProcessSpec((), here, here, port=port)))


@pytest.mark.parametrize("reuses", [True, False])
def test_a_port_with_closed_connections_can_be_bound_if_their_listener_allows_it(reuses):
    with listener(reuses=reuses) as listening:
        port = port_of(listening)
        with socket.create_connection(("127.0.0.1", port)) as other:
            ours, _ = listening.accept()
            ours.close()
            listening.close()
            assert other.recv(1) == b""
    assert can_bind(port) == reuses


async def test_a_port_is_waited_for_before_a_restart_and_told():
    events: list[Event] = []
    with listener(reuses=True) as before:
        port = port_of(before)

    def report(event: Event) -> None:
        events.append(event)
        taken.close()

    rendezvous = Rendezvous(MonotonicClock(), report)
    await rendezvous.ready(plan(port, 0))
    assert events == []
    with listener(reuses=True, port=port) as taken, anyio.fail_after(20):
        await rendezvous.released()
    waiting, ended = events
    assert isinstance(waiting, PortWaiting)
    assert waiting.port == port
    assert isinstance(ended, WaitEnded)


async def test_who_takes_the_place_of_another_supervisor_waits_before_its_first_start():
    events: list[Event] = []
    with listener(reuses=True) as listening:
        rendezvous = Rendezvous(LeapingClock(), events.append)
        await rendezvous.ready(plan(port_of(listening), 1))
    assert [type(event) for event in events] == [PortWaiting, WaitEnded]


async def test_a_port_that_is_never_released_is_waited_for_until_the_limit():
    events: list[Event] = []
    with listener(reuses=True) as listening:
        rendezvous = Rendezvous(LeapingClock(), events.append)
        await rendezvous.ready(plan(port_of(listening), 1))
    ended = events[-1]
    assert isinstance(ended, WaitEnded)
    assert MOST_SECONDS <= ended.waited_seconds < MOST_SECONDS + 1


async def test_a_port_that_was_taken_before_the_first_generation_is_not_waited_for():
    events: list[Event] = []
    with listener(reuses=True) as listening:
        rendezvous = Rendezvous(LeapingClock(), events.append)
        await rendezvous.ready(plan(port_of(listening), 0))
        await rendezvous.released()
        await rendezvous.ready(plan(port_of(listening), 1))
    assert events == []


def test_a_job_keeps_the_usual_port_and_the_next_one_gets_another():
    with listener(reuses=True) as before:
        usual = port_of(before)
    one, other = OwnPort(usual), OwnPort(usual)
    assert (one(), one()) == (usual, usual)
    theirs = other()
    assert theirs not in {None, usual}
    for port in (usual, theirs):
        for _ in range(2):  # in every generation
            listener(reuses=True, port=port).close()
    one.close()
    other.close()
    third = OwnPort(usual)
    assert third() == usual
    third.close()


def test_a_port_where_somebody_listens_is_not_kept():
    with listener(reuses=True) as taken:
        ours = OwnPort(port_of(taken))
        assert ours() not in {None, port_of(taken)}
        ours.close()


def test_of_many_jobs_that_start_at_once_each_gets_a_port_of_its_own():
    with listener(reuses=True) as before:
        usual = port_of(before)
    ours = [OwnPort(usual) for _ in range(50)]
    with ThreadPoolExecutor(8) as threads:
        ports = list(threads.map(lambda own: own(), ours))
    for own in ours:
        own.close()
    assert len({*ports}) == len(ports)
    assert usual in ports


def test_a_job_that_starts_does_not_hold_the_port_of_another_for_a_moment():
    with listener(reuses=True) as before:
        usual = port_of(before)
    kept = OwnPort(usual)
    assert kept() == usual
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(lambda: [OwnPort(usual)._take(usual) for _ in range(5000)])
        while not starting.done():
            assert can_bind(usual)
    assert set(starting.result()) == {None}
    kept.close()


FEW_PORTS = """\
import socket
from pathlib import Path
from ascend_supervisor.probes.rendezvous import OwnPort
Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("50000 50007")
kept = [OwnPort(50000 + number) for number in range(4)]
assert [own() for own in kept] == [50000, 50001, 50002, 50003]
for _ in range(40):
    another = OwnPort(50000)
    assert another() in range(50004, 50008)
    another.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
def test_a_port_that_another_job_keeps_is_no_free_one():
    command = ("unshare", "--net", sys.executable, "-c", FEW_PORTS)
    subprocess.run(command, check=True, timeout=DEADLINE_SECONDS)


def test_a_method_without_a_usual_port_keeps_none():
    assert OwnPort(None)() is None
