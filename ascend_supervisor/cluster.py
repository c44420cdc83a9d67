"""The cluster as this run is told of it: where its rank table comes from, and who we are in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from ascend_supervisor.declared import check_alone, check_pod, declared_table
from ascend_supervisor.events import Report
from ascend_supervisor.identity import Identity, identity_of
from ascend_supervisor.launchers.mindspore import RANK_TABLE
from ascend_supervisor.plumbing.clock import Clock, MonotonicClock
from ascend_supervisor.rank_table import FoundTable
from ascend_supervisor.rank_table_file import (
    DECLARED,
    TableFile,
    found_in,
    standalone_table,
    table_places,
)
from ascend_supervisor.settings import Settings


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
    clock: Clock,
    report: Report,
) -> Callable[[], Awaitable[FoundTable]]:
    """What gives the table when it is there; ``devices`` are those of this machine.

    Raises a Refusal where the table is not a file and cannot be made.
    """
    given = _without_a_file(settings, environ, devices)
    if given is None:
        file = _file(settings, environ, clock, report)
        return partial(file.wait, settings.rank_table_timeout or None)

    async def at_once() -> FoundTable:
        return given

    return at_once


async def table_now(
    settings: Settings, environ: Mapping[str, str], devices: Sequence[str]
) -> FoundTable:
    """The table as it stands, without waiting; raises a Refusal."""
    given = _without_a_file(settings, environ, devices)
    if given is not None:
        return given
    return await _file(settings, environ, MonotonicClock(), lambda _: None).now()


def _without_a_file(
    settings: Settings, environ: Mapping[str, str], devices: Sequence[str]
) -> FoundTable | None:
    if settings.standalone is not None:
        return standalone_table(settings.standalone or len(devices) or 1)
    if settings.rank_table is not None or _needs_file(settings.method, environ):
        return None
    table = declared_table(environ)
    return None if table is None else found_in(DECLARED, table)


def _needs_file(method: str, environ: Mapping[str, str]) -> bool:
    """Whether the ranks read the file themselves, so that nothing else will do."""
    return method == "ranktable" or (
        method in {"msrun", "mindspore"} and environ.get(RANK_TABLE) == "True"
    )


def _file(
    settings: Settings, environ: Mapping[str, str], clock: Clock, report: Report
) -> TableFile:
    explicit = None if settings.rank_table is None else str(settings.rank_table)
    return TableFile(table_places(explicit, environ), clock, report)
