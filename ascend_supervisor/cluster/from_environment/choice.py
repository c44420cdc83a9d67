"""Whose variables count, and what the variables of all platforms rule out here; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    told = tuple(_several_pods(environ))
    if told:
        names = ", ".join(told)
        raise SettingsRefused(
            f"--standalone: expected a job of one pod, found {names}: each pod would train alone; "
            "leave --standalone out, or unset these variables if that is what you mean"
        )


def _several_pods(environ: Mapping[str, str]) -> Iterator[str]:
    for names in operator.ALL:
        job, pod = names.job, names.pod
        if _count(environ, job) > _count(environ, pod) > 0:
            yield f"{job}={environ[job]} with {pod}={environ[pod]}"
    if operator.is_scheduler_alone(environ):
        yield f"{operator.ROLE}={operator.SCHEDULER}"
    if _count(environ, kubeflow.PODS) > 1 or kubeflow.is_range(environ):
        yield f"{kubeflow.PODS}={shown(environ[kubeflow.PODS])}"
    if _count(environ, HOSTS) > 1:
        yield f"{HOSTS}={environ[HOSTS]}"
    hosts = environ.get(HOST_NAMES, "")
    if sum(bool(name.strip()) for name in hosts.split(",")) > 1:
        yield f"{HOST_NAMES}={shown(hosts)}"


def _count(environ: Mapping[str, str], name: str) -> int:
    return whole(environ, name) or 0
