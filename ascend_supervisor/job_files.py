"""From the platform's variables: the job's name, our own, and where files and logs go; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Literal

from msgspec import Struct

from ascend_supervisor.errors import SettingsRefused

TABLE_FILE = "jobstart_hccl.json"
USUAL_LOG_DIR = "/tmp/log"  # noqa: S108  (published; log_file.py follows no link planted there)
CACHE = PurePath("/cache")
"""The usual work directory: the published contract, where the platform gives no mount."""
CANN_LOGS = "ASCEND_PROCESS_LOG_PATH"
"""The variable that says where CANN writes the logs of a process (plog)."""
PLOG_KINDS = ("debug", "run", "security", "operation")
"""CANN 5.0 and before had no such folders."""
PLOG_FOLDER = re.compile(r"plog|device-\d{1,5}", re.ASCII)
PLOG_NAME = re.compile(r"(?:plog|device)-([1-9]\d{0,9})_\d{1,20}\.log", re.ASCII)
UNNAMED_JOB = "job"
"""The name of a job for which no variable gives one."""
HOST_NAME_BYTES = 63
"""The longest: Kubernetes cuts the name of a pod for HOSTNAME, then minus signs and dots."""
POD_BYTES = 60
NAME_BYTES = 150
"""Of 255 characters in a file name: the rest of a log's name and a rotation number follow."""


_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)


class StartCount(Struct, frozen=True):
    """How often ModelArts has scheduled this pod, and started its boot command; both from 1.

    None: the platform does not say it. It starts the command again in the same container after
    recovery in place, a restart because of a hang, and rescheduling of the pod.
    """

    schedule: int | None = None
    process: int | None = None

    @property
    def label(self) -> str:
        """Such as s1-p2, for names of files; empty if the platform does not count."""
        schedule = "" if self.schedule is None else f"s{self.schedule}"
        process = "" if self.process is None else f"p{self.process}"
        return "-".join(filter(None, (schedule, process)))


class Place(Struct, frozen=True):
    """``pod`` is the pod's or the host's name; both names can be part of a file name.

    ``started_in`` is the supervisor's own working directory. All paths are absolute. ``start``
    tells this start from earlier ones in the same place. ``event_log`` is None for the usual one.
    """

    job_id: str
    pod: str
    log_dir: PurePath
    work_dir: PurePath
    table_file: PurePath
    state_file: PurePath
    started_in: PurePath
    start: StartCount = StartCount()
    event_log: PurePath | Literal["none"] | None = None

    @property
    def events(self) -> PurePath | None:
        """Where the last events are kept; None if they are not."""
        if self.event_log is None:
            return events_beside(self.state_file)
        return None if self.event_log == "none" else self.started_in / self.event_log

    @property
    def job_directory(self) -> PurePath:
        """The directory of the job's other files, beside its logs."""
        return self.log_dir / self.job_id

    @property
    def process_logs(self) -> PurePath:
        """Below it CANN logs, each process in a directory of its rank or server, as a rule."""
        return self.job_directory / "ascend" / "process_log"

    def generation_name(self, generation: int) -> str:
        """The name of what belongs to one generation, in a directory that earlier starts share."""
        return "-".join(filter(None, (self.start.label, f"generation_{generation}")))

    @property
    def short_pod(self) -> str:
        """``pod``, cut so that a file's name has room for the job's, but still unique."""
        return _short(self.pod)


def events_beside(state_file: PurePath) -> PurePath:
    """Where the last events are kept, unless --event-log says otherwise."""
    return state_file.with_name(f"{state_file.name.removesuffix('.json')}.events.jsonl")


def place_of(
    environ: Mapping[str, str],
    hostname: str,
    *,
    mounted_log_exists: bool,
    here: PurePath,
    cache: PurePath | None = CACHE,
    log_dir: PurePath | None = None,
    work_dir: PurePath | None = None,
    state_file: PurePath | None = None,
) -> Place:
    """Where this job's files go; explicit directories win over the platform's.

    ``cache`` is the usual work directory, None if it cannot be made: then the ranks work beside
    the logs, in one directory per pod, because pods may share the log directory. Relative paths
    start in ``here``, because the ranks have working directories of their own.

    Raises SettingsRefused for a name that would leave the log directory.
    """
    mount = environ.get("MA_MOUNT_PATH") or None
    job_id = _file_name(*_job_id(environ))
    pod = _file_name(*_pod(environ, hostname))
    usual_logs = f"{mount}/log" if mount and mounted_log_exists else USUAL_LOG_DIR
    logs = here / (log_dir or usual_logs)
    own = here / mount if mount else logs / job_id
    usual_work = own / "workspace" if mount else cache or own / "workspace" / pod
    return Place(
        job_id=job_id,
        pod=pod,
        log_dir=logs,
        work_dir=here / (work_dir or usual_work),
        table_file=own / "rank_table" / TABLE_FILE,
        state_file=here / (state_file or logs / f"{job_id}-supervisor-{_short(pod)}.json"),
        started_in=here,
        start=start_count(environ),
    )


def start_count(environ: Mapping[str, str]) -> StartCount:
    """Which start this is, as far as the platform says it; what is no number is left out."""
    return StartCount(
        _count(environ.get("MA_SCHEDULE_CNT", "")), _count(environ.get("MA_PROC_START_CNT", ""))
    )


def cann_log_root(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Where CANN writes its logs: named by variables, else below the home directory.

    From its documentation: ASCEND_PROCESS_LOG_PATH comes before ASCEND_WORK_PATH, that before
    $HOME/ascend/log. A relative path begins in the directory where the process starts.
    """
    if named := environ.get(CANN_LOGS):
        return cwd / named
    if named := environ.get("ASCEND_WORK_PATH"):
        return cwd / named / "log"
    home = environ.get("HOME")
    return cwd / home / "ascend" / "log" if home else None


def _count(text: str) -> int | None:
    return int(text) if _COUNT.fullmatch(text.strip()) else None


def mounted_log_dir(environ: Mapping[str, str]) -> str | None:
    """The directory whose existence decides where the logs go; None without a mount."""
    mount = environ.get("MA_MOUNT_PATH")
    return f"{mount}/log" if mount else None


def names_of(environ: Mapping[str, str], hostname: str) -> tuple[str, str]:
    """The job's and the pod's names as the platform gives them, not checked as file names."""
    return _job_id(environ)[1], _pod(environ, hostname)[1]


def _job_id(environ: Mapping[str, str]) -> tuple[str, str]:
    """ModelArts' way: MA_VJ_NAME with its first ``ma-job`` as ``modelarts-job``.

    MINDX_TASK_ID is the job's uid, from Ascend Operator.
    """
    if name := environ.get("MA_VJ_NAME"):
        return "MA_VJ_NAME", name.replace("ma-job", "modelarts-job", 1)
    if environ.get("JOB_ID") or not environ.get("MINDX_TASK_ID"):
        return "JOB_ID", environ.get("JOB_ID") or UNNAMED_JOB
    return "MINDX_TASK_ID", environ["MINDX_TASK_ID"]


def _pod(environ: Mapping[str, str], hostname: str) -> tuple[str, str]:
    for variable in ("MA_CURRENT_INSTANCE_NAME", "POD_NAME", "HOSTNAME"):
        if name := environ.get(variable):
            return variable, name
    return "the host's name", hostname


def _short(pod: str) -> str:
    data = pod.encode(errors="surrogateescape")
    if len(data) <= POD_BYTES:
        return pod
    begin = data[: POD_BYTES - 13].decode(errors="ignore")
    return f"{begin}-{sha256(data).hexdigest()[:12]}"


def _file_name(source: str, name: str) -> str:
    if name in {".", ".."} or not name.isprintable() or "/" in name:
        raise SettingsRefused(
            f"{source}: expected a name that can be part of a file's name, found {name[:80]!r}; "
            "'/', '..' and control characters would lead out of the log directory"
        )
    if len(name.encode(errors="surrogateescape")) > NAME_BYTES:
        raise SettingsRefused(
            f"{source}: expected at most {NAME_BYTES} bytes, found {len(name)} characters that "
            f"begin with {name[:40]!r}"
        )
    return name
