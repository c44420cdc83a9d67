"""Which entry of a rank table is this machine; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import Entry, Format, RankTable
from ascend_supervisor.errors import SettingsRefused, TableRefused
from ascend_supervisor.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_MOST_CANDIDATES = 20
INDEX = "VC_TASK_INDEX"


class JobSize(Struct, frozen=True):
    """What variables say of the job, with which a rank table must agree; None: nothing.

    ``evidence`` are these variables and their values.
    """

    evidence: str
    devices: int | None = None
    devices_here: int | None = None
    pods: int | None = None


class Identity(Struct, frozen=True):
    """What identifies this machine: explicit options, and variables of its environment.

    ``known`` holds environment variables and their values, the most trustworthy first.
    """

    pod_name: str | None = None
    server_id: str | None = None
    node_rank: int | None = None
    known: tuple[tuple[str, str], ...] = ()
    size: JobSize | None = None


def identity_of(
    environ: Mapping[str, str],
    pod_name: str | None = None,
    server_id: str | None = None,
    node_rank: int | None = None,
    *,
    under_mpirun: bool = False,
    size: JobSize | None = None,
    number: tuple[str, str] | None = None,
) -> Identity:
    """``size`` is what variables say of the job, if a rank table must agree with it.

    ``number`` is a variable that numbers the pods of this job, and its value. It counts only if the
    table has no names (2.0), because a named table may have another order.
    """
    names = _UNDER_MPIRUN if under_mpirun else _VARIABLES
    known = [(name, environ[name]) for name in names if environ.get(name)]
    if number is not None and number not in known:
        known.append(number)
    return Identity(pod_name, server_id, node_rank, tuple(known), size)


def find_entry(table: RankTable, identity: Identity) -> tuple[int, Entry]:
    """The node rank and the entry of this machine; raises TableRefused rather than guess.

    The table must agree with what variables say of the job: else it belongs to another run.
    """
    if not table.entries:
        raise TableRefused("the rank table is completed, but lists no server; see what wrote it")
    node_rank, entry = _matching_entry(table, identity)
    if identity.size is not None:
        _check_size(table, entry, identity.size)
    return node_rank, entry


def _check_size(table: RankTable, entry: Entry, size: JobSize) -> None:
    with_devices = sum(bool(entry.devices) for entry in table.entries)
    compared = (
        (size.devices, table.world_size, "devices"),
        (size.devices_here, len(entry.devices), "devices of this machine"),
        (size.pods, with_devices, "entries with devices"),
    )
    for expected, found, what in compared:
        if expected not in (None, found):
            raise TableRefused(
                f"the table holds {found} {what}, but {size.evidence}: it may be left over from an "
                "earlier run; see that the cluster writes a new one, or unset these variables"
            )


def _matching_entry(table: RankTable, identity: Identity) -> tuple[int, Entry]:
    """As ``find_entry``, whatever variables say of the job.

    If variables declare the cluster, it raises SettingsRefused for the one that is missing.

    Explicit options must match. A variable that matches nothing is skipped; if it matches several
    entries (two pods of a host), the next variable decides among these. But if the platform gives
    the pod's name for certain, a table of pods without that name belongs to another run.
    """
    entries = list(enumerate(table.entries))
    left, tried = entries, []
    for option, matches, value in _explicit(identity):
        tried.append(f"{option} {shown(value)}")
        left = [place for place in left if matches(*place, value)]
        if not left:
            raise TableRefused(f"no entry matches {' and '.join(tried)}; {_listing(entries)}")
    for variable, value in identity.known:
        if len(left) > 1 and (variable in _VARIABLES or table.format is Format.A5):
            tried.append(f"{variable} {shown(value)}")
            matches = _VARIABLES.get(variable, _node_rank)
            matching = [place for place in left if matches(*place, value)]
            if not matching and variable in _SURE and table.format is Format.TEMPLATE_2:
                raise TableRefused(
                    f"no pod of the table is {shown(value)} ({variable}): the table may be left "
                    f"over from an earlier run; {_listing(entries)}; see that the cluster writes a "
                    "new one, or tell the entry by --node-rank"
                )
            left = matching or left
    if len(left) == 1:
        return left[0]
    if table.format is Format.DECLARED:
        raise SettingsRefused(_without_index(len(entries), identity))
    raise TableRefused(
        f"cannot tell which entry is this machine{_tried(tried)}; {_listing(left)}; tell it by "
        "--pod-name, --server-id or --node-rank"
    )


def _tried(names: Sequence[str]) -> str:
    if names:
        return f", tried {', '.join(names)}"
    return f": none of these variables is set: {', '.join(_VARIABLES)}"


_Match: TypeAlias = "Callable[[int, Entry, str], bool]"


def _pod_name(_: int, entry: Entry, name: str) -> bool:
    return entry.pod_name == name


def _host(_: int, entry: Entry, name: str) -> bool:
    return name in (entry.server_id, entry.host_ip, entry.server_ip)


def _pod_ip(_: int, entry: Entry, name: str) -> bool:
    return name in (entry.container_ip, entry.pod_ip)


def _pod_uid(_: int, entry: Entry, name: str) -> bool:
    return entry.server_id == name


def _node_rank(node_rank: int, _: Entry, name: str) -> bool:
    return str(node_rank) == name


_VARIABLES: Mapping[str, _Match] = {
    "MA_CURRENT_INSTANCE_NAME": _pod_name,
    "POD_NAME": _pod_name,
    "HOSTNAME": _pod_name,
    "MA_CURRENT_HOST_IP": _host,
    "XDL_IP": _host,
    "HOST_IP": _host,
    "POD_IP": _pod_ip,
    "POD_UID": _pod_uid,
    "VC_TASK_INDEX": _node_rank,
    "MA_TASK_INDEX": _node_rank,
    "VK_TASK_INDEX": _node_rank,
    "MS_NODE_RANK": _node_rank,
}
"""The variables that identify a machine, the most trustworthy first, and what they match."""

_SWAPPED = {"VC_TASK_INDEX": "MA_TASK_INDEX", "MA_TASK_INDEX": "VC_TASK_INDEX"}
_UNDER_MPIRUN = tuple(_SWAPPED.get(name, name) for name in _VARIABLES)
"""Their order in ModelArts' run_mpi.sh."""

_SURE = frozenset({"MA_CURRENT_INSTANCE_NAME", "POD_NAME"})


def _explicit(identity: Identity) -> Iterator[tuple[str, _Match, str]]:
    if identity.pod_name is not None:
        yield "--pod-name", _pod_name, identity.pod_name
    if identity.server_id is not None:
        yield "--server-id", _host, identity.server_id
    if identity.node_rank is not None:
        yield "--node-rank", _node_rank, str(identity.node_rank)


def _without_index(servers: int, identity: Identity) -> str:
    found = dict(identity.known).get(INDEX)
    return (
        f"{INDEX}: expected this server's number, from 0 to {servers - 1}, found "
        f"{'nothing' if found is None else shown(found)}; set it, or give --node-rank"
    )


def _listing(entries: list[tuple[int, Entry]]) -> str:
    lines = [_line(*place) for place in entries[:_MOST_CANDIDATES]]
    if len(entries) > _MOST_CANDIDATES:
        lines.append(f"and {len(entries) - _MOST_CANDIDATES} more")
    return f"the candidates are {', '.join(lines)}"


def _line(node_rank: int, entry: Entry) -> str:
    host = entry.host_ip or entry.server_ip
    names = {"pod": entry.pod_name, "server": entry.server_id, "host": host}
    known = "".join(f" {noun} {shown(name)}" for noun, name in names.items() if name is not None)
    return f"node rank {node_rank}{f' ({known[1:]})' if known else ''}"
