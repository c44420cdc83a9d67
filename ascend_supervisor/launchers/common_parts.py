"""What plans of all methods have in common: logs, variables, directories, a rank's spec; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from pathlib import PurePath

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.job_files import CANN_LOGS, Place
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.rank_environment import OF_A_WORKER
from ascend_supervisor.process_spec import Explanation, ProcessSpec
from ascend_supervisor.settings.readers import read_duration
from ascend_supervisor.untrusted_text import shown


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


HCCL_CONNECT = "HCCL_CONNECT_TIMEOUT"
HCCL_CONNECT_SECONDS = "1800"


def log_path(place: Place, rank: int, local_rank: int) -> PurePath:
    """A rank's log; ModelArts' own collector (*.log, *.out, *.trace) does not match its name."""
    return place.log_dir / f"{place.job_id}-proc-rank-{rank}-device-{local_rank}.txt"


def launcher_log_path(place: Place, name: str, node_rank: int) -> PurePath:
    """The log of a process that is not a rank."""
    return place.log_dir / f"{place.job_id}-proc-{name}-node-{node_rank}.txt"


def process_log(boot: Boot, here: Here, whose: str) -> str:
    """Where CANN logs; a directory."""
    return boot.inherited(CANN_LOGS, str(here.place.process_logs / whose))


def seconds_of(name: str, text: str) -> str:
    """Whole seconds, of a number that may have a unit, as in ModelArts' ``600s``.

    Programs want digits. Raises SettingsRefused.
    """
    try:
        return text if text.isascii() and text.isdecimal() else str(ceil(read_duration(text)))
    except ValueError as expected:
        raise SettingsRefused(f"{name}: expected {expected}, found {shown(text)}") from expected


def _connect_seconds(boot: Boot) -> str:
    """HCCL's own limit; it says itself what it thinks of a value that is no time."""
    text = boot.environ.get(HCCL_CONNECT, HCCL_CONNECT_SECONDS)
    with suppress(SettingsRefused):
        return seconds_of(HCCL_CONNECT, text)
    return text


def common_environ(boot: Boot, here: Here, generation: int) -> dict[str, str | None]:
    """What every process gets, whatever starts it."""
    return {
        **{name: None for name in OF_A_WORKER if name in boot.environ},
        "JOB_ID": here.place.job_id,
        HCCL_CONNECT: _connect_seconds(boot),
        "PYTHONUNBUFFERED": boot.environ.get("PYTHONUNBUFFERED", "1"),
        "PYTHONFAULTHANDLER": boot.environ.get("PYTHONFAULTHANDLER", "1"),
        "TORCHELASTIC_RESTART_COUNT": str(generation),
    }


def table_file_unset(boot: Boot, table: RankTable) -> dict[str, str | None]:
    """Unsets the name of a rank table, if variables of the platform have taken its place."""
    return {} if boot.meeting is None or table.document else {"RANK_TABLE_FILE": None}


def rank_spec(
    boot: Boot,
    here: Here,
    generation: int,
    *,
    rank: int,
    local_rank: int,
    environ: Mapping[str, str | None],
    more_words: Sequence[str] = (),
    explanation: Explanation | None = None,
) -> ProcessSpec:
    """A rank that we start ourselves, with what every rank gets: a directory, logs, an error file.

    torch.distributed.elastic's ``@record`` writes the exception to that file.
    """
    whose = f"rank_{rank}"
    cwd = rank_directory(boot, here, rank, local_rank)
    logged = process_log(boot, here, whose)
    name = f"{here.place.generation_name(generation)}.json"
    error_file = here.place.job_directory / "errors" / whose / name
    return ProcessSpec(
        argv=(*boot.command, *more_words),
        cwd=cwd,
        log=log_path(here.place, rank, local_rank),
        environ={
            **common_environ(boot, here, generation),
            **environ,
            CANN_LOGS: logged,
            "TORCHELASTIC_ERROR_FILE": str(error_file),
        },
        rank=rank,
        local_rank=local_rank,
        directories=(cwd / logged, error_file.parent),
        error_file=error_file,
        explanation=explanation,
        script=boot.script,
    )


def devices_here(method: str, here: Here) -> int:
    """How many devices this machine has; raises SettingsRefused for none."""
    if here.entry.devices:
        return len(here.entry.devices)
    raise SettingsRefused(
        f"{method} starts a process for each device, and for this machine ({here.entry.label}) "
        "none is known; set MA_NUM_GPUS to their number, or give --standalone N"
    )


def devices_everywhere(method: str, table: RankTable, here: Here) -> int:
    """How many devices each machine has; raises SettingsRefused where they differ."""
    count = devices_here(method, here)
    for node_rank, entry in enumerate(table.entries):
        if len(entry.devices) != count:
            raise SettingsRefused(
                f"{method} starts equally many processes on all servers, and this one has {count} "
                f"devices, while that of node rank {node_rank} ({entry.label}) has "
                f"{len(entry.devices)}; use --method ranktable"
            )
    return count
