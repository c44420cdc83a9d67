"""From settings to the coordinator of a run, with what it needs and nothing else."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.cluster_source import identity, table_file, table_source
from ascend_supervisor.cluster.declared import TorchStore
from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.platforms import index_told
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.coordination import Coordinator
from ascend_supervisor.coordination.alone import Alone, Ledger
from ascend_supervisor.events import Report
from ascend_supervisor.launchers.common_parts import launcher_log_path
from ascend_supervisor.life import Placed
from ascend_supervisor.program.premises import Premises
from ascend_supervisor.program.server_checks import FactsHere
from ascend_supervisor.restart_policy import Backoff, RestartBudget
from ascend_supervisor.settings.peers_options import OwnEtcd
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.workers.runtime import Runtime

if TYPE_CHECKING:
    from ascend_supervisor.coordination.followed_cluster.cluster_files import FileLook
    from ascend_supervisor.coordination.followed_cluster.followed_table import FollowedTable
    from ascend_supervisor.coordination.peers.meeting import PeersMeeting
    from ascend_supervisor.coordination.peers.own_etcd import Surroundings
    from ascend_supervisor.coordination.peers.shared_steps import StepsOfJob
    from ascend_supervisor.coordination.peers.tables import Tables


def coordinator_of(
    given: Premises,
    runtime: Runtime,
    steps: StepsOfJob,
    facts: FactsHere | None,
    no_progress: tuple[int, ...],
) -> Coordinator:
    """The guardian of ``runtime`` is told when our ranks must be gone.

    ``steps`` are shared with the other servers, unless nobody reads them here, and ``facts`` are
    compared with theirs. ``no_progress`` is what the start before this one has left of that.
    """
    budget = budget_of(given.settings, no_progress)
    run = _Run(given, runtime.clock, runtime.report, steps, facts, budget)
    if given.settings.peers:
        return _peers(run, runtime)
    if given.settings.follow_cluster:
        from ascend_supervisor.coordination.followed_cluster.coordinator import FollowedCluster  # noqa: PLC0415  (seldom needed)

        return FollowedCluster(run.followed(), run.ledger, run.clock, run.report)
    return Alone(run.placed, run.ledger, joins_others=given.joins_others)


class _Run(Struct, frozen=True):
    """What every coordinator is made of."""

    given: Premises
    clock: Clock
    report: Report
    steps: StepsOfJob
    facts: FactsHere | None
    budget: RestartBudget

    @property
    def table(self) -> Callable[[], Awaitable[FoundTable]]:
        given = self.given
        return table_source(given.options, given.environ, given.cluster, self.clock, self.report)

    @property
    def identity(self) -> Identity:
        return identity(self.given.options, self.given.environ, self.given.cluster)

    @property
    def placed(self) -> Callable[[], Awaitable[Placed]]:
        """Waits for the rank table, and finds this server in it."""
        table, whoami = self.table, self.identity

        async def placed() -> Placed:
            found = await table()
            return Placed(found, *find_entry(found.table, whoami))

        return placed

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.budget, self.clock.now, random.random)

    def followed(self, answered: Callable[[], frozenset[int]] | None = None) -> FollowedTable:
        """What follows the rank table, if it is a file, and the reset file."""
        from ascend_supervisor.coordination.followed_cluster.cluster_files import (  # noqa: PLC0415
            GivenTable,
            RankTableLook,
            ResetFileLook,
        )
        from ascend_supervisor.coordination.followed_cluster.followed_table import FollowedTable  # noqa: PLC0415
        from ascend_supervisor.coordination.followed_cluster.incident import FollowRules  # noqa: PLC0415

        given, settings = self.given, self.given.settings
        rules = FollowRules(
            verdict=settings.cluster_verdict,
            patience=given.patience,
            reset_grace=settings.reset_grace,
            table_timeout=given.options.table_timeout,
            joins_others=given.joins_others,
            reset_file=str(settings.reset_file),
        )
        if given.cluster.given is not None:
            table: FileLook = GivenTable(given.cluster.given)
        else:
            file = table_file(given.options, given.environ, given.cluster, self.clock, self.report)
            table = RankTableLook(file)
        looks = (table, ResetFileLook(settings.reset_file))
        clock, report = self.clock, self.report
        return FollowedTable(self.table, looks, self.identity, rules, clock, report, answered)


def _peers(run: _Run, runtime: Runtime) -> Coordinator:
    from ascend_supervisor.coordination.peers.coordinator import Peers  # noqa: PLC0415  (seldom)

    settings, clock, report = run.given.settings, run.clock, run.report
    meeting = replace(meeting_of(run.given), facts=run.facts, budget=run.budget)
    if settings.progress == "auto":
        meeting = replace(meeting, steps=run.steps)
    fence, placed = runtime.guardian.fence, run.placed
    if settings.peers is OwnEtcd.FIRST:
        from ascend_supervisor.coordination.peers.first_server import (  # noqa: PLC0415  (seldom)
            first_server_of,
            placed_with_etcd,
        )
        from ascend_supervisor.coordination.peers.own_etcd_address import (  # noqa: PLC0415
            endpoint_of,
        )

        first = first_server_of(meeting, _machine(run.given, runtime))
        meeting = replace(meeting, etcd=first.etcd)
        store = run.given.meeting if isinstance(run.given.meeting, TorchStore) else None
        endpoint = partial(
            endpoint_of, environ=run.given.environ, store=store, port=settings.peers_port
        )
        placed = placed_with_etcd(placed, endpoint, first)
    if not settings.follow_cluster:
        from ascend_supervisor.coordination.peers.tables import WrittenTable  # noqa: PLC0415

        tables = _made(run) if settings.servers else WrittenTable(placed)
        return Peers(meeting, tables, fence, clock, report)
    from ascend_supervisor.coordination.peers.in_cluster import PeersInCluster  # noqa: PLC0415

    return PeersInCluster(run.followed, meeting, fence, clock, report)


def _machine(given: Premises, runtime: Runtime) -> Surroundings:
    """For the etcd of --peers first, whose data lie beside the state file."""
    from ascend_supervisor.coordination.peers.own_etcd import Surroundings  # noqa: PLC0415

    place = given.place
    return Surroundings(
        children=runtime.children,
        guardian=runtime.guardian,
        logs=runtime.outputs.logs,
        log=Path(launcher_log_path(place, "etcd", 0)),
        data=Path(place.state_file.with_name(f"{place.state_file.name}.etcd")),
        find=partial(shutil.which, path=given.environ.get("PATH", os.defpath)),
        clock=runtime.clock,
        report=runtime.report,
    )


def _made(run: _Run) -> Tables:
    """The table that the servers make."""
    from ascend_supervisor.coordination.peers.own_address import own_address  # noqa: PLC0415
    from ascend_supervisor.coordination.peers.tables import MadeTable  # noqa: PLC0415

    given, settings = run.given, run.given.settings
    index, servers, etcd = settings.node_rank, settings.servers or 1, settings.peers
    if index is None:
        index = index_told(given.environ, servers, settings.pod_name)
    urls = etcd if isinstance(etcd, tuple) else ()
    address = partial(own_address, settings.server_id, given.environ, urls)
    return MadeTable(index, servers, given.cluster.published, address)


def budget_of(settings: Settings, no_progress: tuple[int, ...] = ()) -> RestartBudget:
    """What restarts may cost, after generations that ended at these steps without progress."""
    return RestartBudget(
        limit=settings.restarts,
        period=settings.restart_period,
        backoff=Backoff(settings.restart_delay, settings.restart_delay_max),
        min_uptime=settings.min_uptime,
        never=settings.no_restart_on,
        never_causes=settings.no_restart_on_cause,
        stuck_limit=settings.no_progress_limit,
        stuck=tuple(step or None for step in no_progress),
    )


def meeting_of(given: Premises) -> PeersMeeting:
    """Where the servers of the job meet, and what holds there."""
    from ascend_supervisor.coordination.peers.meeting import (  # noqa: PLC0415  (seldom)
        PeersMeeting,
        etcd_of,
        host_told,
        machine_told,
    )
    from ascend_supervisor.doctor.server_of_job import etcd_named, peers_job  # noqa: PLC0415

    settings, environ = given.settings, given.environ
    return PeersMeeting(
        etcd=partial(etcd_of, etcd_named(settings, environ)),
        name=peers_job(settings, environ),
        state_file=Path(given.place.state_file),
        settings=in_common(settings, environ),
        budget=budget_of(settings),
        patience=given.patience,
        ttl=settings.peers_ttl,
        fence=settings.peers_fence,
        timeout=settings.peers_timeout,
        verdict=settings.cluster_verdict if settings.follow_cluster else 0.0,
        may_move=settings.follow_cluster,
        host=host_told(environ),
        machine=machine_told(environ),
        leave_after=settings.peers_failures if settings.servers else (0, 0),
    )


IN_COMMON = (
    "method",
    "servers",
    "restarts",
    "restart_period",
    "restart_delay",
    "restart_delay_max",
    "min_uptime",
    "no_restart_on",
    "no_restart_on_cause",
    "no_progress_limit",
    "peers_ttl",
    "peers_fence",
    "peers_timeout",
    "follow_cluster",
    "cluster_verdict",
    "master_port",
)
"""The settings that every server decides by, or must have in common to meet."""


def in_common(settings: Settings, environ: Mapping[str, str]) -> str:
    """What must not differ between the servers of the job; of ``once``, any command may."""
    from ascend_supervisor.coordination.peers.meeting import command_told  # noqa: PLC0415  (seldom)

    told = [f"{key}={_told(getattr(settings, key))}" for key in IN_COMMON]
    if settings.method != "once" and settings.command:
        told.append(command_told(settings.command, environ))
    return " ".join(told)


def _told(value: object) -> str:
    return ",".join(map(str, sorted(value))) if isinstance(value, frozenset) else str(value)
