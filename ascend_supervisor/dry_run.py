"""The plan, for ``--check``: what would be started, with what, where; as JSON or for people."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ascend_supervisor.cluster.cluster_source import Cluster
from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.ctl.columns import facts
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers.process_spec import ProcessSpec
from ascend_supervisor.life import Plan, Start

Document = dict[str, Any]
"""The plan, with the keys of its JSON."""


def plan_of(
    cluster: Cluster,
    found: FoundTable,
    identity: Identity,
    place: Place,
    plan: Callable[[Start], Plan],
    settings: Sequence[str],
) -> tuple[Document, tuple[ProcessSpec, ...]]:
    """The plan of generation 0, and its specs; raises a Refusal as the run would."""
    table = found.table
    node_rank, entry = find_entry(table, identity)
    specs = plan(Start(0, found, node_rank, entry, restarts_left=0)).specs
    document: Document = {
        "cluster": cluster.source,
        "cluster_hint": cluster.hint,
        "rank_table": {
            "path": str(found.path),
            "format": table.format.value,
            "sha256": found.sha256,
            "world_size": table.world_size,
            "servers": table.servers,
            "warnings": list(table.warnings),
            "ranks_see": str(place.table_file) if table.file_for_ranks is not None else None,
        },
        "this_server": {
            "entry": entry.label,
            "node_rank": node_rank,
            "ranks": [device.rank for device in entry.devices],
        },
        "settings": list(settings),
        "state_file": str(place.state_file),
        "processes": [_process(spec) for spec in specs],
    }
    return document, specs


def as_json(plan: Document) -> str:
    """All of it."""
    return to_json(plan, indent=True).decode() + "\n"


def as_text(plan: Document) -> str:
    """In short, for a terminal: what would run where, who meets where, where to look afterwards."""
    processes, table, here = plan["processes"], plan["rank_table"], plan["this_server"]
    environ = processes[0]["environment"]
    meeting = [environ[name] for name in ("MASTER_ADDR", "MASTER_PORT") if environ.get(name)]
    told = [
        ("command", _first_of(shlex.join(one["argv"]) for one in processes)),
        ("in", _first_of(one["directory"] for one in processes)),
        ("ranks here", ", ".join(map(str, here["ranks"])) + f" of {table['world_size']}"),
        ("servers", f"{table['servers']}; this is {here['entry']}, number {here['node_rank']}"),
        ("from", f"{table['path']} ({table['format']})"),
        ("rank 0 at", ":".join(meeting)),
        ("logs", _first_of(one["log"] for one in processes)),
        ("state file", plan["state_file"]),
        ("settings", "\n".join(plan["settings"])),
        ("hint", plan["cluster_hint"]),
        ("warnings", "\n".join(table["warnings"])),
    ]
    number = "one process" if len(processes) == 1 else f"{len(processes)} processes"
    title = f"A run would start {number} here; nothing was started. --json shows all of it."
    return "\n".join((title, "", *facts(told), ""))


def _first_of(texts: Iterable[str]) -> str:
    """The first one, and how many others differ from it."""
    first, *others = dict.fromkeys(texts)
    return f"{first} (and {len(others)} more)" if others else first


def _process(spec: ProcessSpec) -> dict[str, object]:
    return {
        "rank": spec.rank,
        "local_rank": spec.local_rank,
        "argv": spec.argv,
        "environment": dict(spec.environ),
        "directory": str(spec.cwd),
        "directories_made": [str(path) for path in spec.directories],
        "files_written": [str(path) for path in spec.files],
        "log": str(spec.log),
    }
