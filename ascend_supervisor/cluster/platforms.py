"""Which platform's variables count, what they rule out here, and where ranks meet; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Literal

from ascend_supervisor.cluster import ascend_operator, kubeflow, model_arts, volcano
from ascend_supervisor.cluster.declared import (
    MOST_HOSTS,
    UNDER_TORCHRUN,
    Declared,
    Framework,
    Meeting,
    Scheduler,
    TorchStore,
    whole,
)
from ascend_supervisor.cluster.identity import JobSize
from ascend_supervisor.cluster.model_arts import host_names
from ascend_supervisor.cluster.rank_table import Entry, Format, RankTable, is_ip
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.readers import Method
from ascend_supervisor.untrusted_text import shown

Platform = Literal["operator", "kubeflow", "modelarts"]


def platform_of(environ: Mapping[str, str]) -> Platform | None:
    """The platform whose variables count here; whether they are right is not checked."""
    if ascend_operator.names_in(environ) is not None:
        return "operator"
    if kubeflow.speaks(environ):
        return "kubeflow"
    return "modelarts" if model_arts.speaks(environ) else None


def declared(
    platform: Platform,
    environ: Mapping[str, str],
    node_rank: int | None,
    devices: int,
    pod_name: str | None = None,
) -> Declared:
    """The cluster that its variables declare; raises SettingsRefused.

    ``node_rank`` and ``pod_name`` are what the options say, ``devices`` is how many this machine
    has.
    """
    names = ascend_operator.names_in(environ)
    if platform == "operator" and names is not None:
        return ascend_operator.declared(names, environ, node_rank, pod_name)
    if platform == "kubeflow":
        return kubeflow.declared(environ, node_rank, devices)
    table = model_arts.declared_table(environ)
    return Declared(table, volcano.number_among(environ, len(table.entries), node_rank, pod_name))


def told_by(platform: Platform, environ: Mapping[str, str]) -> JobSize | None:
    """What its variables say of the size of the job, for comparison; they may be wrong."""
    if platform == "operator":
        return ascend_operator.size(environ)
    pods = kubeflow.pods_told(environ) if platform == "kubeflow" else 0
    if ":" in environ.get(kubeflow.PODS, "") and pods > 1:
        return None  # how many of them is not told
    return JobSize(f"{kubeflow.PODS}={pods}", pods=pods) if pods else None


def meeting_of(environ: Mapping[str, str]) -> Meeting | None:
    """Where the ranks of this job meet, if a platform says it."""
    names = ascend_operator.names_in(environ)
    if names is not None:
        return ascend_operator.meeting(names, environ)
    return kubeflow.meeting(environ) if kubeflow.speaks(environ) else None


def check_alone(environ: Mapping[str, str]) -> None:
    """Raise SettingsRefused where the job has several pods, so that none of them is alone."""
    told = [text for text, pods in pods_told(environ) if pods > 1]
    if told:
        names = ", ".join(told)
        raise SettingsRefused(
            f"--standalone: expected a job of one pod, found {names}: each pod would train alone; "
            "leave --standalone out, or unset these variables if that is what you mean"
        )


def pods_told(environ: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Each variable that tells how many pods the job has, as text, and the least number of them."""
    for names in ascend_operator.ALL:
        if devices := _count(environ, names.pod):
            pods = ceil(_count(environ, names.job) / devices)
            yield f"{names.job}={environ.get(names.job)} with {names.pod}={devices}", pods
    if ascend_operator.has_partner(environ):
        yield f"{ascend_operator.ROLE}={environ[ascend_operator.ROLE]}", 2
    if rank := _later_rank(environ):
        yield f"RANK={rank}", rank + 1
    if nodes := environ.get(kubeflow.PODS):
        yield f"{kubeflow.PODS}={shown(nodes)}", kubeflow.pods_told(environ)
    yield from model_arts.servers_told(environ)


def _later_rank(environ: Mapping[str, str]) -> int:
    """The RANK that somebody gave this pod or process, if no torchrun above us did."""
    return 0 if environ.get(UNDER_TORCHRUN) else _count(environ, "RANK")


def _count(environ: Mapping[str, str], name: str) -> int:
    return whole(environ, name) or 0


OTHER_NODE_RANKS = ("MS_NODE_RANK", "PET_NODE_RANK")
INDEX = "JOB_COMPLETION_INDEX"
"""Set by Kubernetes in the pods of an Indexed Job."""
_INDEX = re.compile(r"[0-9]{1,5}", re.ASCII)


def servers_table(environ: Mapping[str, str], node_rank: int) -> RankTable:
    """An entry without devices for each server that the variables tell of; at least this one."""
    told = (pods for _, pods in pods_told(environ))
    servers = min(max(node_rank + 1, *told), MOST_HOSTS)
    names = host_names(environ, servers)
    return RankTable(
        format=Format.DECLARED,
        entries=tuple(
            Entry((), server_id=name or f"server {index}") for index, name in enumerate(names)
        ),
        world_size=0,
        servers=servers,
        document=b"",
    )


def index_told(environ: Mapping[str, str], servers: int, pod_name: str | None = None) -> int | None:
    """This server's number, if a variable tells one below ``servers``; else it is a spare.

    ``pod_name`` is that of the option. Raises SettingsRefused where the job has several tasks, and
    nothing tells which of their hosts this is: rank 0 is to be on the first.
    """
    told = _first_number(environ.get(INDEX, ""), *_node_ranks(environ, pod_name))
    if told is None and volcano.has_tasks(environ):
        raise SettingsRefused(f"--servers: {volcano.unknown_place(environ)}")
    return told if told is not None and told < servers else None


def node_rank_told(environ: Mapping[str, str], pod_name: str | None = None) -> int:
    """This server's number; 0 if no variable tells it."""
    known = ascend_operator.node_rank_told(environ)
    return _first_number(known[1] if known else "", *_node_ranks(environ, pod_name)) or 0


def _node_ranks(environ: Mapping[str, str], pod_name: str | None) -> Iterator[str]:
    """What variables say of this server's number."""
    if volcano.has_tasks(environ):
        told = volcano.place(environ, pod_name)
        yield str(told.number) if told else ""
    else:
        yield from (environ.get(name, "") for name in volcano.INDICES)
    yield from (environ.get(name, "") for name in OTHER_NODE_RANKS)


def _first_number(*texts: str) -> int | None:
    return next((int(text) for text in texts if _INDEX.fullmatch(text)), None)


MADE_FOR: Mapping[Method, Framework] = {
    "torchrun": Framework.PYTORCH,
    "torch-ddp": Framework.PYTORCH,
    "msrun": Framework.MINDSPORE,
    "mindspore": Framework.MINDSPORE,
    "tensorflow": Framework.TENSORFLOW,
}
"""The methods that start ranks of one framework only."""
_USUAL: Mapping[Framework, str] = {
    Framework.PYTORCH: "leave --method and MA_RUN_METHOD out, or use --method torchrun",
    Framework.MINDSPORE: "leave --method and MA_RUN_METHOD out, or use --method mindspore",
    Framework.TENSORFLOW: "leave --method and MA_RUN_METHOD out",
}


def check_method(method: Method, found: Declared, environ: Mapping[str, str]) -> None:
    """Raise SettingsRefused where this method cannot start the ranks of ``found``."""
    made_for, framework = MADE_FOR.get(method), found.framework
    if framework is not None and made_for not in (None, framework):
        raise SettingsRefused(
            f"--method {method} starts {made_for.value} ranks, but {found.evidence} belongs to a "
            f"{framework.value} job of Ascend Operator; {_USUAL[framework]}"
        )
    if framework is Framework.MINDSPORE:
        _check_mindspore(method, found, environ)
    if method == "mpirun" and found.evidence and found.table.servers > 1:
        raise SettingsRefused(
            f"--method mpirun needs the names of all pods, and {found.evidence} comes without "
            "them; give a rank table (--rank-table)"
        )


def _check_mindspore(method: Method, found: Declared, environ: Mapping[str, str]) -> None:
    alone = ascend_operator.is_scheduler_alone(environ)
    if alone and method != "mindspore":
        raise SettingsRefused(
            f"--method {method} starts ranks, but MS_ROLE=MS_SCHED says that this pod is the "
            "MindSpore Scheduler of its job and has no NPUs; use --method mindspore in all pods of "
            "the job"
        )
    if method == "msrun" and _scheduler_has_no_npus(found, environ):
        raise SettingsRefused(
            "--method msrun starts MindSpore's scheduler only in a Scheduler pod that has NPUs, "
            "and the Scheduler of this job has none; use --method mindspore in all pods of the job"
        )
    if method == "ranktable" and found.table.world_size > 1:
        raise SettingsRefused(
            "--method ranktable needs a rank table for MindSpore, and none can come here; use "
            "--method mindspore, or mount the directory of the table"
        )


def _scheduler_has_no_npus(found: Declared, environ: Mapping[str, str]) -> bool:
    """A Scheduler that has NPUs is the first pod."""
    if environ.get(ascend_operator.ROLE) == ascend_operator.SCHEDULER:
        return False
    return found.node_rank == 0 or environ.get(ascend_operator.HAS_NPUS, "true") != "true"


def joins_others(method: Method, meeting: Meeting | None) -> bool:
    """Whether ranks that this method starts join a scheduler that runs in another pod."""
    if not isinstance(meeting, Scheduler) or meeting.is_here:
        return False
    return MADE_FOR.get(method) is Framework.MINDSPORE


LOOPBACK = "127.0.0.1"


def master_address(
    table: RankTable, environ: Mapping[str, str], store: TorchStore | None = None
) -> str | None:
    """The rendezvous address of rank 0; None if the job has several servers and none is known.

    That of ``store`` comes first, then this machine's own if all ranks are here: from a container
    with a network of its own, the host's address may lead nowhere. Else the names of the platform
    come first, then the addresses in the table: a pod's own before its host's. A table in which all
    servers are at 127.0.0.1, such as that of --standalone, needs no name of the platform. Nor does
    one that the servers have made: a spare may have the place of rank 0, and no variable knows it.
    """
    if store is not None:
        return store.host
    entry = _entry_of_rank_0(table)
    if entry is not None and (
        table.holds_all(entry) or all(_address(table, other) == LOOPBACK for other in table.entries)
    ):
        return LOOPBACK
    if table.is_made and entry is not None and entry.host_ip:
        return entry.host_ip
    known = _address(table, entry)
    if known == LOOPBACK:
        known = None
    told = _of_the_platform(entry, environ) or known
    return told or next(filter(None, volcano.hosts(environ)), None)


def _of_the_platform(entry: Entry | None, environ: Mapping[str, str]) -> str | None:
    """The first of Volcano's hosts, if rank 0 is there; else MASTER_ADDR, else the host it is on.

    ``entry`` is that of rank 0. In a job of several tasks only the entry's name tells its host.
    """
    pod = entry.pod_name if entry is not None else None
    own = volcano.host_of(environ, pod) if pod else None
    first = "" if volcano.has_tasks(environ) else next(iter(volcano.hosts(environ)), "")
    if first and own in (None, first):
        return first
    return environ.get("MASTER_ADDR") or own


def _entry_of_rank_0(table: RankTable) -> Entry | None:
    for entry in table.entries:
        if any(device.rank == 0 for device in entry.devices):
            return entry
    return None if table.world_size else next(iter(table.entries), None)


def _address(table: RankTable, entry: Entry | None) -> str | None:
    """An address in the table. A server_id may be a name or a uid that nobody can connect to."""
    if entry is None:
        return None
    if table.format is Format.DECLARED:
        return entry.server_id  # the name of a host, as in VC_WORKER_HOSTS
    known = (entry.container_ip, entry.host_ip, entry.pod_ip, entry.server_ip, entry.server_id)
    return next((name for name in known if name and is_ip(name)), None)
