"""ModelArts: the number of hosts, the NPUs of each, and the hosts' names; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ascend_supervisor.cluster import volcano
from ascend_supervisor.cluster.declared import (
    MOST_HOSTS,
    even_table,
    number,
    whole,
)
from ascend_supervisor.cluster.rank_table import Entry, RankTable
from ascend_supervisor.settings.readers import MOST_DEVICES
from ascend_supervisor.untrusted_text import shown

HOSTS = "MA_NUM_HOSTS"
DEVICES = "MA_NUM_GPUS"
"""Of each host; NPUs too."""


def speaks(environ: Mapping[str, str]) -> bool:
    """Whether the variables say how many hosts or NPUs there are."""
    return bool(environ.get(HOSTS) or environ.get(DEVICES))


def declared_table(environ: Mapping[str, str]) -> RankTable:
    """A table with an entry for each host; raises SettingsRefused.

    Without MA_NUM_HOSTS, as many as VC_<TASK>_HOSTS name: 1 would let each of them train alone.
    """
    hosts = number(environ, HOSTS, 1, MOST_HOSTS, str(hosts_named(environ) or 1))
    devices = number(environ, DEVICES, 0, MOST_DEVICES, "0")
    return even_table([Entry((), server_id=name) for name in host_names(environ, hosts)], devices)


def host_names(environ: Mapping[str, str], hosts: int) -> tuple[str | None, ...]:
    """The first names of VC_<TASK>_HOSTS; missing ones are named as ModelArts names its pods."""
    listed = volcano.hosts(environ)
    return tuple(
        (listed[host] if host < len(listed) else "") or _usual_name(environ, host)
        for host in range(hosts)
    )


def hosts_named(environ: Mapping[str, str]) -> int:
    """How many names VC_<TASK>_HOSTS hold."""
    return sum(map(bool, volcano.hosts(environ)))


def servers_told(environ: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Each variable that tells how many hosts the job has, as text, and their number."""
    if told := whole(environ, HOSTS):
        yield f"{HOSTS}={told}", told
    lists = (f"{name}={shown(environ[name])}" for name in volcano.task_hosts(environ))
    yield " and ".join(lists), hosts_named(environ)


def _usual_name(environ: Mapping[str, str], host: int) -> str | None:
    if volcano.has_tasks(environ):
        return None
    job, task = environ.get("MA_VJ_NAME"), environ.get("MA_TASK_NAME")
    return f"{job}-{task}-{host}.{job}" if job and task else None
