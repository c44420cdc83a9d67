"""Volcano's variables: the hosts of each task of a job, and which of them is this pod; pure.

Its plugin svc gives every pod of the job one list of hosts for each task (VC_<TASK>_HOSTS), env
gives each a number that counts within its task (VC_TASK_INDEX), and pytorch gives each a RANK,
which counts over the Master and the Workers. ModelArts has these variables, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from ascend_supervisor.cluster.declared import (
    UNDER_TORCHRUN,
    node_rank_among,
    whole,
)
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.readers import Method

INDICES = ("VC_TASK_INDEX", "MA_TASK_INDEX", "VK_TASK_INDEX")
POD_NAMES = ("MA_CURRENT_INSTANCE_NAME", "POD_NAME", "HOSTNAME")
_LIST = re.compile(r"VC_[A-Z0-9_]+_HOSTS", re.ASCII)
_LEADERS = ("VC_MASTER_HOSTS", "VC_CHIEF_HOSTS", "VC_WORKER_HOSTS")
"""The tasks that come first, unless MASTER_ADDR names a host of another one."""


def task_hosts(environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The hosts of each task, by the name of the variable; the task of rank 0 comes first.

    All pods of a job have the same lists, so they find the same order.
    """
    lists = {name: _split(environ[name]) for name in environ if _LIST.fullmatch(name)}
    leader = environ.get("MASTER_ADDR", "")

    def order(name: str) -> tuple[bool, int, str]:
        known = _LEADERS.index(name) if name in _LEADERS else len(_LEADERS)
        return not any(_names(leader, host) for host in lists[name]), known, name

    ordered: dict[str, tuple[str, ...]] = {}
    for name in sorted(lists, key=order):
        if any(lists[name]) and lists[name] not in ordered.values():
            ordered[name] = lists[name]
    return ordered


def hosts(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Those of all tasks, in the order of the servers; one may be empty."""
    return tuple(host for of_task in task_hosts(environ).values() for host in of_task)


def has_tasks(environ: Mapping[str, str]) -> bool:
    """Whether the job has more than one task, so that an index is no number of a server."""
    return len(task_hosts(environ)) > 1


class PodPlace(Struct, frozen=True):
    """The ``number`` of a pod among ``hosts``, what it was ``told_by``, and the pod's name.

    ``numbers`` holds its number among all hosts and among those of its task, by how many they are.
    """

    told_by: str
    number: int
    pod_name: str
    numbers: Mapping[int, int]


def place(environ: Mapping[str, str], pod_name: str | None = None) -> PodPlace | None:
    """Which of ``hosts`` is this pod; None if nothing tells it.

    Its name does (``pod_name`` is that of the option), else the RANK of the pytorch plugin.
    """
    known = {"--pod-name": pod_name, **{name: environ.get(name) for name in POD_NAMES}}
    listed = hosts(environ)
    for source, name in known.items():
        for number, host in enumerate(listed):
            if name and _names(name, host):
                return _place(source, number, environ)
    rank = None if environ.get(UNDER_TORCHRUN) else whole(environ, "RANK")
    if rank is None or rank >= len(listed):
        return None
    return _place("RANK", rank, environ)


def _place(source: str, number: int, environ: Mapping[str, str]) -> PodPlace:
    listed = hosts(environ)
    in_task, numbers = number, {}
    for of_task in task_hosts(environ).values():
        if in_task < len(of_task):
            numbers[len(of_task)] = in_task
            break
        in_task -= len(of_task)
    numbers[len(listed)] = number
    return PodPlace(source, number, _pod(listed[number]), numbers)


def number_among(
    environ: Mapping[str, str], servers: int, asked: int | None, pod_name: str | None
) -> int | None:
    """The number of this pod in a job of several tasks; None for a job of one, whose index counts.

    ``asked`` is what --node-rank says. Raises SettingsRefused if nothing tells it.
    """
    if not has_tasks(environ):
        return None
    if asked is not None:
        return node_rank_among(environ, (), servers, asked)
    told = place(environ, pod_name)
    if told is None:
        raise SettingsRefused(f"which server this is: {unknown_place(environ)}")
    if told.number >= servers:
        raise SettingsRefused(
            f"MA_NUM_HOSTS: expected the number of hosts in {' and '.join(task_hosts(environ))}, "
            f"found {servers}, and this is number {told.number} of them ({told.told_by}); correct "
            "it, or give --node-rank"
        )
    return told.number


def unknown_place(environ: Mapping[str, str]) -> str:
    """Why the number of this pod is unknown, and what to do."""
    return (
        f"{' and '.join(task_hosts(environ))} name the hosts of several tasks, VC_TASK_INDEX "
        f"counts within one of them, and none of {', '.join(POD_NAMES)} is one of these hosts; "
        "set POD_NAME to the name of the pod, or give --node-rank"
    )


def own_task(method: Method, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Without the hosts of other tasks, where a method starts one task of TensorFlow in each pod.

    Its numbers count within the task.
    """
    task = environ.get("MA_TASK_NAME", "")
    if method != "tensorflow" or task not in {"ps", "worker"}:
        return environ
    own = f"VC_{task.upper()}_HOSTS"
    return {name: text for name, text in environ.items() if name == own or not _LIST.match(name)}


def host_of(environ: Mapping[str, str], pod_name: str) -> str | None:
    """The host that this pod is; None if it is in no list."""
    return next((host for host in hosts(environ) if _names(pod_name, host)), None)


def _names(name: str, host: str) -> bool:
    """Whether ``name`` is this host, its pod, or the host with the domain of the cluster."""
    return bool(host) and (name in (host, _pod(host)) or name.startswith(f"{host}."))


def _pod(host: str) -> str:
    """The pod's name: its host's without the domain."""
    return host.partition(".")[0]


def _split(text: str) -> tuple[str, ...]:
    names = text.rstrip(", ").split(",")  # a place in the middle may be empty
    return tuple(name.strip() for name in names)
