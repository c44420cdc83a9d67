"""What to say where there is no rank table: the places that were looked at, and what they hold."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from ascend_supervisor.cluster.from_environment.model_arts import DEVICES, HOSTS
from ascend_supervisor.cluster.rank_table import NotReady
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.untrusted_text import plain, shown

NO_FILE = "there is no such file"

OF_PYTORCH = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK")
CLUSTER_VARIABLES = ("WORLD_SIZE", "MS_ROLE", "CM_WORKER_SIZE", "PET_NNODES")
"""By framework: Ascend Operator sets one of the first three, Kubeflow the last."""
OF_MODELARTS = "--method torchrun, msrun, mindspore, mpirun, torch-ddp or tensorflow"
"""The methods that read no table by default."""
WITHOUT_CLUSTER = "without a cluster, use --standalone"

_MOST_NAMES = 5
_MOST_READ = 1000
"""Names of a directory that are read, so that a huge one costs little."""


def no_table(files: Sequence[Path], others: str, npus: int = 0) -> NotReady:
    """None of ``files`` exists; ``others`` says what else there is or could be. May block.

    ``npus`` are those of this machine, if it may be all of the job: then no table may ever come.
    """
    looked_at = ", ".join(_looked_at(files))
    is_mounted = any(os.path.isdir(file.parent) for file in files)  # noqa: PTH112  (never raises)
    reason = NO_FILE if is_mounted or not npus else _standalone(npus)
    return NotReady(reason, f"; looked for {looked_at}{f'; {others}' if others else ''}")


def other_sources(environ: Mapping[str, str], hint: str | None, *, is_named: bool) -> str:
    """What else describes the cluster, or could have; ``hint`` says how to choose it.

    ``is_named``: the option names the file, so that variables do not count.
    """
    if hint is not None:
        return hint
    if is_named:
        return WITHOUT_CLUSTER
    if told := [name for name in (HOSTS, DEVICES) if environ.get(name)]:
        count = "counts" if len(told) == 1 else "count"
        return f"{' and '.join(told)} {count} with {OF_MODELARTS} alone; {WITHOUT_CLUSTER}"
    if any(environ.get(name) for name in ("WORLD_SIZE", "RANK")):
        return _incomplete(environ)
    names = ", ".join(CLUSTER_VARIABLES)
    return (
        f"no variables of Ascend Operator or Kubeflow are set either ({names}); {WITHOUT_CLUSTER}"
    )


def _standalone(npus: int) -> str:
    """Ascend Operator gives no variables to a MindSpore job that is a single Worker."""
    return (
        "--standalone is missing, if this machine is all of the job: no directory of a table is "
        f"mounted, and {npus} NPU{'s are' if npus > 1 else ' is'} here"
    )


def _incomplete(environ: Mapping[str, str]) -> str:
    """Why variables of a PyTorch job do not count."""
    if environ.get("TORCHELASTIC_RUN_ID"):
        return (
            "WORLD_SIZE and RANK do not count, because TORCHELASTIC_RUN_ID says that torchrun set "
            "them; unset it if that is wrong"
        )
    missing = [name for name in OF_PYTORCH if not environ.get(name)]
    if not missing:
        return WITHOUT_CLUSTER
    return (
        f"the variables of a PyTorch job do not count, because {' and '.join(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} not set (NPUs of the job: WORLD_SIZE, of this "
        "pod: LOCAL_WORLD_SIZE; number of this pod: RANK)"
    )


def _looked_at(files: Sequence[Path]) -> Iterator[str]:
    """Each directory with the names that were looked for, but not those below such a name."""
    directories: dict[Path, list[str]] = {}
    for file in files:
        if file.parent not in files:
            directories.setdefault(file.parent, []).append(file.name)
    for directory, names in directories.items():
        paths = " or ".join(plain(str(directory / name)) for name in names)
        yield f"{paths} ({_content(directory)})"


def _content(directory: Path) -> str:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in islice(entries, _MOST_READ)]
    except FileNotFoundError:
        return "there is no such directory"
    except OSError as error:
        return f"the directory cannot be read: {scarcity(error) or reason_of(error)}"
    if not names:
        return "the directory is empty"
    listed = ", ".join(shown(name) for name in sorted(names)[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    least = "at least " if len(names) == _MOST_READ else ""
    return f"the directory holds {listed}{f' and {least}{more} more' if more > 0 else ''}"
