"""Reads and checks each format of a rank table, down to plain rows; pure.

What HCCL would refuse after half an hour of silence is a Misfit here, with path and value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from ascend_supervisor.cluster.rank_table import ip_of
from ascend_supervisor.files.untrusted_json import Cursor, Misfit, Once
from ascend_supervisor.settings.readers import MOST_DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


Row: TypeAlias = "tuple[int, int, str | None]"  # rank, device_id, device_ip

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")  # ten times as fast as ipaddress


class RankChecker(Struct, frozen=True):
    """Every device counted so far, so that none is counted twice and no rank is forgotten.

    In a ``super_pod`` (1.2) the text of an error may stand in place of an address.
    """

    super_pod: bool = False
    ranks: Once[int] = field(default_factory=lambda: Once("rank_id"))
    servers: dict[str, Once[int]] = field(default_factory=dict)  # device_ids
    addresses: dict[str, Cursor] = field(default_factory=dict)
    without_ip: list[Cursor] = field(default_factory=list)

    @property
    def world_size(self) -> int:
        return len(self.ranks.places)

    def row(self, device: Cursor, server_id: str, rank: int, host_ip: str | None = None) -> Row:
        """Count a device; with a ``host_ip`` it needs no address of its own. Raises Misfit."""
        device_id = device.integer("device_id", 0, MOST_DEVICES - 1)
        ids = self.servers.get(server_id)
        if ids is None:
            ids = self.servers[server_id] = Once(f"on server {server_id!r}, device_id")
        ids.take(device_id, device)
        self.ranks.take(rank, device)
        if self.super_pod and device.optional_text("super_device_id") == "":
            raise device.child("super_device_id").misfit("the number of a device in its super pod")
        return rank, device_id, self._device_ip(device, server_id, host_ip)

    def _device_ip(self, device: Cursor, server_id: str, host_ip: str | None) -> str | None:
        read = if_text if self.super_pod else Cursor.optional_text
        text = read(device, "device_ip")
        if not text:
            if not host_ip:
                self.without_ip.append(device)
        elif _IPV4.fullmatch(text):
            self._take_address(text, device, server_id)
        else:
            self._take_addresses(text, device, server_id)
        return text or None

    def _take_addresses(self, text: str, device: Cursor, server_id: str) -> None:
        for address in text.split(","):
            if _IPV4.fullmatch(address) or ip_of(address):
                self._take_address(address, device, server_id)
            elif not self.super_pod:
                raise device.child("device_ip").misfit("an IPv4 or IPv6 address")

    def _take_address(self, address: str, device: Cursor, server_id: str) -> None:
        """Only another server may not have the address of this one."""
        first = self.addresses.setdefault(address, device)
        if first is device:
            return
        if not any(first is here for here in self.servers[server_id].places.values()):
            raise Misfit(
                f"{device.path}: device_ip {address} is taken already by {first.path}, on another "
                "server"
            )

    def close(self) -> None:
        """All devices are counted; raises Misfit when a rank or a needed address is missing."""
        check_contiguous(self.ranks)
        if len(self.servers) > 1 and self.without_ip and not self.super_pod:
            raise self.without_ip[0].missing("device_ip")


def check_contiguous(ranks: Once[int]) -> None:
    world_size = len(ranks.places)
    missing = next((rank for rank in range(world_size) if rank not in ranks.places), None)
    if missing is not None:
        highest = max(ranks.places)
        raise Misfit(
            f"$: rank_id {missing} is missing, expected 0 to {world_size - 1} for {world_size} "
            f"devices, found {highest} at {ranks.places[highest].path}"
        )


def if_text(at: Cursor, key: str) -> str | None:
    value: Any = at.get(key)
    return value if isinstance(value, str) else None


_MOST_SERVER_ID = 64  # characters
_POD_INDEX = re.compile(r"[0-9]{1,18}")


class Listed(Struct, frozen=True):
    """A pod or a server as its table lists it, its devices in local order."""

    rows: tuple[Row, ...]
    server_id: str | None = None
    pod_name: str | None = None
    host_ip: str | None = None
    container_ip: str | None = None
    pod_ip: str | None = None
    server_ip: str | None = None


def first_instance(top: Cursor) -> Cursor | None:
    """The first instance in a group_list that ought to have devices."""
    groups = (group for group in top.elements("group_list") if not _is_idle(group))
    return next(
        (instance for group in groups for instance in group.elements("instance_list")), None
    )


def pods(top: Cursor) -> Iterator[Listed]:
    """Template 2: ranks are one running counter over each group's pods, sorted by pod index."""
    groups = top.elements("group_list")
    check_count(top, "group_count", len(groups))
    census = RankChecker()
    names: Once[str] = Once("pod_name")
    for group in groups:
        if _is_idle(group):
            yield from _idle_pods(group)
            continue
        before = census.world_size
        for pod in _sorted_pods(group):
            names.take(pod_name := pod.name("pod_name"), pod)
            yield _pod(pod, pod_name, census)
        check_count(group, "device_count", census.world_size - before)
    census.close()


def _is_idle(group: Cursor) -> bool:
    """Whether the group has no devices, as parameter servers have none."""
    return group.get("device_count") is not None and group.integer("device_count", least=0) == 0


def _idle_pods(group: Cursor) -> Iterator[Listed]:
    """Pods without a rank; nothing in them is checked."""
    listed = group.get("instance_list")
    for value in listed if isinstance(listed, list) else ():
        if isinstance(value, dict):
            pod = Cursor(value)
            yield Listed((), if_text(pod, "server_id"), if_text(pod, "pod_name"))


def _sorted_pods(group: Cursor) -> list[Cursor]:
    """The group's pods by the integer that ends their names: -9 stands before -10.

    Without any such integer the listed order counts.
    """
    instances = group.elements("instance_list")
    check_count(group, "instance_count", len(instances))
    numbers = [_pod_index(instance) for instance in instances]
    if all(number is None for number in numbers):
        return instances
    indices: Once[int] = Once("pod index")
    for number, instance in zip(numbers, instances, strict=True):
        if number is None:
            raise instance.child("pod_name").misfit(
                "a name that ends in '-' and an integer, like others of its group"
            )
        indices.take(number, instance)
    return [indices.places[index] for index in sorted(indices.places)]


def _pod_index(instance: Cursor) -> int | None:
    _, dash, index = instance.name("pod_name").rpartition("-")
    return int(index) if dash and _POD_INDEX.fullmatch(index) else None


def _pod(pod: Cursor, pod_name: str, census: RankChecker) -> Listed:
    server_id = _server_id(pod)
    devices = enumerate(pod.elements("devices"), census.world_size)
    rows = [census.row(at, server_id, rank) for rank, at in devices]
    return Listed(tuple(rows), server_id, pod_name)


def lab(top: Cursor) -> Iterator[Listed]:
    """The group_list of old tutorials: an instance is one device and states its own rank."""
    groups = top.elements("group_list")
    check_count(top, "group_count", len(groups), required=False)
    census = RankChecker()
    servers: dict[str, list[Row]] = {}
    for group in groups:
        instances = group.elements("instance_list")
        for key in ("instance_count", "device_count", "device_num"):
            check_count(group, key, len(instances), required=False)
        for instance in instances:
            server_id = _server_id(instance)
            rank = instance.integer("rank_id", least=0)
            row = census.row(_only_device(instance), server_id, rank)
            servers.setdefault(server_id, []).append(row)
    census.close()
    for server_id, rows in servers.items():
        yield Listed(tuple(sorted(rows)), server_id)  # no two rows have the same rank


def _only_device(instance: Cursor) -> Cursor:
    devices = instance.elements("devices")
    if len(devices) != 1:
        raise Misfit(f"{instance.path}.devices: expected exactly one device, found {len(devices)}")
    return devices[0]


def servers(top: Cursor, *, super_pod: bool = False) -> Iterator[Listed]:
    """Template 1; also 1.2, whose devices are those of a ``super_pod``."""
    listed = top.elements("server_list")
    check_count(top, "server_count", len(listed), required=False)
    census = RankChecker(super_pod)
    names: Once[str] = Once("server_id")
    for server in listed:
        names.take(server_id := _server_id(server), server)
        host_ip = server.optional_name("host_ip")
        rows = [
            census.row(at, server_id, at.integer("rank_id", least=0), host_ip)
            for at in server.elements("device")
        ]
        yield listed_server(server, tuple(rows), server_id)
    census.close()


def listed_server(server: Cursor, rows: tuple[Row, ...], server_id: str | None) -> Listed:
    """The server and its addresses; raises Misfit for a name that cannot be printed."""
    return Listed(
        rows,
        server_id,
        host_ip=server.optional_name("host_ip"),
        container_ip=server.optional_name("container_ip"),
        pod_ip=if_text(server, "pod_ip"),
        server_ip=if_text(server, "server_ip"),
    )


def super_pods(top: Cursor) -> Iterator[Listed]:
    """1.2: template 1, and a list of super pods which may hold nulls and is not read."""
    if top.get("super_pod_list") is not None:
        top.elements("super_pod_list")
    return servers(top, super_pod=True)


def check_count(at: Cursor, key: str, found: int, *, required: bool = True) -> None:
    """What the table states must be what it lists."""
    if not required and at.get(key) is None:
        return
    stated = at.integer(key, least=0)
    if stated != found:
        raise Misfit(f"{at.path}.{key}: states {stated}, but the table lists {found}")


def _server_id(at: Cursor) -> str:
    server_id = at.name("server_id")
    if not 1 <= len(server_id) <= _MOST_SERVER_ID:
        raise at.child("server_id").misfit(f"1 to {_MOST_SERVER_ID} characters")
    return server_id


VERSION = "2.0"


def is_2_0(top: Cursor) -> bool:
    """Whether ``rank_list`` decides; a ``server_list`` beside it counts unless it says 2.0."""
    if top.get("rank_list") is None:
        return False
    return top.get("server_list") is None or top.get("version") == VERSION


def is_whole(top: Cursor) -> bool:
    """Whether the table lists as many ranks as it states; it is completed even without status."""
    listed = top.get("rank_list")
    if not is_2_0(top) or not isinstance(listed, list) or not listed:
        return False
    try:
        check_count(top, "rank_count", len(listed))
    except Misfit:
        return False
    return True


def a5(top: Cursor) -> Iterator[Listed]:
    listed = top.elements("rank_list")
    check_count(top, "rank_count", len(listed))
    ranks: Once[int] = Once("rank_id")
    for at in listed:
        ranks.take(at.integer("rank_id", least=0), at)
    check_contiguous(ranks)
    in_order = [ranks.places[rank] for rank in range(len(ranks.places))]
    local_ids = [at.integer("local_id", least=0) for at in in_order]
    rows: list[Row] = [
        (rank, at.integer("device_id", least=0), None) for rank, at in enumerate(in_order)
    ]
    yield from _by_server(top, rows) or _by_local_id(rows, local_ids)


def _by_local_id(rows: Sequence[Row], local_ids: Sequence[int]) -> Iterator[Listed]:
    """A new server begins where local_id does not rise from rank to rank."""
    begin = 0
    for rank in range(1, len(rows) + 1):
        if rank == len(rows) or local_ids[rank] <= local_ids[rank - 1]:
            yield Listed(tuple(rows[begin:rank]))
            begin = rank


def _by_server(top: Cursor, rows: Sequence[Row]) -> list[Listed]:
    """The servers if ``server_list`` tells where each rank is, else none; HCCL does not read it."""
    if top.get("server_list") is None:
        return []
    left = set(range(len(rows)))
    found = []
    try:
        for server in top.elements("server_list"):
            ranks = sorted(at.integer("rank_id", least=0) for at in server.elements("device"))
            if len(set(ranks)) < len(ranks) or not left.issuperset(ranks):
                return []
            left.difference_update(ranks)
            own = tuple(rows[rank] for rank in ranks)
            found.append(listed_server(server, own, server.optional_name("server_id")))
    except Misfit:
        return []
    return [] if left else found
