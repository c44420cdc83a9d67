"""The file of a rank table: where it may be, and what it holds now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.cluster.model_arts import DEVICES, HOSTS
from ascend_supervisor.cluster.parsing import MAX_BYTES
from ascend_supervisor.cluster.rank_table import NotReady
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.files.regular_file import (
    NotRegular,
    TooLarge,
    content_of,
    reason_of,
)
from ascend_supervisor.files.watch import Signature, signature
from ascend_supervisor.job_files import TABLE_FILE
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.untrusted_text import plain, shown

FILE_NAMES = (TABLE_FILE, "hccl.json")
"""What the file may be called where a directory is named."""

USUAL_PLACES = ("/user/config/jobstart_hccl.json", "/user/serverid/devindex/config/hccl.json")

NAMING_VARIABLES = ("RANK_TABLE_FILE_V_1_0", "RANK_TABLE_FILE")


def table_places(explicit: str | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Files or directories where the table may be: the first that is named, else the usual ones."""
    variable = naming_variable(environ)
    named = explicit or (environ[variable] if variable else None)
    return (Path(named),) if named else tuple(map(Path, USUAL_PLACES))


def naming_variable(environ: Mapping[str, str]) -> str | None:
    """The variable that names the file or its directory, if one does."""
    return next((name for name in NAMING_VARIABLES if environ.get(name)), None)


IS_DIRECTORY = NotReady(
    "it is a directory: kubelet and docker make one where the file to be mounted does not exist; "
    "mount the directory that will hold the file",
    advice="",
)
IS_NO_FILE = NotReady("it is not a regular file", advice="name another one with --rank-table")
DETACHED = (
    "; the file was replaced, but this mount shows the old one for ever (subPath): "
    "mount its directory instead"
)


PROJECTED = "..data"
"""The symlink through which kubelet shows the files of a ConfigMap; it swaps it at each change."""


class SeenFile(Struct, frozen=True):
    """What is at ``path``; ``hint`` belongs to every reason for waiting, and says what to do.

    ``is_projected``: kubelet copies the file from a ConfigMap, so that changes show late.
    """

    path: Path
    content: bytes | NotReady
    hint: str = ""
    is_projected: bool = False


def read_table(places: Sequence[Path], others: str = "", npus: int = 0) -> SeenFile:
    """What is at the path that ``places`` lead to; may block.

    ``others`` are sources that were tried besides, and ``npus`` as in ``no_table``; both are told
    where there is no file. Raises TableRefused for a file that is larger than any table, unread.
    """
    path = _resolved(places)
    try:
        found = content_of(path, MAX_BYTES)
    except FileNotFoundError:
        return SeenFile(path, no_table(_candidates(places), others, npus))
    except NotRegular as other:
        return SeenFile(path, IS_DIRECTORY if other.is_directory else IS_NO_FILE)
    except TooLarge as large:
        raise TableRefused(
            f"{path}: expected a rank table of at most {MAX_BYTES} bytes, found {large.size}; it "
            "was not read"
        ) from large
    except OSError as error:
        return SeenFile(path, _unreadable(error))
    is_projected = os.path.islink(path.with_name(PROJECTED))  # noqa: PTH114  (never raises)
    return SeenFile(path, found.data, "" if found.has_name else DETACHED, is_projected)


def _resolved(places: Sequence[Path]) -> Path:
    """The first file that exists; if none does, the most likely path.

    A directory is taken only if there is no file: kubelet and docker make one if the file to be
    mounted is missing.
    """
    # os.path returns False where Path would raise: no permission, or a dead mount.
    files = _candidates(places)
    found = [file for file in files if os.path.exists(file)]  # noqa: PTH110
    right = [file for file in found if not os.path.isdir(file)]  # noqa: PTH112
    return (*right, *found, *files)[0]


def _candidates(places: Sequence[Path]) -> list[Path]:
    return [file for place in places for file in _files_of(place)]


def _files_of(place: Path) -> list[Path]:
    inside = [place / name for name in FILE_NAMES]
    if place.suffix == ".json":  # of a volume, too, it may be the name
        return [place, *inside]
    is_directory = os.path.isdir(place) or not place.suffix  # noqa: PTH112
    return inside if is_directory and not os.path.isfile(place) else [place]  # noqa: PTH113


def table_path(places: Sequence[Path]) -> Path | None:
    """The file of a rank table, else the directory in which it may still come; may block."""
    files = [file for place in places for file in _files_of(place)]
    found = (file for file in files if os.path.exists(file) and not os.path.isdir(file))  # noqa: PTH110, PTH112
    parents = (file.parent for file in files if os.path.isdir(file.parent))  # noqa: PTH112
    return next(found, None) or next(parents, None)


def signature_at(places: Sequence[Path]) -> tuple[Path, Signature]:
    path = _resolved(places)
    return path, signature(path)


def watched_path(places: Sequence[Path]) -> Path:
    """The directory in which changes are expected."""
    return _resolved(places).parent


def _unreadable(error: OSError) -> NotReady:
    reason = f"it cannot be read: {scarcity(error) or reason_of(error)}"
    return NotReady(reason, advice="")


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
