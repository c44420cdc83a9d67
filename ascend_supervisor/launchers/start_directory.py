"""The directories that processes start in; pure."""

from __future__ import annotations

from pathlib import PurePath

from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.settings.values import RankDir


def rank_dir_here(said: RankDir | None, *, is_shared: bool, has_work_dir: bool) -> RankDir:
    """Where ranks start: as the user says, else ``same`` if ``is_shared``, else ``device``.

    Programs that know neither rank tables nor MindSpore share relative paths. A ``--work-dir`` asks
    for separate directories.
    """
    if said is not None:
        return said
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
