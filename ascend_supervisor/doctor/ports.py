"""The ports at which ranks of this server listen on the host.

HCCL's root of a communicator listens at 60000 (HCCL_IF_BASE_PORT) and the number of its NPU, unless
HCCL_HOST_SOCKET_PORT_RANGE names others. Its port 16666 is on the NPU's own network, which the host
does not see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ascend_supervisor.doctor.check import ThisServer, fit, warning
from ascend_supervisor.doctor.npus import npus_of
from ascend_supervisor.events.server import Result
from ascend_supervisor.phrases import run_text, runs
from ascend_supervisor.processes.tcp_ports import can_bind, held_ports
from ascend_supervisor.untrusted_text import shown

RANK_0 = "port of rank 0"
HCCL = "ports of HCCL"
BASE, RANGE = "HCCL_IF_BASE_PORT", "HCCL_HOST_SOCKET_PORT_RANGE"
USUAL_BASE = 60000
LEAST_BASE, MOST_BASE = 1024, 65520
PORTS_OF_HCCL = 32
"""So many are to be reserved, says CANN 8.5; 16, said those before it."""


def ports(server: ThisServer) -> Iterator[Result]:
    """Nothing where ranks of the job may hold them: later generations wait for that of rank 0.

    Raises OSError.
    """
    if server.part.may_hold_ports:
        return
    if server.part.port is not None:
        yield _of_rank_0(server.part.port)
    if _uses_hccl(server):
        yield _of_hccl(server)


def _of_rank_0(port: int) -> Result:
    if can_bind(port):
        return fit(RANK_0, f"{port}, which is free")
    return warning(
        RANK_0,
        f"that {port} is taken",
        "a free port, at which rank 0 can listen",
        f"end what holds it (ss -tlnp 'sport = :{port}'), or choose another with --master-port",
    )


def _uses_hccl(server: ThisServer) -> bool:
    return bool(npus_of(server)) and not server.environ.get(RANGE)


def _of_hccl(server: ThisServer) -> Result:
    base = _base(server)
    if base is None:
        return warning(
            HCCL,
            f"{BASE}={shown(server.environ[BASE])}",
            f"a whole number from {LEAST_BASE} to {MOST_BASE}",
            "correct it, or unset it",
        )
    held = held_ports(server.roots.proc / "net")
    taken = [port for port in _of_npus(server, base) if port in held]
    if not taken:
        return fit(HCCL, f"{_text(_of_npus(server, base))}, all free")
    return warning(
        HCCL,
        f"that {_text(taken)} of {_text(_of_npus(server, base))} is held by another program",
        "a free port for each NPU",
        f"end that program (ss -tanp), or set {BASE} or {RANGE}=auto",
    )


def reserved_ports(server: ThisServer) -> Iterator[Result]:
    """Whether an outgoing connection of any program may take one of HCCL's; raises OSError."""
    base = _base(server)
    if not _uses_hccl(server) or base is None:
        return
    kernel = server.roots.proc / "sys" / "net" / "ipv4"
    least, most = map(int, (kernel / "ip_local_port_range").read_text().split())
    reserved = _numbers((kernel / "ip_local_reserved_ports").read_text())
    needed = _of_npus(server, base)
    open_ = [port for port in needed if least <= port <= most and port not in reserved]
    if not open_:
        yield fit("reserved ports", f"{_text(needed)}, which no other program gets unasked")
        return
    last = base + PORTS_OF_HCCL - 1
    yield warning(
        "reserved ports",
        f"that any program's connection may take {_text(open_)} (ip_local_port_range is {least} to "
        f"{most})",
        "HCCL's ports to be reserved, as Huawei advises",
        f"sysctl -w net.ipv4.ip_local_reserved_ports={base}-{last} (with those that it has)",
    )


def _base(server: ThisServer) -> int | None:
    text = server.environ.get(BASE) or str(USUAL_BASE)
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_BASE))
    base = int(text) if is_number else 0
    return base if LEAST_BASE <= base <= MOST_BASE else None


def _of_npus(server: ThisServer, base: int) -> list[int]:
    return sorted(base + number for number in set(server.devices or npus_of(server)))


def _text(numbers: Sequence[int]) -> str:
    return ", ".join(map(run_text, runs(numbers)))


def _numbers(text: str) -> set[int]:
    """Of ``60000-60015,61000``."""
    pairs = (part.partition("-") for part in text.strip().split(",") if part)
    return {
        number for first, _, last in pairs for number in range(int(first), int(last or first) + 1)
    }
