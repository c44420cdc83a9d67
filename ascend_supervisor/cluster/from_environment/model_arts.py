"""ModelArts: the number of hosts, the NPUs of each, and the hosts' names; pure."""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.cluster.from_environment.numbers import MOST_HOSTS, number
from ascend_supervisor.cluster.rank_table import Device, Entry, Format, RankTable
from ascend_supervisor.settings.values import MOST_DEVICES

HOSTS = "MA_NUM_HOSTS"
HOST_NAMES = "VC_WORKER_HOSTS"
DEVICES = "MA_NUM_GPUS"
"""Of each host; NPUs too."""


def declared_table(environ: Mapping[str, str]) -> RankTable | None:
    """A table with an entry for each host; None where the variables do not say how many there are.

    The ranks get no file, because no address is known. Raises SettingsRefused.
    """
    if not environ.get(HOSTS) and not environ.get(DEVICES):
        return None
    hosts = number(environ, HOSTS, 1, MOST_HOSTS, "1")
    devices = number(environ, DEVICES, 0, MOST_DEVICES, "0")
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
