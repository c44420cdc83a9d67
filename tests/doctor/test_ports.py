"""Ports that are taken by real listeners, and those that the kernel may give to anybody."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ascend_supervisor.doctor.check import PartInJob
from ascend_supervisor.doctor.ports import ports, reserved_ports
from tests.doctor.servers import only, server
from tests.doctor.test_devices import with_npus
from tests.ports import free_port
from tests.running import python


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("", free_port()))
        listener.listen()
        yield listener.getsockname()[1]


def test_the_port_of_rank_0_that_another_program_holds_is_told(tmp_path, taken):
    row = only(ports(server(tmp_path, part=PartInJob(port=taken))))
    assert row.sentence == (
        f"port of rank 0: found that {taken} is taken, expected a free port, at which rank 0 can "
        f"listen; end what holds it (ss -tlnp 'sport = :{taken}'), or choose another with "
        "--master-port"
    )
    assert row.verdict == "warning"
    assert only(ports(server(tmp_path, part=PartInJob(port=free_port())))).verdict == "fit"


def test_a_port_that_ranks_of_the_job_may_hold_is_not_told(tmp_path, taken):
    part = PartInJob(port=taken, may_hold_ports=True)
    assert list(ports(server(tmp_path, part=part))) == []


def test_a_port_of_hccl_that_another_program_holds_is_told(tmp_path, taken):
    environ = {"HCCL_IF_BASE_PORT": str(taken - 2)}
    found = with_npus(tmp_path, *range(4), devices=(0, 1, 2, 3), environ=environ)
    found = replace(found, roots=replace(found.roots, proc=Path("/proc")))
    row = only(ports(found))
    assert row.verdict == "warning"
    assert row.found == f"that {taken} of {taken - 2}-{taken + 1} is held by another program"
    assert only(ports(replace(found, devices=(0,)))).verdict == "fit"
    free = {**environ, "HCCL_HOST_SOCKET_PORT_RANGE": "auto"}
    assert list(ports(replace(found, environ=free))) == []


def test_without_npus_no_port_of_hccl_is_looked_at(tmp_path, taken):
    assert list(ports(server(tmp_path, environ={"HCCL_IF_BASE_PORT": str(taken)}))) == []


@pytest.mark.parametrize("wrong", ["0", "65521", "x", "60 000", "9" * 30])
def test_a_base_port_that_hccl_refuses_is_told(tmp_path, wrong):
    row = only(ports(with_npus(tmp_path, 0, environ={"HCCL_IF_BASE_PORT": wrong})))
    assert row.expected == "a whole number from 1024 to 65520"


@pytest.mark.parametrize(
    ("reserved", "verdict"),
    [("\n", "warning"), ("60000-60015\n", "fit"), ("8080,60000,60001-60003\n", "fit")],
)
def test_ports_of_hccl_that_any_connection_may_get_are_told(tmp_path, reserved, verdict):
    found = with_npus(tmp_path, 0, 3)
    kernel = found.roots.proc / "sys" / "net" / "ipv4"
    kernel.mkdir(parents=True)
    (kernel / "ip_local_port_range").write_text("32768\t60999\n")
    (kernel / "ip_local_reserved_ports").write_text(reserved)
    row = only(reserved_ports(found))
    assert row.verdict == verdict
    assert "60000, 60003" in row.found
    assert verdict == "fit" or "ip_local_reserved_ports=60000-60031 " in row.remedy


def test_a_taken_port_of_rank_0_is_told_before_the_first_generation(supervised, taken):
    job = supervised("--standalone", "1", "--master-port", str(taken), *python(""))
    assert job.end() == 0
    (event,) = job.all("server.checked")
    (told,) = event["warnings"]
    assert told.startswith(f"port of rank 0: found that {taken} is taken")
    assert event["seq"] < job.all("generation.started")[0]["seq"]
