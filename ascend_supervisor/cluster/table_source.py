"""Where this run's rank table comes from, and which entry is ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from ascend_supervisor.cluster.from_environment.choice import check_alone, check_pod
from ascend_supervisor.cluster.from_environment.model_arts import declared_table
from ascend_supervisor.cluster.identity import Identity, identity_of
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.cluster.table_file import table_places
from ascend_supervisor.cluster.wait_for_table import DECLARED, TableFile, found_in, standalone_table
from ascend_supervisor.events import Report
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.tasks.clock import Clock, MonotonicClock


def identity(settings: Settings, environ: Mapping[str, str]) -> Identity:
    return identity_of(environ, settings.pod_name, settings.server_id, settings.node_rank)


def check_cluster(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise SettingsRefused where ranks that are started here would be in the wrong place."""
    check_pod(environ)
    if settings.standalone is not None:
        check_alone(environ)


def table_source(
    settings: Settings,
    environ: Mapping[str, str],
    devices: Sequence[str],
    needs_file: bool,
    clock: Clock,
    report: Report,
) -> Callable[[], Awaitable[FoundTable]]:
    """A function that waits for the rank table; ``devices`` are those of this machine.

    ``needs_file``: the ranks read the file, so variables cannot declare the cluster instead.

    Raises a Refusal where the table is not a file and cannot be made.
    """
    given = _without_a_file(settings, environ, devices, needs_file)
    if given is None:
        file = _file(settings, environ, clock, report)
        return partial(file.wait, settings.rank_table_timeout or None)

    async def at_once() -> FoundTable:
        return given

    return at_once


async def table_now(
    settings: Settings, environ: Mapping[str, str], devices: Sequence[str], needs_file: bool
) -> FoundTable:
    """The table as it stands, without waiting; raises a Refusal."""
    given = _without_a_file(settings, environ, devices, needs_file)
    if given is not None:
        return given
    return await _file(settings, environ, MonotonicClock(), lambda _: None).now()


def _without_a_file(
    settings: Settings, environ: Mapping[str, str], devices: Sequence[str], needs_file: bool
) -> FoundTable | None:
    if settings.standalone is not None:
        return standalone_table(settings.standalone or len(devices) or 1)
    if settings.rank_table is not None or needs_file:
        return None
    table = declared_table(environ)
    return None if table is None else found_in(DECLARED, table)


def _file(
    settings: Settings, environ: Mapping[str, str], clock: Clock, report: Report
) -> TableFile:
    explicit = None if settings.rank_table is None else str(settings.rank_table)
    return TableFile(table_places(explicit, environ), clock, report)
