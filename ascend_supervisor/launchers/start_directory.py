"""The directories that processes start in; pure."""

from __future__ import annotations

from pathlib import PurePath

from ascend_supervisor.cluster.from_environment.declared import Meeting, Scheduler
from ascend_supervisor.events.supervisor import ClusterSource
from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.settings.values import Method, RankDir


def rank_dir_here(
    said: RankDir | None,
    source: ClusterSource,
    method: Method,
    meeting: Meeting | None,
    *,
    has_work_dir: bool,
) -> RankDir:
    """Where ranks start: as the user says, else by where the cluster comes from.

    Programs that were written for one machine, for pods without a platform, or for PyTorch and
    TensorFlow pods, share relative paths. MindSpore writes graph files into its directory. A
    ``--work-dir`` asks for separate directories.
    """
    if said is not None:
        return said
    is_mindspore = isinstance(meeting, Scheduler) or method in {"mindspore", "msrun"}
    is_plain = source in {"operator", "kubeflow", "servers"} and not is_mindspore
    is_shared = source == "standalone" or is_plain
    return "same" if is_shared and not has_work_dir else "device"


def rank_directory(boot: Boot, here: Here, rank: int, local_rank: int) -> PurePath:
    """Where this rank starts."""
    match boot.rank_dir:
        case "device":
            return here.place.work_dir / f"device{local_rank}"
        case "rank":
            return here.place.work_dir / f"rank{rank}"
        case "same":
            return here.place.started_in


def other_directory(boot: Boot, place: Place, name: str = "") -> PurePath:
    """Where a process that is not a rank starts: ``name`` in the work directory, or with us."""
    return place.started_in if boot.rank_dir == "same" else place.work_dir / name
