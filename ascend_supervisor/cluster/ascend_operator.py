"""Ascend Operator's variables: the NPUs of the job and of each pod, and where the ranks meet; pure.

Facts from the Operator's sources. All pods that have NPUs have equally many.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.declared import (
    MOST_HOSTS,
    UNDER_TORCHRUN,
    Chief,
    Declared,
    Framework,
    Meeting,
    Scheduler,
    TorchStore,
    even_table,
    node_rank_among,
    number,
    numbered_pods,
    port,
    whole,
)
from ascend_supervisor.cluster.identity import JobSize
from ascend_supervisor.cluster.rank_table import Entry
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.readers import MOST_DEVICES
from ascend_supervisor.untrusted_text import shown


class FrameworkVariables(Struct, frozen=True):
    """The variables that one framework gets.

    ``job`` and ``pod`` hold the number of NPUs; ``host`` and ``port`` are where the ranks meet.
    """

    framework: Framework
    job: str
    pod: str
    node_rank: str
    host: str
    port: str


PYTORCH = FrameworkVariables(
    Framework.PYTORCH, "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"
)
MINDSPORE = FrameworkVariables(
    Framework.MINDSPORE,
    "MS_WORKER_NUM",
    "MS_LOCAL_WORKER",
    "MS_NODE_RANK",
    "MS_SCHED_HOST",
    "MS_SCHED_PORT",
)
TENSORFLOW = FrameworkVariables(
    Framework.TENSORFLOW,
    "CM_WORKER_SIZE",
    "CM_LOCAL_WORKER",
    "CM_RANK",
    "CM_CHIEF_IP",
    "CM_CHIEF_PORT",
)
ALL = (PYTORCH, MINDSPORE, TENSORFLOW)
ROLE = "MS_ROLE"
WORKER, SCHEDULER = "MS_WORKER", "MS_SCHED"
HAS_NPUS = "NPU_POD"
POD_NAMES = ("MA_CURRENT_INSTANCE_NAME", "POD_NAME")
"""Not HOSTNAME: in the network of the host it is the host's."""
_LEADER = re.compile(r"-(master|chief)-[0-9]+$", re.ASCII)
_WORKER = re.compile(r"-worker-([0-9]{1,6})$", re.ASCII)


def names_in(environ: Mapping[str, str]) -> FrameworkVariables | None:
    """The names of the variables that this pod has; None if it has none of the Operator's."""
    if environ.get(ROLE) in {WORKER, SCHEDULER}:
        return MINDSPORE
    if environ.get(TENSORFLOW.job):
        return TENSORFLOW
    pytorch = (PYTORCH.job, PYTORCH.pod, PYTORCH.node_rank)
    if all(map(environ.get, pytorch)) and not environ.get(UNDER_TORCHRUN):
        return PYTORCH
    return None


def is_scheduler_alone(environ: Mapping[str, str]) -> bool:
    """Whether this is the pod of a MindSpore scheduler that has no NPUs, and so no ranks."""
    return environ.get(ROLE) == SCHEDULER and environ.get(HAS_NPUS) != "true"


def check_leader(environ: Mapping[str, str], devices: int) -> None:
    """Raise SettingsRefused in a Master (PyTorch) or Chief (TensorFlow) without NPUs.

    It has the number of Worker 0, and the sizes of a pod with NPUs: the first ranks would run
    twice.
    """
    names = names_in(environ)
    pod_names = (environ.get(name, "") for name in (*POD_NAMES, "HOSTNAME"))
    pod = next(filter(_LEADER.search, pod_names), None)
    if names in (PYTORCH, TENSORFLOW) and pod and not devices:
        leader = "Master" if names is PYTORCH else "Chief"
        raise SettingsRefused(
            f"{shown(pod)} is the {leader} of its job and has no NPU (/dev/davinci0, ...): Ascend "
            "Operator gives it the number of Worker 0, so that it would start the same ranks; give "
            "it NPUs in the AscendJob, or start what it is to run there by --method once"
        )


def has_partner(environ: Mapping[str, str]) -> bool:
    """Whether the other part of a MindSpore job, its scheduler or its ranks, is in another pod."""
    role, host = environ.get(ROLE), environ.get(MINDSPORE.host)
    return is_scheduler_alone(environ) or (role == WORKER and bool(host))


def size(environ: Mapping[str, str]) -> JobSize | None:
    """The NPUs of the job and of a pod; None where variables do not say both."""
    names = names_in(environ)
    if names is None:
        return None
    job, pod = whole(environ, names.job), whole(environ, names.pod)
    if not job or not pod:
        return None
    return JobSize(f"{names.job}={job} and {names.pod}={pod}", devices=job, devices_here=pod)


def node_rank_told(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The variable that holds the number of this pod, and its value."""
    names = names_in(environ)
    value = environ.get(names.node_rank) if names else None
    return (names.node_rank, value) if names and value else None


def first_rank_told(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """The variables that tell the first rank of this pod, and that rank; None: none do."""
    names = names_in(environ)
    if names is None:
        return None
    number, pod = whole(environ, names.node_rank), whole(environ, names.pod)
    if number is None or not pod:
        return None
    return f"{names.node_rank}={number} and {names.pod}={pod}", number * pod


def declared(
    names: FrameworkVariables,
    environ: Mapping[str, str],
    node_rank: int | None,
    pod_name: str | None,
) -> Declared:
    """The cluster; ``node_rank`` and ``pod_name`` are what the options say.

    Raises SettingsRefused.
    """
    devices = number(environ, names.pod, 1, MOST_DEVICES)
    pods = _pods(names, environ, devices)
    table = even_table(numbered_pods(pods), devices)
    if is_scheduler_alone(environ):
        ours = pods
        table = replace(table, entries=(*table.entries, Entry((), pod_name="the Scheduler")))
    elif names is MINDSPORE and node_rank is None and not environ.get(names.node_rank):
        ours = _number_without_variable(environ, pods, pod_name)
    else:
        ours = node_rank_among(environ, (names.node_rank,), pods, node_rank)
    if _must_meet(names, environ, pods) and not environ.get(names.host):
        raise SettingsRefused(
            f"{names.host}: expected the address where the ranks of all pods meet, found nothing"
        )
    evidence = ROLE if names is MINDSPORE else names.job
    return Declared(table, ours, names.framework, f"{evidence}={environ[evidence]}")


def _must_meet(names: FrameworkVariables, environ: Mapping[str, str], pods: int) -> bool:
    """Whether the ranks cannot run without the address; MindSpore's methods tell for themselves."""
    if names is MINDSPORE:
        return is_scheduler_alone(environ)
    return names is TENSORFLOW or pods > 1


def _number_without_variable(environ: Mapping[str, str], pods: int, pod_name: str | None) -> int:
    """This pod's number for releases of the Operator that do not set MS_NODE_RANK.

    It is the number at the end of a Worker's name, as in ``job-worker-3``. Releases that set
    NPU_POD number differently, and set MS_NODE_RANK. Raises SettingsRefused.
    """
    if pods == 1 or environ[ROLE] == SCHEDULER:
        return 0
    names = (pod_name or "", *(environ.get(name, "") for name in POD_NAMES))
    found = next(filter(None, map(_WORKER.search, names)), None)
    if found and int(found[1]) < pods and not environ.get(HAS_NPUS):
        return int(found[1])
    raise SettingsRefused(
        f"{MINDSPORE.node_rank} is not set, and no name of this pod tells its number among the "
        f"{pods} of the job; give it with --node-rank, or the name with --pod-name or POD_NAME "
        "(it ends in -worker-0, -worker-1, ...)"
    )


def _pods(names: FrameworkVariables, environ: Mapping[str, str], devices: int) -> int:
    pods, rest = divmod(number(environ, names.job, 1, MOST_HOSTS * MOST_DEVICES), devices)
    if rest:
        raise SettingsRefused(
            f"{names.job}: expected a multiple of {names.pod}={devices}, because all pods have "
            f"equally many NPUs, found {environ[names.job]}"
        )
    return pods


def meeting(names: FrameworkVariables, environ: Mapping[str, str]) -> Meeting | None:
    """Where the ranks meet; None where the variables do not say it."""
    host, found = environ.get(names.host), port(environ, names.port)
    if not host:
        return None
    if names is MINDSPORE:
        return Scheduler(host, found, is_here=environ[ROLE] == SCHEDULER)
    if names is TENSORFLOW:
        return Chief(host, found)
    return TorchStore(host, found)
