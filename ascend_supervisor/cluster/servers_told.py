"""The servers of a job whose ranks are not ours to start: how many, and which is this; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ascend_supervisor.cluster.from_environment import operator, volcano
from ascend_supervisor.cluster.from_environment.choice import pods_told
from ascend_supervisor.cluster.from_environment.model_arts import host_names
from ascend_supervisor.cluster.from_environment.numbers import MOST_HOSTS
from ascend_supervisor.cluster.rank_table import Entry, Format, RankTable
from ascend_supervisor.errors import SettingsRefused

OTHER_NODE_RANKS = ("MS_NODE_RANK", "PET_NODE_RANK")
INDEX = "JOB_COMPLETION_INDEX"
"""Set by Kubernetes in the pods of an Indexed Job."""
_INDEX = re.compile(r"[0-9]{1,5}", re.ASCII)


def servers_table(environ: Mapping[str, str], node_rank: int) -> RankTable:
    """An entry without devices for each server that the variables tell of; at least this one."""
    told = (pods for _, pods in pods_told(environ))
    servers = min(max(node_rank + 1, *told), MOST_HOSTS)
    names = host_names(environ, servers)
    return RankTable(
        format=Format.DECLARED,
        entries=tuple(
            Entry((), server_id=name or f"server {index}") for index, name in enumerate(names)
        ),
        world_size=0,
        servers=servers,
        document=b"",
    )


def index_told(environ: Mapping[str, str], servers: int, pod_name: str | None = None) -> int | None:
    """This server's number, if a variable tells one below ``servers``; else it is a spare.

    ``pod_name`` is that of the option. Raises SettingsRefused where the job has several tasks, and
    nothing tells which of their hosts this is: rank 0 is to be on the first.
    """
    told = _first_number(environ.get(INDEX, ""), *_node_ranks(environ, pod_name))
    if told is None and volcano.has_tasks(environ):
        raise SettingsRefused(f"--servers: {volcano.unknown_place(environ)}")
    return told if told is not None and told < servers else None


def node_rank_told(environ: Mapping[str, str], pod_name: str | None = None) -> int:
    """This server's number; 0 if no variable tells it."""
    known = operator.node_rank_told(environ)
    return _first_number(known[1] if known else "", *_node_ranks(environ, pod_name)) or 0


def _node_ranks(environ: Mapping[str, str], pod_name: str | None) -> Iterator[str]:
    """What variables say of this server's number."""
    if volcano.has_tasks(environ):
        told = volcano.place(environ, pod_name)
        yield str(told.number) if told else ""
    else:
        yield from (environ.get(name, "") for name in volcano.INDICES)
    yield from (environ.get(name, "") for name in OTHER_NODE_RANKS)


def _first_number(*texts: str) -> int | None:
    return next((int(text) for text in texts if _INDEX.fullmatch(text)), None)
