"""From settings to where the servers of the job meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path, PurePath

from msgspec import Struct

from ascend_supervisor.coordination.etcd_access import etcd_of
from ascend_supervisor.coordination.peers.near import FEW
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.outcome import Patience
from ascend_supervisor.restart_policy import RestartBudget
from ascend_supervisor.settings.peers_options import JOB_VARIABLES
from ascend_supervisor.settings.precedence import Settings

IN_COMMON = (
    "method",
    "restarts",
    "restart_period",
    "restart_delay",
    "restart_delay_max",
    "min_uptime",
    "no_restart_on",
    "peers_ttl",
    "peers_fence",
    "peers_timeout",
    "follow_cluster",
    "cluster_verdict",
)
"""The settings that every server decides by."""


class Meeting(Struct, frozen=True):
    """Where the servers of the job meet, and what holds there; times in seconds.

    ``etcd`` makes a client; what it raises is raised by ``Peers``, too. ``name`` is that of the
    job. ``state_file`` is this server's: beside it is kept at which place it is. ``settings`` is
    what must not differ between servers. ``patience`` is that of the ranks of this one. ``verdict``
    is how long a failure waits for the word of the cluster; 0: none is followed, or not waited for.
    ``may_move``: another rank table may hold this server elsewhere, and more servers, or fewer. A
    job of more than ``few`` servers reads little at each change.
    """

    etcd: Callable[[], AbstractAsyncContextManager[Etcd]]
    name: str
    state_file: Path
    settings: str
    budget: RestartBudget
    patience: Patience
    ttl: float
    fence: float
    timeout: float
    verdict: float = 0.0
    may_move: bool = False
    few: int = FEW


def meeting_of(
    settings: Settings, environ: Mapping[str, str], budget: RestartBudget, state_file: PurePath
) -> Meeting:
    return Meeting(
        etcd=partial(etcd_of, settings, environ),
        name=settings.peers_job or next(filter(None, map(environ.get, JOB_VARIABLES)), ""),
        state_file=Path(state_file),
        settings=" ".join(f"{key}={_told(getattr(settings, key))}" for key in IN_COMMON),
        budget=budget,
        patience=Patience(settings.drain, settings.grace),
        ttl=settings.peers_ttl,
        fence=settings.peers_fence,
        timeout=settings.peers_timeout,
        verdict=settings.cluster_verdict if settings.follow_cluster else 0.0,
        may_move=settings.follow_cluster,
    )


def _told(value: object) -> str:
    return ",".join(map(str, sorted(value))) if isinstance(value, frozenset) else str(value)
