"""What the checks need to know of a server and its job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath

from msgspec import Struct

from ascend_supervisor.doctor.part_in_job import PartInJob


class Roots(Struct, frozen=True):
    """Where a machine shows what it is."""

    dev: Path = Path("/dev")
    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")
    ascend: Path = Path("/usr/local/Ascend")
    linker_cache: Path = Path("/etc/ld.so.cache")


class ThisServer(Struct, frozen=True, kw_only=True):
    """``environ`` is that of the ranks, and ``python`` the interpreter that runs them, if one does.

    CANN logs below the directories ``plogs``. What only a plan tells is None before it is known:
    how many ``ranks`` run here, and the ids of their ``devices`` in a rank table of the cluster.
    ``is_alone``: the ranks of the job are all here. ``part`` is what concerns the
    other servers.
    """

    environ: Mapping[str, str]
    log_dir: PurePath
    work_dir: PurePath
    state_file: PurePath
    python: str | None = None
    plogs: tuple[PurePath, ...] = ()
    termination_log: PurePath | None = None
    ranks: int | None = None
    devices: tuple[int, ...] | None = None
    is_alone: bool = False
    part: PartInJob = PartInJob()
    roots: Roots = Roots()
