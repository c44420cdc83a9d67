"""Whose variables count, and what the variables of all platforms rule out here; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Literal

from ascend_supervisor.cluster.from_environment import kubeflow, model_arts, operator, volcano
from ascend_supervisor.cluster.from_environment.declared import Declared, Meeting
from ascend_supervisor.cluster.from_environment.numbers import whole
from ascend_supervisor.cluster.from_environment.torchelastic import UNDER_TORCHRUN
from ascend_supervisor.cluster.identity import JobSize
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.untrusted_text import shown

Platform = Literal["operator", "kubeflow", "modelarts"]


def platform_of(environ: Mapping[str, str]) -> Platform | None:
    """The platform whose variables count here; whether they are right is not checked."""
    if operator.names_in(environ) is not None:
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
    names = operator.names_in(environ)
    if platform == "operator" and names is not None:
        return operator.declared(names, environ, node_rank, pod_name)
    if platform == "kubeflow":
        return kubeflow.declared(environ, node_rank, devices)
    table = model_arts.declared_table(environ)
    return Declared(table, volcano.number_among(environ, len(table.entries), node_rank, pod_name))


def told_by(platform: Platform, environ: Mapping[str, str]) -> JobSize | None:
    """What its variables say of the size of the job, for comparison; they may be wrong."""
    if platform == "operator":
        return operator.size(environ)
    pods = kubeflow.pods_told(environ) if platform == "kubeflow" else 0
    if ":" in environ.get(kubeflow.PODS, "") and pods > 1:
        return None  # how many of them is not told
    return JobSize(f"{kubeflow.PODS}={pods}", pods=pods) if pods else None


def meeting_of(environ: Mapping[str, str]) -> Meeting | None:
    """Where the ranks of this job meet, if a platform says it."""
    names = operator.names_in(environ)
    if names is not None:
        return operator.meeting(names, environ)
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
    for names in operator.ALL:
        if devices := _count(environ, names.pod):
            pods = ceil(_count(environ, names.job) / devices)
            yield f"{names.job}={environ.get(names.job)} with {names.pod}={devices}", pods
    if operator.has_partner(environ):
        yield f"{operator.ROLE}={environ[operator.ROLE]}", 2
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
