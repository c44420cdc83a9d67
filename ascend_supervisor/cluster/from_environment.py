"""What variables of the platform say of the cluster, and what they rule out here; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ascend_supervisor.cluster.rank_table import Device, Entry, Format, RankTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.values import MOST_DEVICES
from ascend_supervisor.untrusted_text import shown

HOSTS = "MA_NUM_HOSTS"
HOST_NAMES = "VC_WORKER_HOSTS"
DEVICES = "MA_NUM_GPUS"
"""Of each host; NPUs too."""
MOST_HOSTS = 100_000
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)


def check_pod(environ: Mapping[str, str]) -> None:
    """Raise SettingsRefused in a pod that has no ranks: MindSpore's Scheduler, without NPUs.

    With a rank table it would match another pod's entry and start that pod's ranks.
    """
    if environ.get("MS_ROLE") == "MS_SCHED" and environ.get("NPU_POD") != "true":
        raise SettingsRefused(
            "MS_ROLE=MS_SCHED: this pod is the MindSpore Scheduler of its job and has no ranks, "
            "and this version cannot run a Scheduler; run its command without the supervisor, or "
            "unset MS_ROLE if this pod has ranks of its own"
        )


SIZES = (
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("MS_WORKER_NUM", "MS_LOCAL_WORKER"),
    ("CM_WORKER_SIZE", "CM_LOCAL_WORKER"),
)
"""Variables of Ascend Operator, by framework: the devices of the job, and those of a pod.

The first alone says nothing: operators give it different meanings.
"""


def check_alone(environ: Mapping[str, str]) -> None:
    """Raise SettingsRefused where the job has several pods, so that none of them is alone."""
    told = tuple(_several_pods(environ))
    if told:
        names = ", ".join(told)
        raise SettingsRefused(
            f"--standalone: expected a job of one pod, found {names}: each pod would train alone; "
            "leave --standalone out, or unset these variables if that is what you mean"
        )


def _several_pods(environ: Mapping[str, str]) -> Iterator[str]:
    for whole, part in SIZES:
        if _count(environ, whole) > _count(environ, part) > 0:
            yield f"{whole}={environ[whole]} with {part}={environ[part]}"
    if _count(environ, HOSTS) > 1:
        yield f"{HOSTS}={environ[HOSTS]}"
    hosts = environ.get(HOST_NAMES, "")
    if sum(bool(name.strip()) for name in hosts.split(",")) > 1:
        yield f"{HOST_NAMES}={shown(hosts)}"


def _count(environ: Mapping[str, str], name: str) -> int:
    """The number that a variable holds; 0 where it holds none."""
    text = environ.get(name, "")
    return int(text) if _WHOLE.fullmatch(text) else 0


def declared_table(environ: Mapping[str, str]) -> RankTable | None:
    """A table with an entry for each host; None where the variables do not say how many there are.

    The ranks get no file, because no address is known. Raises SettingsRefused.
    """
    if not environ.get(HOSTS) and not environ.get(DEVICES):
        return None
    hosts = _number(environ, HOSTS, "1", 1, MOST_HOSTS)
    devices = _number(environ, DEVICES, "0", 0, MOST_DEVICES)
    entries = tuple(
        Entry(
            tuple(Device(host * devices + index, index, None) for index in range(devices)),
            server_id=name,
        )
        for host, name in enumerate(host_names(environ, hosts))
    )
    return RankTable(
        format=Format.DECLARED,
        entries=entries,
        world_size=hosts * devices,
        servers=hosts,
        document=b"",
    )


def host_names(environ: Mapping[str, str], hosts: int) -> tuple[str | None, ...]:
    """The first names of VC_WORKER_HOSTS; missing ones are named as ModelArts names its pods."""
    listed = [name.strip() for name in environ.get(HOST_NAMES, "").split(",")]
    return tuple(
        (listed[host] if host < len(listed) else "") or _usual_name(environ, host)
        for host in range(hosts)
    )


def _usual_name(environ: Mapping[str, str], host: int) -> str | None:
    job, task = environ.get("MA_VJ_NAME"), environ.get("MA_TASK_NAME")
    return f"{job}-{task}-{host}.{job}" if job and task else None


def _number(environ: Mapping[str, str], name: str, default: str, least: int, most: int) -> int:
    text = environ.get(name) or default
    if _WHOLE.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    raise SettingsRefused(
        f"{name}: expected a whole number from {least} to {most}, found {shown(text)}"
    )
