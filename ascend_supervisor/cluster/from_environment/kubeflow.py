"""Kubeflow's variables (PyTorchJob of v1, Trainer v2): pods, NPUs of each, which is ours; pure.

They are torchrun's options (PET_...), and stay in the environment of the ranks.
"""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.cluster.from_environment.declared import (
    Declared,
    Store,
    even_table,
    numbered_pods,
)
from ascend_supervisor.cluster.from_environment.numbers import (
    MOST_HOSTS,
    node_rank_among,
    number,
    port,
    whole,
)
from ascend_supervisor.cluster.from_environment.torchelastic import UNDER_TORCHRUN
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.values import MOST_DEVICES
from ascend_supervisor.untrusted_text import shown

PODS = "PET_NNODES"
DEVICES = "PET_NPROC_PER_NODE"
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
    if is_range(environ):
        raise SettingsRefused(
            f"{PODS}: expected the number of pods, found the range {shown(environ[PODS])}: the "
            "ranks of an elastic job are not known in advance; remove its elasticPolicy, or "
            "start torchrun as it is: --method once -- torchrun ..."
        )
    return number(environ, PODS, 1, MOST_HOSTS)


def is_range(environ: Mapping[str, str]) -> bool:
    """Whether the number of pods may change, as in ``1:4``."""
    return ":" in environ.get(PODS, "")


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


def meeting(environ: Mapping[str, str]) -> Store | None:
    """Where the ranks meet: on the pod with index 0."""
    host = environ.get("PET_MASTER_ADDR") or environ.get("MASTER_ADDR")
    if not host:
        return None
    found = port(environ, "PET_MASTER_PORT")
    return Store(host, port(environ, "MASTER_PORT") if found is None else found)
