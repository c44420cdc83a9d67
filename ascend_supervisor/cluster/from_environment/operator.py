"""Ascend Operator's variables: the NPUs of the job and of each pod, and where the ranks meet; pure.

Facts from the Operator's sources. All pods that have NPUs have equally many.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.from_environment.declared import (
    Chief,
    Declared,
    Framework,
    Meeting,
    Scheduler,
    Store,
    even_table,
    numbered_pods,
)
from ascend_supervisor.cluster.from_environment.numbers import (
    MOST_HOSTS,
    node_rank_among,
    number,
    port,
)
from ascend_supervisor.cluster.rank_table import Entry
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.values import MOST_DEVICES


class Names(Struct, frozen=True):
    """The variables that one framework gets.

    ``job`` and ``pod`` hold the number of NPUs; ``host`` and ``port`` are where the ranks meet.
    """

    framework: Framework
    job: str
    pod: str
    node_rank: str
    host: str
    port: str


PYTORCH = Names(
    Framework.PYTORCH, "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"
)
MINDSPORE = Names(
    Framework.MINDSPORE,
    "MS_WORKER_NUM",
    "MS_LOCAL_WORKER",
    "MS_NODE_RANK",
    "MS_SCHED_HOST",
    "MS_SCHED_PORT",
)
TENSORFLOW = Names(
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
POD_NAMES = ("MA_CURRENT_INSTANCE_NAME", "POD_NAME", "HOSTNAME")
_WORKER = re.compile(r"-worker-([0-9]{1,6})$", re.ASCII)
UNDER_TORCHRUN = "TORCHELASTIC_RUN_ID"
"""torchrun sets it for its workers, and the variables of PYTORCH, too."""


def names_in(environ: Mapping[str, str]) -> Names | None:
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


def declared(names: Names, environ: Mapping[str, str], node_rank: int | None) -> Declared:
    """The cluster; ``node_rank`` is what --node-rank says. Raises SettingsRefused."""
    devices = number(environ, names.pod, 1, MOST_DEVICES)
    pods = _pods(names, environ, devices)
    table = even_table(numbered_pods(pods), devices)
    if is_scheduler_alone(environ):
        ours = pods
        table = replace(table, entries=(*table.entries, Entry((), pod_name="the Scheduler")))
    else:
        ours = _node_rank(names, environ, pods, node_rank)
    if (names is TENSORFLOW or is_scheduler_alone(environ)) and not environ.get(names.host):
        raise SettingsRefused(f"{names.host}: expected where the ranks meet, found nothing")
    evidence = ROLE if names is MINDSPORE else names.job
    return Declared(table, ours, names.framework, f"{evidence}={environ[evidence]}")


def _node_rank(names: Names, environ: Mapping[str, str], pods: int, asked: int | None) -> int:
    """This pod's number; raises SettingsRefused. Older releases do not set MS_NODE_RANK."""
    if names is MINDSPORE and asked is None and not environ.get(names.node_rank):
        known = 0 if environ[ROLE] == SCHEDULER else _number_in_name(environ)
        if known is not None and known < pods:
            return known
    return node_rank_among(environ, (names.node_rank,), pods, asked)


def _number_in_name(environ: Mapping[str, str]) -> int | None:
    """The number at the end of the pod's name, as in ``job-worker-3``."""
    found = (_WORKER.search(environ.get(name, "")) for name in POD_NAMES)
    return next((int(match[1]) for match in found if match), None)


def _pods(names: Names, environ: Mapping[str, str], devices: int) -> int:
    pods, rest = divmod(number(environ, names.job, 1, MOST_HOSTS * MOST_DEVICES), devices)
    if rest:
        raise SettingsRefused(
            f"{names.job}: expected a multiple of {names.pod}={devices}, because all pods have "
            f"equally many NPUs, found {environ[names.job]}"
        )
    return pods


def meeting(names: Names, environ: Mapping[str, str]) -> Meeting | None:
    """Where the ranks meet; None where the variables do not say it."""
    host, found = environ.get(names.host), port(environ, names.port)
    if not host:
        return None
    if names is MINDSPORE:
        return Scheduler(host, found, is_here=environ[ROLE] == SCHEDULER)
    if names is TENSORFLOW:
        return Chief(host, found)
    return Store(host, found)
