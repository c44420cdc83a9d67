"""One rank of a trial: opens its device, adds up with all others; a program of its own.

    trial_rank.py KIND STEPS
    trial_rank.py versions

It runs in the user's interpreter (3.7 and later) and imports nothing of ours. KIND is what adds up:
torch_npu (HCCL), mindspore, gloo (torch on the CPU), or plain (sockets of Python). Each step is one
all-reduce, and a line says that it was right. ``versions`` prints which packages are there, as a
line of JSON, and imports none of them.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import struct
import sys
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Callable  # noqa: UP035  (of 3.7)

PACKAGES = ("torch", "torch_npu", "mindspore")
MEET_SECONDS = 120
STEP_SECONDS = 0.1
NUMBER = struct.Struct("d")

Reduce = Callable[[float], float]
"""Takes the number of this rank, gives the sum of those of all ranks."""


def versions() -> dict[str, str]:
    """Of Python and the PACKAGES that are there; "?" where a package does not say it."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        if find_spec(name) is not None:
            found[name] = "?"
            with suppress(Exception):  # importlib has it from 3.8 on
                found[name] = imported("importlib.metadata").version(name)
    return found


def imported(name: str) -> Any:
    """A package of the user, which is not everywhere."""
    return import_module(name)


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def with_torch(rank: int, size: int, device: str) -> Reduce:
    """Adds up on this device, which it opens."""
    torch, dist = imported("torch"), imported("torch.distributed")
    backend = "gloo"
    if device.startswith("npu"):
        imported("torch_npu").npu.set_device(device)
        backend = "hccl"
    patience = timedelta(seconds=MEET_SECONDS)
    dist.init_process_group(backend, rank=rank, world_size=size, timeout=patience)

    def reduce(number: float) -> float:
        tensor = torch.tensor([number], device=device)
        dist.all_reduce(tensor)
        return float(tensor.item())  # waits for the device

    return reduce


def with_mindspore(target: str) -> tuple[int, int, Reduce]:
    """Adds up on the device of this rank, or on the CPU; the scheduler says which rank it is."""
    ms = imported("mindspore")
    if hasattr(ms, "set_device"):  # from 2.5 on
        ms.set_device(target)
    else:
        ms.set_context(device_target=target)
    group = imported("mindspore.communication")
    group.init()
    add = imported("mindspore.ops").AllReduce()

    def reduce(number: float) -> float:
        return float(add(ms.Tensor([number], ms.float32)).asnumpy()[0])

    return group.get_rank(), group.get_group_size(), reduce


def with_sockets(rank: int, size: int) -> Reduce:
    """Rank 0 adds up, and the others ask it."""
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(place)
            server.listen(size)
            server.settimeout(MEET_SECONDS)
            others = [server.accept()[0] for _ in range(size - 1)]
    else:
        others = [connected(place)]
    for other in others:
        other.settimeout(None)

    def reduce(number: float) -> float:
        if rank:
            others[0].sendall(NUMBER.pack(number))
            return received(others[0])
        total = number + sum(map(received, others))
        for other in others:
            other.sendall(NUMBER.pack(total))
        return total

    return reduce


def connected(place: tuple[str, int]) -> socket.socket:
    """A connection to rank 0, which may start later."""
    end = time.monotonic() + MEET_SECONDS
    while True:
        try:
            return socket.create_connection(place, MEET_SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def received(other: socket.socket) -> float:
    content = other.recv(NUMBER.size, socket.MSG_WAITALL)
    if len(content) < NUMBER.size:
        raise ConnectionError("another rank has closed its connection")
    return float(NUMBER.unpack(content)[0])


def run(kind: str, steps: int) -> None:
    """Print a line for each step; raises what a framework raises, and ArithmeticError."""
    began = time.monotonic()
    if kind.startswith("mindspore"):
        rank, size, reduce = with_mindspore("CPU" if kind.endswith("cpu") else "Ascend")
    else:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        device = f"npu:{os.environ['LOCAL_RANK']}" if kind == "torch_npu" else "cpu"
        is_plain = kind == "plain"
        reduce = with_sockets(rank, size) if is_plain else with_torch(rank, size, device)
    expected = size * (size + 1) / 2
    seconds = time.monotonic() - began
    tell(f"rank {rank} of {size} ({kind}) can add up after {seconds:.1f} s")
    for step in range(1, steps + 1):
        found = reduce(rank + 1.0)
        if found != expected:
            raise ArithmeticError(f"expected the sum {expected:g}, found {found:g}")
        tell(f"all-reduce {step}: {size} ranks add up to {found:g}")
        time.sleep(STEP_SECONDS)


def main() -> None:
    if sys.argv[1] == "versions":
        tell(json.dumps(versions()))
        return
    status = 1
    try:
        run(sys.argv[1], int(sys.argv[2]))
        status = 0
    except Exception:  # noqa: BLE001  (the supervisor tells its last lines)
        traceback.print_exc()
    os._exit(status)  # some frameworks hang where they take their process group apart


if __name__ == "__main__":
    main()
