"""The devices of a rank table while it is read: what each format has in common; pure."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, TypeAlias

from msgspec import Struct, field

from ascend_supervisor.files.untrusted_json import Cursor, Misfit, Once
from ascend_supervisor.settings.values import MOST_DEVICES

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
            if _IPV4.fullmatch(address) or _is_ipv6(address):
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


def _is_ipv6(address: str) -> bool:
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return True
