"""ModelArts: the number of hosts, the NPUs of each, and the hosts' names; pure."""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.cluster.from_environment.declared import even_table
from ascend_supervisor.cluster.from_environment.numbers import MOST_HOSTS, number
from ascend_supervisor.cluster.rank_table import Entry, RankTable
from ascend_supervisor.settings.values import MOST_DEVICES

HOSTS = "MA_NUM_HOSTS"
HOST_NAMES = "VC_WORKER_HOSTS"
DEVICES = "MA_NUM_GPUS"
"""Of each host; NPUs too."""


def speaks(environ: Mapping[str, str]) -> bool:
    """Whether the variables say how many hosts or NPUs there are."""
    return bool(environ.get(HOSTS) or environ.get(DEVICES))


def declared_table(environ: Mapping[str, str]) -> RankTable:
    """A table with an entry for each host; raises SettingsRefused.

    Without MA_NUM_HOSTS, as many as VC_WORKER_HOSTS names: 1 would let each of them train alone.
    """
    hosts = number(environ, HOSTS, 1, MOST_HOSTS, str(hosts_named(environ) or 1))
    devices = number(environ, DEVICES, 0, MOST_DEVICES, "0")
    return even_table([Entry((), server_id=name) for name in host_names(environ, hosts)], devices)


def host_names(environ: Mapping[str, str], hosts: int) -> tuple[str | None, ...]:
    """The first names of VC_WORKER_HOSTS; missing ones are named as ModelArts names its pods."""
    listed = [name.strip() for name in environ.get(HOST_NAMES, "").split(",")]
    return tuple(
        (listed[host] if host < len(listed) else "") or _usual_name(environ, host)
        for host in range(hosts)
    )


def hosts_named(environ: Mapping[str, str]) -> int:
    """How many names VC_WORKER_HOSTS holds."""
    return sum(bool(name.strip()) for name in environ.get(HOST_NAMES, "").split(","))


def _usual_name(environ: Mapping[str, str], host: int) -> str | None:
    job, task = environ.get("MA_VJ_NAME"), environ.get("MA_TASK_NAME")
    return f"{job}-{task}-{host}.{job}" if job and task else None
