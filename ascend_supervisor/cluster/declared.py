"""What variables declare: the cluster, and where the ranks of the job meet; values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import Device, Entry, Format, RankTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.readers import MOST_PORTS
from ascend_supervisor.untrusted_text import shown


class Framework(Enum):
    PYTORCH = "PyTorch"
    MINDSPORE = "MindSpore"
    TENSORFLOW = "TensorFlow"


class TorchStore(Struct, frozen=True):
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


Meeting = TorchStore | Scheduler | Chief


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


MOST_HOSTS = 100_000
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)


def whole(environ: Mapping[str, str], name: str) -> int | None:
    """The number that a variable holds; None where it holds none."""
    text = environ.get(name, "")
    return int(text) if _WHOLE.fullmatch(text) else None


def number(environ: Mapping[str, str], name: str, least: int, most: int, default: str = "") -> int:
    """The number that a variable holds, from ``least`` to ``most``; raises SettingsRefused."""
    text = environ.get(name) or default
    if _WHOLE.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    found = shown(text) if text else "nothing"
    raise SettingsRefused(f"{name}: expected a whole number from {least} to {most}, found {found}")


def port(environ: Mapping[str, str], name: str) -> int | None:
    """The port that a variable holds; None where it holds none."""
    found = whole(environ, name)
    return found if found is not None and 1 <= found <= MOST_PORTS else None


def node_rank_among(
    environ: Mapping[str, str], names: Sequence[str], pods: int, asked: int | None
) -> int:
    """This pod's number: ``asked`` (--node-rank), else that of the first variable that is set.

    A single pod is number 0. Raises SettingsRefused.
    """
    if asked is not None:
        if asked < pods:
            return asked
        raise SettingsRefused(
            f"--node-rank: expected a whole number from 0 to {pods - 1}, because the job has "
            f"{pods} pods, found {asked}"
        )
    for name in names:
        if environ.get(name):
            return number(environ, name, 0, pods - 1)
    if pods == 1:
        return 0
    raise SettingsRefused(
        f"{names[0]} is not set: expected the number of this pod among the {pods} of the job; "
        "give it with --node-rank"
    )


UNDER_TORCHRUN = "TORCHELASTIC_RUN_ID"
"""torchrun sets it for its workers, with their RANK and WORLD_SIZE."""
