"""Reads and checks each format of a rank table, down to plain rows; pure.

What HCCL would refuse after half an hour of silence is a Misfit here, with path and value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from ascend_supervisor.cluster.rank_checker import RankChecker, Row, check_contiguous, if_text
from ascend_supervisor.files.untrusted_json import Cursor, Misfit, Once

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    _check_count(top, "group_count", len(groups))
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
        _check_count(group, "device_count", census.world_size - before)
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
    """The group's pods by the integer that ends their names: -9 stands before -10."""
    instances = group.elements("instance_list")
    _check_count(group, "instance_count", len(instances))
    indices: Once[int] = Once("pod index")
    for instance in instances:
        _, dash, index = instance.name("pod_name").rpartition("-")
        if not dash or not _POD_INDEX.fullmatch(index):
            raise instance.child("pod_name").misfit("a name that ends in '-' and an integer")
        indices.take(int(index), instance)
    return [indices.places[index] for index in sorted(indices.places)]


def _pod(pod: Cursor, pod_name: str, census: RankChecker) -> Listed:
    server_id = _server_id(pod)
    devices = enumerate(pod.elements("devices"), census.world_size)
    rows = [census.row(at, server_id, rank) for rank, at in devices]
    return Listed(tuple(rows), server_id, pod_name)


def lab(top: Cursor) -> Iterator[Listed]:
    """The group_list of old tutorials: an instance is one device and states its own rank."""
    groups = top.elements("group_list")
    _check_count(top, "group_count", len(groups), required=False)
    census = RankChecker()
    servers: dict[str, list[Row]] = {}
    for group in groups:
        instances = group.elements("instance_list")
        for key in ("instance_count", "device_count", "device_num"):
            _check_count(group, key, len(instances), required=False)
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


def servers(top: Cursor, *, check_ip: bool = True) -> Iterator[Listed]:
    """Template 1; also 1.2, where a device_ip may be the text of an error."""
    listed = top.elements("server_list")
    _check_count(top, "server_count", len(listed))
    census = RankChecker(check_ip=check_ip)
    names: Once[str] = Once("server_id")
    for server in listed:
        names.take(server_id := _server_id(server), server)
        devices = server.elements("device")
        yield Listed(
            tuple([census.row(at, server_id, at.integer("rank_id", least=0)) for at in devices]),
            server_id,
            host_ip=server.optional_name("host_ip"),
            container_ip=server.optional_name("container_ip"),
            pod_ip=if_text(server, "pod_ip"),
            server_ip=if_text(server, "server_ip"),
        )
    census.close()


def super_pod(top: Cursor) -> Iterator[Listed]:
    """1.2: template 1, and a list of super pods which may hold nulls and is not read."""
    if top.get("super_pod_list") is not None:
        top.elements("super_pod_list")
    return servers(top, check_ip=False)


def a5(top: Cursor) -> Iterator[Listed]:
    """2.0 names no servers: a new one begins where local_id does not rise from rank to rank."""
    listed = top.elements("rank_list")
    _check_count(top, "rank_count", len(listed))
    ranks: Once[int] = Once("rank_id")
    for at in listed:
        ranks.take(at.integer("rank_id", least=0), at)
    check_contiguous(ranks)
    rows: list[Row] = []
    last_local_id = -1
    for rank, at in sorted(ranks.places.items(), key=_rank):
        local_id = at.integer("local_id", least=0)
        if local_id <= last_local_id:
            yield Listed(tuple(rows))
            rows = []
        rows.append((rank, at.integer("device_id", least=0), None))
        last_local_id = local_id
    if rows:
        yield Listed(tuple(rows))


def _rank(item: tuple[int, Cursor]) -> int:
    return item[0]


def _check_count(at: Cursor, key: str, found: int, *, required: bool = True) -> None:
    """What the table states must be what it lists."""
    if not required and at.get(key) is None:
        return
    stated = at.integer(key, least=0)
    if stated != found:
        raise Misfit(f"{at.path}.{key}: states {stated}, but {found} found")


def _server_id(at: Cursor) -> str:
    server_id = at.name("server_id")
    if not 1 <= len(server_id) <= _MOST_SERVER_ID:
        raise at.child("server_id").misfit(f"1 to {_MOST_SERVER_ID} characters")
    return server_id
