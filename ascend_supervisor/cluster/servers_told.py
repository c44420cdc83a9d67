"""The servers of a job whose ranks are not ours to start: how many, and which is this; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ascend_supervisor.cluster.from_environment import operator
from ascend_supervisor.cluster.from_environment.choice import pods_told
from ascend_supervisor.cluster.from_environment.model_arts import host_names
from ascend_supervisor.cluster.from_environment.numbers import MOST_HOSTS
from ascend_supervisor.cluster.rank_table import Entry, Format, RankTable

NODE_RANKS = ("VC_TASK_INDEX", "MA_TASK_INDEX", "VK_TASK_INDEX", "MS_NODE_RANK", "PET_NODE_RANK")
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


def index_told(environ: Mapping[str, str], servers: int) -> int | None:
    """This server's number, if a variable tells one below ``servers``; else it is a spare."""
    told = (environ.get(name, "") for name in (INDEX, *NODE_RANKS))
    number = next((int(text) for text in told if _INDEX.fullmatch(text)), servers)
    return number if number < servers else None


def node_rank_told(environ: Mapping[str, str]) -> int:
    """This server's number; 0 if no variable tells it."""
    known = operator.node_rank_told(environ)
    told = (known[1] if known else "", *(environ.get(name, "") for name in NODE_RANKS))
    return next((int(text) for text in told if _INDEX.fullmatch(text)), 0)
