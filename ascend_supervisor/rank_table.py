"""Rank tables: who is where, whatever format says so, and which entry is this machine; pure.

The readers of the formats are in rank_table_formats; this file knows no layout but template 1's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import orjson

from ascend_supervisor import rank_table_formats as formats
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.plumbing.document import (
    Cursor,
    Misfit,
    NotJson,
    parse_json,
    refuse_doubles,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MAX_BYTES = 64 * 1024 * 1024
_READY = ("completed", "complete")  # one producer spells it "complete"
_MOST_CANDIDATES = 20


class Format(Enum):
    """How a table is laid out, told by its structure: ``version`` alone is not to be trusted."""

    TEMPLATE_1 = "template 1"
    TEMPLATE_2 = "template 2"
    SUPER_POD = "1.2"
    A5 = "2.0"
    LAB = "lab group_list"
    DECLARED = "no file"


@dataclass(frozen=True, slots=True)
class Device:
    rank: int
    device_id: int
    device_ip: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """What one supervisor supervises: a pod of template 2, a server of the other formats.

    The local index of a device is its position in ``devices``.
    """

    devices: tuple[Device, ...]
    server_id: str | None = None
    pod_name: str | None = None
    host_ip: str | None = None
    container_ip: str | None = None

    @property
    def label(self) -> str:
        """Its most telling name, for people."""
        return self.pod_name or self.server_id or "an entry without a name"


@dataclass(frozen=True, slots=True)
class RankTable:
    """A table that is completed and right.

    ``entries`` are in rank order, those without devices last; the position is the node rank.
    ``servers`` counts the distinct servers that hold devices (2.0 names none: the entries).
    ``document`` is what the ranks are handed: the group_list formats converted to template 1,
    of the others the very bytes that were parsed. Empty where there is nothing to hand them.
    """

    format: Format
    entries: tuple[Entry, ...]
    world_size: int
    servers: int
    document: bytes

    def holds_all(self, entry: Entry) -> bool:
        """Whether no other entry has a part in the job."""
        if not self.world_size:
            return len(self.entries) == 1
        return len(entry.devices) == self.world_size


@dataclass(frozen=True, slots=True)
class NotReady:
    """The table is still being written; ``reason`` continues a sentence after "not ready: "."""

    reason: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this machine is: as it was told explicitly, and as its environment lets it know.

    ``known`` holds environment variables and their values, the most trustworthy first.
    """

    pod_name: str | None = None
    server_id: str | None = None
    node_rank: int | None = None
    known: tuple[tuple[str, str], ...] = ()


def parse(data: bytes) -> RankTable | NotReady:
    """The table in ``data``; raises TableRefused when it says it is completed but is wrong.

    Torn reads are normal: what is no JSON object is not ready, rather than wrong.
    """
    if len(data) > MAX_BYTES:
        raise TableRefused(f"$: expected at most {MAX_BYTES} bytes, found {len(data)}")
    if not data or data.isspace():
        return NotReady("the file is empty")
    try:
        top = parse_json(data)
    except NotJson as error:
        return NotReady(f"not valid JSON yet: {error}")
    except Misfit as misfit:
        raise TableRefused(str(misfit)) from misfit
    if not isinstance(top.value, dict):
        return NotReady(f"the top level is {shown(top.value)}, not an object")
    if "status" not in top.value:
        return NotReady("no 'status'")
    if top.value["status"] not in _READY:
        return NotReady(f"status is {shown(top.value['status'])}")
    try:
        refuse_doubles(data)
        return _completed(top, data)
    except Misfit as misfit:
        raise TableRefused(str(misfit)) from misfit


def standalone(devices: int) -> bytes:
    """A template 1 table for one server without a network; raises TableRefused for too many."""
    if not 1 <= devices <= formats.MOST_DEVICES:
        raise TableRefused(
            f"a table of one server has 1 to {formats.MOST_DEVICES} devices, not {devices}"
        )
    local = tuple(Device(rank, rank, "127.0.0.1") for rank in range(devices))
    return _template_1([Entry(local, server_id="127.0.0.1")])


def _completed(top: Cursor, data: bytes) -> RankTable:
    layout = _format(top)
    listed = _READERS[layout](top)
    entries = tuple(sorted(map(_entry, listed), key=_first_rank))
    holders = [entry for entry in entries if entry.devices]
    return RankTable(
        format=layout,
        entries=entries,
        world_size=sum(len(entry.devices) for entry in holders),
        servers=len(holders if layout is Format.A5 else {entry.server_id for entry in holders}),
        document=_template_1(holders) if layout in (Format.TEMPLATE_2, Format.LAB) else data,
    )


_READERS: Mapping[Format, Callable[[Cursor], Iterable[formats.Listed]]] = {
    Format.TEMPLATE_1: formats.servers,
    Format.TEMPLATE_2: formats.pods,
    Format.SUPER_POD: formats.super_pod,
    Format.A5: formats.a5,
    Format.LAB: formats.lab,
}


def _format(top: Cursor) -> Format:
    if top.get("group_list") is not None:
        return _group_format(top)
    if top.get("server_list") is not None:
        super_pod = top.get("super_pod_list") is not None or top.get("version") == "1.2"
        return Format.SUPER_POD if super_pod else Format.TEMPLATE_1
    if top.get("rank_list") is not None:
        return Format.A5
    raise Misfit("$: expected 'group_list', 'server_list' or 'rank_list', found none of them")


def _group_format(top: Cursor) -> Format:
    instance = formats.first_instance(top)
    if instance is None or instance.get("pod_name") is not None:
        return Format.TEMPLATE_2
    if instance.get("rank_id") is not None:
        return Format.LAB
    expected = "'pod_name' (template 2) or 'rank_id' (lab group_list)"
    raise Misfit(f"{instance.path}: expected {expected}, found neither")


def _entry(listed: formats.Listed) -> Entry:
    return Entry(
        tuple([Device(*row) for row in listed.rows]),
        listed.server_id,
        listed.pod_name,
        listed.host_ip,
        listed.container_ip,
    )


def _first_rank(entry: Entry) -> tuple[bool, int]:
    """Sorts entries by their lowest rank, and those without devices behind them all."""
    return not entry.devices, min((device.rank for device in entry.devices), default=0)


def _template_1(entries: Iterable[Entry]) -> bytes:
    """The entries, which are in rank order, with those of one server made one: HCCL wants it so."""
    servers: dict[str | None, list[dict[str, str]]] = {}
    for entry in entries:
        servers.setdefault(entry.server_id, []).extend(map(_template_1_device, entry.devices))
    table = {
        "status": "completed",
        "version": "1.0",
        "server_count": str(len(servers)),
        "server_list": [
            {"server_id": server_id, "device": devices} for server_id, devices in servers.items()
        ],
    }
    return orjson.dumps(table, option=orjson.OPT_APPEND_NEWLINE)


def _template_1_device(device: Device) -> dict[str, str]:
    device_id, rank_id = str(device.device_id), str(device.rank)
    if device.device_ip is None:
        return {"device_id": device_id, "rank_id": rank_id}
    return {"device_id": device_id, "device_ip": device.device_ip, "rank_id": rank_id}


def identity_of(
    environ: Mapping[str, str],
    pod_name: str | None = None,
    server_id: str | None = None,
    node_rank: int | None = None,
) -> Identity:
    known = tuple((name, environ[name]) for name in _VARIABLES if environ.get(name))
    return Identity(pod_name, server_id, node_rank, known)


def find_entry(table: RankTable, identity: Identity) -> tuple[int, Entry]:
    """The node rank and the entry of this machine; raises TableRefused rather than guess.

    What was told explicitly must match. Of the variables, one that matches nothing is passed
    over; one that matches several (two pods of a host) leaves these to the next. But a table of
    pods that lacks this one, whose name the platform gives for sure, belongs to another run.
    """
    entries = list(enumerate(table.entries))
    left, tried = entries, []
    for option, matches, value in _explicit(identity):
        tried.append(f"{option} {shown(value)}")
        left = [place for place in left if matches(*place, value)]
        if not left:
            raise TableRefused(f"no entry matches {' and '.join(tried)}; {_listing(entries)}")
    for variable, value in identity.known:
        if len(left) > 1:
            tried.append(f"{variable} {shown(value)}")
            matching = [place for place in left if _VARIABLES[variable](*place, value)]
            if not matching and variable in _SURE and table.format is Format.TEMPLATE_2:
                raise TableRefused(
                    f"no pod of the table is {shown(value)} ({variable}): the table may be left "
                    f"over from an earlier run; {_listing(entries)}; see that the cluster writes a "
                    "new one, or tell the entry by --node-rank"
                )
            left = matching or left
    if len(left) == 1:
        return left[0]
    raise TableRefused(
        f"cannot tell which entry is this machine, tried {', '.join(tried) or 'no name at all'}; "
        f"{_listing(left)}; tell it by --pod-name, --server-id or --node-rank"
    )


_Match: TypeAlias = "Callable[[int, Entry, str], bool]"


def _pod_name(_: int, entry: Entry, name: str) -> bool:
    return entry.pod_name == name


def _host(_: int, entry: Entry, name: str) -> bool:
    return name in (entry.server_id, entry.host_ip)


def _container(_: int, entry: Entry, name: str) -> bool:
    return entry.container_ip == name


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
    "POD_IP": _container,
    "POD_UID": _pod_uid,
    "VC_TASK_INDEX": _node_rank,
    "MA_TASK_INDEX": _node_rank,
    "VK_TASK_INDEX": _node_rank,
    "MS_NODE_RANK": _node_rank,
}
"""The variables that know a machine, the most trustworthy first, and what of an entry they name."""


_SURE = frozenset({"MA_CURRENT_INSTANCE_NAME", "POD_NAME"})


def _explicit(identity: Identity) -> Iterator[tuple[str, _Match, str]]:
    if identity.pod_name is not None:
        yield "--pod-name", _pod_name, identity.pod_name
    if identity.server_id is not None:
        yield "--server-id", _host, identity.server_id
    if identity.node_rank is not None:
        yield "--node-rank", _node_rank, str(identity.node_rank)


def _listing(entries: list[tuple[int, Entry]]) -> str:
    if not entries:
        return "the table has no entries"
    lines = [_line(*place) for place in entries[:_MOST_CANDIDATES]]
    if len(entries) > _MOST_CANDIDATES:
        lines.append(f"and {len(entries) - _MOST_CANDIDATES} more")
    return f"the candidates are {', '.join(lines)}"


def _line(node_rank: int, entry: Entry) -> str:
    names = {"pod": entry.pod_name, "server": entry.server_id, "host": entry.host_ip}
    known = "".join(f" {noun} {shown(name)}" for noun, name in names.items() if name is not None)
    return f"node rank {node_rank}{f' ({known[1:]})' if known else ''}"
