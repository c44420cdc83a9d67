"""The plan as JSON, for ``--check``: what would be started, with what, where."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ascend_supervisor.cluster.cluster_source import Cluster
from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers.process_spec import ProcessSpec
from ascend_supervisor.life import Plan, Start


def plan_as_json(
    cluster: Cluster,
    found: FoundTable,
    identity: Identity,
    place: Place,
    plan: Callable[[Start], Plan],
    settings: Sequence[str],
) -> tuple[bytes, tuple[ProcessSpec, ...]]:
    """The plan of generation 0, and its specs; raises a Refusal as the run would."""
    table = found.table
    node_rank, entry = find_entry(table, identity)
    specs = plan(Start(0, found, node_rank, entry, restarts_left=0)).specs
    document = {
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
    return to_json(document, indent=True) + b"\n", specs


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
