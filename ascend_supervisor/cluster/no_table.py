"""What to say where there is no rank table: the places that were looked at, and what they hold."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from ascend_supervisor.cluster.rank_table import NotReady
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.untrusted_text import plain, shown

NO_FILE = "there is no such file"

CLUSTER_VARIABLES = ("WORLD_SIZE", "MS_WORKER_NUM", "CM_WORKER_SIZE")
"""Ascend Operator sets one of them, by framework; Kubeflow sets the first."""

_MOST_NAMES = 5
_MOST_READ = 1000
"""Names of a directory that are read, so that a huge one costs little."""


def no_table(files: Sequence[Path], others: str) -> NotReady:
    """None of ``files`` exists; ``others`` are sources that were tried besides. May block."""
    looked_at = ", ".join(_looked_at(files))
    end = f"; {others}" if others else ""
    details = f"; looked for {looked_at}{end}; without a cluster, use --standalone"
    return NotReady(NO_FILE, details)


def other_sources(is_named: bool, environ: Mapping[str, str]) -> str:
    """What else could have described the cluster and did not; empty if the option named a file."""
    if is_named or any(environ.get(name) for name in CLUSTER_VARIABLES):
        return ""
    names = ", ".join(CLUSTER_VARIABLES)
    return f"no variables of Ascend Operator or Kubeflow are set either ({names})"


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
        return f"the directory cannot be read: {scarcity(error) or error.strerror or error}"
    if not names:
        return "the directory is empty"
    listed = ", ".join(shown(name) for name in sorted(names)[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    least = "at least " if len(names) == _MOST_READ else ""
    return f"the directory holds {listed}{f' and {least}{more} more' if more > 0 else ''}"
