"""From settings to what follows the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.cluster.cluster_source import Cluster, table_file
from ascend_supervisor.coordination.followed_cluster.cluster_files import (
    FileLook,
    GivenTable,
    RankTableLook,
    ResetFileLook,
)
from ascend_supervisor.coordination.followed_cluster.incident import FollowRules
from ascend_supervisor.events import Report
from ascend_supervisor.outcome import Patience
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.tasks.clock import Clock


def looks_of(
    settings: Settings,
    environ: Mapping[str, str],
    cluster: Cluster,
    clock: Clock,
    report: Report,
) -> tuple[FileLook, ...]:
    """What looks at the rank table, if it is a file, and at the reset file."""
    if cluster.given is not None:
        table: FileLook = GivenTable(cluster.given)
    else:
        table = RankTableLook(table_file(settings, environ, cluster, clock, report))
    return table, ResetFileLook(settings.reset_file)


def rules_of(settings: Settings, *, joins_others: bool) -> FollowRules:
    return FollowRules(
        verdict=settings.cluster_verdict,
        patience=Patience(drain=settings.drain, grace=settings.grace),
        reset_grace=settings.reset_grace,
        table_timeout=settings.rank_table_timeout or None,
        joins_others=joins_others,
        reset_file=str(settings.reset_file),
    )
