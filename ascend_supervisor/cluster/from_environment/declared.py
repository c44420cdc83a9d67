"""What variables declare: the cluster, and where the ranks of the job meet; values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import Device, Entry, Format, RankTable


class Framework(Enum):
    PYTORCH = "PyTorch"
    MINDSPORE = "MindSpore"
    TENSORFLOW = "TensorFlow"


class Store(Struct, frozen=True):
    """torch's store, where PyTorch ranks meet.

    The host may be the address of a service. No pod has such an address on an interface.
    """

    host: str
    port: int | None


class Scheduler(Struct, frozen=True):
    """The job's MindSpore scheduler; ``is_here``: it is to run in this pod.

    In other pods the host is the address of its service.
    """

    host: str
    port: int | None
    is_here: bool


class Chief(Struct, frozen=True):
    """The device at which TensorFlow ranks meet, in CM_CHIEF_IP and CM_CHIEF_PORT."""

    host: str
    port: int | None


Meeting = Store | Scheduler | Chief


class Declared(Struct, frozen=True):
    """A cluster that variables declare; ``evidence`` is a variable and its value, for messages.

    ``node_rank`` is None where the names of this machine tell it. ``framework`` is that of the
    ranks, if the variables are made for one.
    """

    table: RankTable
    node_rank: int | None = None
    framework: Framework | None = None
    evidence: str = ""


def even_table(pods: Sequence[Entry], devices: int) -> RankTable:
    """A table in which each of ``pods`` has so many devices, in the order of the ranks.

    The ranks get no file, because no device's address is known.
    """
    entries = tuple(replace(pod, devices=_devices(node, devices)) for node, pod in enumerate(pods))
    return RankTable(
        format=Format.DECLARED,
        entries=entries,
        world_size=len(pods) * devices,
        servers=len(pods),
        document=b"",
    )


def _devices(node_rank: int, devices: int) -> tuple[Device, ...]:
    return tuple(Device(node_rank * devices + index, index, None) for index in range(devices))


def numbered_pods(pods: int) -> tuple[Entry, ...]:
    """Pods of which only the number is known."""
    return tuple(Entry((), pod_name=f"pod {number}") for number in range(pods))
