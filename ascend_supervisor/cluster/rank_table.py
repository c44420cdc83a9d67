"""Which ranks run where: the rank table, whatever format it came in; values.

Two tables that agree in what ranks depend on are the same to them: writers rewrite a table with
other spaces, another order of keys, another ``version`` or the time of writing. The order of
servers matters only to ranks that start together: HCCL compares a checksum of the whole table
between them, over its lists as they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from msgspec import Struct

from ascend_supervisor.events.rank_table import (
    NO_FILE,
)
from ascend_supervisor.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator


class Format(Enum):
    """How a table is laid out, told by its structure: ``version`` alone is not to be trusted."""

    TEMPLATE_1 = "template 1"
    TEMPLATE_2 = "template 2"
    SUPER_POD = "1.2"
    A5 = "2.0"
    LAB = "lab group_list"
    DECLARED = NO_FILE


class Device(Struct, frozen=True):
    rank: int
    device_id: int
    device_ip: str | None


class Entry(Struct, frozen=True):
    """What one supervisor supervises: a pod of template 2, a server of the other formats.

    The local index of a device is its position in ``devices``.
    """

    devices: tuple[Device, ...]
    server_id: str | None = None
    pod_name: str | None = None
    host_ip: str | None = None
    container_ip: str | None = None
    pod_ip: str | None = None
    server_ip: str | None = None

    @property
    def label(self) -> str:
        """Its most informative name, for people."""
        return self.pod_name or self.server_id or "an entry without a name"


class RankTable(Struct, frozen=True):
    """A table that is completed and right.

    ``entries`` are in rank order, those without devices last; the position is the node rank.
    ``servers`` counts the distinct servers that hold devices (2.0 names none: the entries).
    ``document`` is what the ranks get: the group_list formats converted to template 1, the other
    formats as the bytes that were parsed. Empty if the ranks get no file.
    ``warnings`` are sentences about what some HCCL refuses. ``essence`` is a digest of what the
    ranks depend on, and ``placement`` is one of what ranks that run depend on (see there); empty
    if that is not known, as of a table that came from no file. ``is_made``: the servers have made
    it, and the ``host_ip`` of each, which may be a name, is where it says that the others reach it.
    """

    format: Format
    entries: tuple[Entry, ...]
    world_size: int
    servers: int
    document: bytes
    warnings: tuple[str, ...] = ()
    essence: str = ""
    placement: str = ""
    is_made: bool = False

    @property
    def file_for_ranks(self) -> bytes | None:
        """The content of the ranks' own file; None if they get no file."""
        return self.document if self.document and self.world_size else None

    def holds_all(self, entry: Entry) -> bool:
        """Whether no other entry has a part in the job."""
        if not self.world_size:
            return len(self.entries) == 1
        return len(entry.devices) == self.world_size


PODS = "see whether the cluster has placed all pods"


class NotReady(Struct, frozen=True):
    """The table is still being written.

    ``reason`` continues a sentence after "not ready: ", and ``details`` continue the reason; if
    only they change, that is no news. ``lasting`` is what to say instead once nothing has changed
    for a while. ``advice`` is what to do if the table is never completed. ``is_said``: the table
    itself says so, in whole; else the file may be missing or half written.
    """

    reason: str
    details: str = ""
    lasting: NotReady | None = None
    advice: str = PODS
    is_said: bool = False

    @property
    def text(self) -> str:
        return self.reason + self.details

    @property
    def told(self) -> str:
        """The same while the wait goes on, with what to do if that is more than to wait."""
        return self.text if self.advice in {"", PODS} else f"{self.text}; {self.advice}"


class FoundTable(Struct, frozen=True):
    """A table, and where it was found; ``sha256`` is of the file's content."""

    path: Path
    table: RankTable
    sha256: str

    @property
    def essence(self) -> str:
        """The same for two tables if they are the same to the ranks, however they are written."""
        return self.table.essence or self.sha256

    @property
    def placement(self) -> str:
        """The same for two tables if they are the same to ranks that run."""
        return self.table.placement or self.sha256


LISTS = ("server_list", "super_pod_list", "rank_list")
"""What HCCL reads of a document: servers or ranks, and how they are connected."""


def essence(layout: Format, entries: Sequence[Entry], document: Mapping[str, Any]) -> str:
    """The sha256 of the format, the entries in rank order, and the lists of a ``document``.

    ``document`` is what the ranks read themselves, empty if they get it converted. An entry has its
    ranks, devices, their addresses in their order, and every name and address of its server or pod:
    a pod that was replaced on the same server may have another address. In the lists every key and
    value counts, at any depth, and the order of the elements; the order of keys does not. Of the
    top level nothing else counts, so neither ``version`` nor ``status``, a count of what is listed,
    nor a key that we do not know. Empty for a document that is nested too deep to be written: then
    its bytes must be compared.
    """
    return _digest(layout, entries, _lists(document))


def placement(layout: Format, entries: Sequence[Entry], document: Mapping[str, Any]) -> str:
    """As ``essence``, in whatever order the servers and super pods are listed.

    Ranks that run have the same place in both tables: rank ids are written in them.
    """
    try:
        lists = {key: _in_one_order(listed) for key, listed in _lists(document).items()}
    except orjson.JSONEncodeError:
        return ""
    return _digest(layout, entries, lists)


def _lists(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document[key] for key in LISTS if key in document}


def _in_one_order(listed: Any) -> Any:
    """The same whichever way it is listed; of a super pod, its servers, too."""
    return sorted(map(_super_pod, listed), key=_written) if isinstance(listed, list) else listed


def _super_pod(listed: Any) -> Any:
    if not isinstance(listed, dict) or "server_list" not in listed:
        return listed
    return {**listed, "server_list": _in_one_order(listed["server_list"])}


def _digest(layout: Format, entries: Sequence[Entry], lists: Mapping[str, Any]) -> str:
    told = (layout.value, msgspec.to_builtins(entries), lists)
    try:
        return sha256(_written(told)).hexdigest()
    except orjson.JSONEncodeError:
        return ""


def _written(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def warnings_about(layout: Format, entries: Sequence[Entry]) -> tuple[str, ...]:
    """A sentence for each doubt."""
    servers: dict[str, list[int]] = {}
    for node_rank, entry in enumerate(entries):
        if entry.devices:
            ranks = servers.setdefault(entry.server_id or f"node rank {node_rank}", [])
            ranks += [device.rank for device in entry.devices]
    using = [server.label for server in entries if _uses_nic(server)]
    nics = _about_nics(using) if layout is Format.TEMPLATE_1 and len(servers) > 1 else ()
    return (*nics, *_about_ranks(servers))


def _uses_nic(server: Entry) -> bool:
    return None in [device.device_ip for device in server.devices]  # faster than any()


def _about_nics(using: Sequence[str]) -> Iterator[str]:
    """Said of template 1 only: the chips of 1.2 can do this."""
    if using:
        yield (
            f"{_first(using)} has devices without device_ip, so HCCL uses the NIC of host_ip: "
            "Atlas A3 can do this, Atlas A2 refuses the table"
        )


def _about_ranks(servers: dict[str, list[int]]) -> Iterator[str]:
    torn = [name for name, ranks in servers.items() if max(ranks) - min(ranks) >= len(ranks)]
    if torn:
        ranks = servers[torn[0]]
        yield (
            f"{_first(torn)} has {len(ranks)} ranks between {min(ranks)} and {max(ranks)}, and "
            "other servers have the rest of these: HCCL does not support ranks that interleave, "
            "so number them server by server"
        )


def _first(servers: Sequence[str]) -> str:
    more = f" (and {len(servers) - 1} more)" if len(servers) > 1 else ""
    return f"server {shown(servers[0])}{more}"


def converted(entries: Iterable[Entry]) -> bytes:
    """As template 1: the entries, in rank order, with those of one server merged, for HCCL."""
    servers: dict[str | None, list[dict[str, str]]] = {}
    for entry in entries:
        servers.setdefault(entry.server_id, []).extend(map(listed, entry.devices))
    return template_1(
        [{"server_id": server_id, "device": devices} for server_id, devices in servers.items()]
    )


def template_1(servers: Sequence[Mapping[str, object]]) -> bytes:
    """A whole table; each server has a ``server_id``, and its ``device`` are ``listed`` ones."""
    table = {
        "status": "completed",
        "version": "1.0",
        "server_count": str(len(servers)),
        "server_list": servers,
    }
    return orjson.dumps(table, option=orjson.OPT_APPEND_NEWLINE)


def listed(device: Device) -> dict[str, str]:
    ip = {} if device.device_ip is None else {"device_ip": device.device_ip}
    return {"device_id": str(device.device_id), **ip, "rank_id": str(device.rank)}


def ip_of(text: str) -> IPv4Address | IPv6Address | None:
    """The address that it is; None for a name."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_loopback(text: str) -> bool:
    """False for a name."""
    found = ip_of(text)
    return found is not None and found.is_loopback


def is_ip(text: str) -> bool:
    """Whether it is an address; that of an interface may have a name that cannot be printed."""
    return ip_of(text) is not None and text.isprintable()
