"""Whose variables count, and what the variables of all platforms rule out here; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Literal

from ascend_supervisor.cluster.from_environment import kubeflow, model_arts, operator
from ascend_supervisor.cluster.from_environment.declared import Declared, Meeting
from ascend_supervisor.cluster.from_environment.model_arts import HOST_NAMES, HOSTS
from ascend_supervisor.cluster.from_environment.numbers import whole
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
    platform: Platform, environ: Mapping[str, str], node_rank: int | None, devices: int
) -> Declared:
    """The cluster that its variables declare; raises SettingsRefused.

    ``node_rank`` is what --node-rank says, ``devices`` is how many this machine has.
    """
    names = operator.names_in(environ)
    if platform == "operator" and names is not None:
        return operator.declared(names, environ, node_rank)
    if platform == "kubeflow":
        return kubeflow.declared(environ, node_rank, devices)
    return Declared(model_arts.declared_table(environ))


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
    if operator.is_scheduler_alone(environ):
        yield f"{operator.ROLE}={operator.SCHEDULER}", 2
    if nodes := environ.get(kubeflow.PODS):
        pods = 2 if kubeflow.is_range(environ) else _count(environ, kubeflow.PODS)
        yield f"{kubeflow.PODS}={shown(nodes)}", pods
    if hosts := _count(environ, HOSTS):
        yield f"{HOSTS}={environ[HOSTS]}", hosts
    names_of_hosts = environ.get(HOST_NAMES, "")
    known = sum(bool(name.strip()) for name in names_of_hosts.split(","))
    yield f"{HOST_NAMES}={shown(names_of_hosts)}", known


def _count(environ: Mapping[str, str], name: str) -> int:
    return whole(environ, name) or 0
