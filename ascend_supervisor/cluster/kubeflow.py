"""Kubeflow's variables (PyTorchJob of v1, Trainer v2): pods, NPUs of each, which is ours; pure.

They are torchrun's options (PET_...), and stay in the environment of the ranks.
"""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.cluster.declared import (
    MOST_HOSTS,
    UNDER_TORCHRUN,
    Declared,
    TorchStore,
    even_table,
    node_rank_among,
    number,
    numbered_pods,
    port,
    whole,
)
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.readers import MOST_DEVICES
from ascend_supervisor.untrusted_text import shown

PODS = "PET_NNODES"
DEVICES = "PET_NPROC_PER_NODE"
BACKEND = "PET_RDZV_BACKEND"
"""Only an elastic job has it."""
NODE_RANK = ("PET_NODE_RANK", "RANK")
"""The index of the pod. A PyTorchJob without a Master has only the second."""


def speaks(environ: Mapping[str, str]) -> bool:
    """Whether this pod has the variables, and no torchrun above us has used them."""
    return bool(environ.get(PODS)) and not environ.get(UNDER_TORCHRUN)


def declared(environ: Mapping[str, str], node_rank: int | None, devices: int) -> Declared:
    """The cluster; ``node_rank`` is what --node-rank says, ``devices`` are those of this pod.

    Raises SettingsRefused.
    """
    pods = _pods(environ)
    if pods > 1 and meeting(environ) is None:
        raise SettingsRefused(
            "PET_MASTER_ADDR (or MASTER_ADDR): expected the address where the ranks of all pods "
            "meet, found nothing"
        )
    return Declared(
        table=even_table(numbered_pods(pods), _devices(environ, devices)),
        node_rank=node_rank_among(environ, NODE_RANK, pods, node_rank),
        evidence=f"{PODS}={pods}",
    )


def _pods(environ: Mapping[str, str]) -> int:
    if _is_one_worker(environ) and not _has_more(environ, 1):
        return 1
    least, colon, most = environ[PODS].partition(":")
    if colon:
        found = f"{PODS}: expected the number of pods, found the range {shown(environ[PODS])}: "
        if least == most:
            found += (
                "Kubeflow counts the Workers of an elastic job only, not its Master, and does not "
                "tell a Worker its number"
            )
        else:
            found += "the ranks of an elastic job are not known in advance"
        raise SettingsRefused(f"{found}; {_NOT_ELASTIC}")
    pods = number(environ, PODS, 1, MOST_HOSTS)
    if environ.get(BACKEND) and _has_more(environ, pods):
        world = shown(environ.get("WORLD_SIZE", ""))
        raise SettingsRefused(
            f"{PODS}: expected the number of pods, found {pods} with WORLD_SIZE={world}: Kubeflow "
            f"counts the Workers of an elastic job only, not its Master; {_NOT_ELASTIC}"
        )
    return pods


_NOT_ELASTIC = "remove its elasticPolicy, or start torchrun as it is: --method once -- torchrun ..."


def _is_one_worker(environ: Mapping[str, str]) -> bool:
    return environ.get(PODS) == "1:1"


def _has_more(environ: Mapping[str, str], pods: int) -> bool:
    """Whether variables that a job with a Master has tell of more ``pods``.

    WORLD_SIZE counts pods, or their processes, according to the release.
    """
    world, each = whole(environ, "WORLD_SIZE"), whole(environ, DEVICES) or 1
    later = any((whole(environ, name) or 0) >= pods for name in NODE_RANK)
    return later or world not in (None, pods, pods * each)


def pods_told(environ: Mapping[str, str]) -> int:
    """The least number of pods; 0 where nothing tells it."""
    if ":" in environ.get(PODS, ""):
        return 1 if _is_one_worker(environ) and not _has_more(environ, 1) else 2
    return whole(environ, PODS) or 0


def _devices(environ: Mapping[str, str], here: int) -> int:
    if whole(environ, DEVICES) is not None:
        return number(environ, DEVICES, 1, MOST_DEVICES)
    if here:
        return here
    found = shown(environ[DEVICES]) if environ.get(DEVICES) else "nothing"
    raise SettingsRefused(
        f"{DEVICES}: expected the number of NPUs of each pod, found {found}, and this pod has no "
        "/dev/davinci*; set it to the number"
    )


def meeting(environ: Mapping[str, str]) -> TorchStore | None:
    """Where the ranks meet: on the pod with index 0."""
    host = environ.get("PET_MASTER_ADDR") or environ.get("MASTER_ADDR")
    if not host:
        return None
    found = port(environ, "PET_MASTER_PORT")
    return TorchStore(host, port(environ, "MASTER_PORT") if found is None else found)
