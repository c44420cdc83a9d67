"""From settings to where the servers of the job meet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePath
from platform import node

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
    "servers",
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
    "master_port",
)
"""The settings that every server decides by, or must have in common to meet."""
OWN_NAMES = ("POD_NAME", "HOSTNAME", "POD_IP", "HOST_IP", "NODE_NAME")
"""Variables whose values may stand in the command of one server, and others in that of another."""


POD_NAMES = ("MA_CURRENT_INSTANCE_NAME", "POD_NAME")
NODES = ("NODE_NAME", "MA_CURRENT_HOST_IP", "XDL_IP", "HOST_IP")
POD_ADDRESSES = ("POD_IP", "MA_CURRENT_IP")
MOST_OF_HOST = 80
LEAST_NAME = 4
MOST_OF_NAME = 40
_OF_A_SERVER = re.compile(
    r"(\0--?(?:[a-z]+[-_])*(?:rank|index|host|hostname|addr|address|ip)[=\0])[^\0]*", re.IGNORECASE
)
"""An option that each server may give a value of its own."""
_ADDRESS = re.compile(r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b")


class Meeting(Struct, frozen=True):
    """Where the servers of the job meet, and what holds there; times in seconds.

    ``etcd`` makes a client; what it raises is raised by ``Peers``, too. ``name`` is that of the
    job. ``state_file`` is this server's: beside it is kept at which place it is. ``settings`` is
    what must not differ between servers. ``patience`` is that of the ranks of this one. ``verdict``
    is how long a failure waits for the word of the cluster; 0: none is followed, or not waited for.
    ``may_move``: another rank table may hold this server elsewhere, and more servers, or fewer. A
    job of more than ``few`` servers reads little at each change. ``host`` names this one to people.
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
    host: str = ""


def meeting_of(
    settings: Settings, environ: Mapping[str, str], budget: RestartBudget, state_file: PurePath
) -> Meeting:
    return Meeting(
        etcd=partial(etcd_of, settings, environ),
        name=settings.peers_job or next(filter(None, map(environ.get, JOB_VARIABLES)), ""),
        state_file=Path(state_file),
        settings=" ".join((*_in_common(settings), *_command(settings, environ))),
        budget=budget,
        patience=Patience(settings.drain, settings.grace),
        ttl=settings.peers_ttl,
        fence=settings.peers_fence,
        timeout=settings.peers_timeout,
        verdict=settings.cluster_verdict if settings.follow_cluster else 0.0,
        may_move=settings.follow_cluster,
        host=host_told(environ, node()),
    )


def host_told(environ: Mapping[str, str], hostname: str) -> str:
    """The pod, its node and its address, as variables of the platform tell them; else the host."""

    def told(names: Sequence[str]) -> str | None:
        return next(filter(None, map(environ.get, names)), None)

    pod, host, address = map(told, (POD_NAMES, NODES, POD_ADDRESSES))
    words = [f"pod {pod}" if pod else hostname]
    words += [f"node {host}"] if host else []
    words += [f"address {address}"] if address else []
    return ", ".join(word[:MOST_OF_HOST] for word in words if word.isprintable())


def _in_common(settings: Settings) -> Iterator[str]:
    return (f"{key}={_told(getattr(settings, key))}" for key in IN_COMMON)


def _command(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """The name of its script and a digest: it may hold secrets. Of ``once``, any may differ.

    What may be the server's own does not count: its names, addresses, ``--node_rank 3``.
    """
    if settings.method == "once" or not settings.command:
        return
    program, *words = settings.command
    text = "\0".join((PurePath(program).name.rstrip("0123456789."), *words))
    names = (node(), *(environ.get(name, "") for name in OWN_NAMES))
    for own in sorted(names, key=len, reverse=True):
        if len(own) > LEAST_NAME and any(map(str.isdigit, own)):
            text = text.replace(own, "*")
    text = _ADDRESS.sub("*", _OF_A_SERVER.sub(r"\1*", text))
    digest = sha256(text.encode(errors="surrogateescape")).hexdigest()[:8]
    script = next((word for word in words if word.endswith(".py")), program)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", PurePath(script).name)[:MOST_OF_NAME]
    yield f"command={name}:{digest}"


def _told(value: object) -> str:
    return ",".join(map(str, sorted(value))) if isinstance(value, frozenset) else str(value)
