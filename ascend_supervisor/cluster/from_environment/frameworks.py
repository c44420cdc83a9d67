"""Which methods cannot start the ranks of a framework whose variables count; pure."""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.cluster.from_environment import operator
from ascend_supervisor.cluster.from_environment.declared import (
    Declared,
    Framework,
    Meeting,
    Scheduler,
)
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.readers import Method

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
    alone = operator.is_scheduler_alone(environ)
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
    if environ.get(operator.ROLE) == operator.SCHEDULER:
        return False
    return found.node_rank == 0 or environ.get(operator.HAS_NPUS, "true") != "true"


def joins_others(method: Method, meeting: Meeting | None) -> bool:
    """Whether ranks that this method starts join a scheduler that runs in another pod."""
    if not isinstance(meeting, Scheduler) or meeting.is_here:
        return False
    return MADE_FOR.get(method) is Framework.MINDSPORE
