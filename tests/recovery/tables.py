"""Rank tables of a job whose pods come and go, in the formats of the platforms."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Member:
    """A pod of the job: the end of its name, its host (10.0.0.HOST), and its NPUs."""

    index: int
    host: int
    cards: int = 1

    @property
    def name(self) -> str:
        return f"pod-{self.index}"

    @property
    def address(self) -> str:
        return f"10.0.0.{self.host}"

    def address_of(self, card: int) -> str:
        return f"192.168.{self.host}.{card}"


Members = Sequence[Member]
Form = Callable[[Members], bytes]
"""Makes a completed table; the ranks are numbered in the order of the members."""


def members(count: int, cards: int = 1) -> list[Member]:
    """The first so many pods, each on a host of its own."""
    return [Member(index, index + 1, cards) for index in range(count)]


def moved(all_members: Members, index: int, host: int) -> list[Member]:
    """The same job after this pod was replaced by one on another host."""
    return [
        replace(member, host=host) if member.index == index else member for member in all_members
    ]


def template_2(pods: Members) -> bytes:
    """As ModelArts and Volcano's controller: not in the order of the pods."""
    instances = [
        {
            "pod_name": pod.name,
            "server_id": pod.address,
            "devices": [
                {"device_id": str(card), "device_ip": pod.address_of(card)}
                for card in range(pod.cards)
            ],
        }
        for pod in reversed(pods)
    ]
    group = {
        "group_name": "job-recovery",
        "device_count": str(sum(pod.cards for pod in pods)),
        "instance_count": str(len(pods)),
        "instance_list": instances,
    }
    return _document(status="completed", group_count="1", group_list=[group])


def template_1(pods: Members) -> bytes:
    """As Ascend Operator on Atlas A2."""
    return _document(
        status="completed",
        version="1.0",
        server_count=str(len(pods)),
        server_list=_servers(pods),
    )


def super_pod(pods: Members) -> bytes:
    """As Ascend Operator on Atlas A3 (1.2)."""
    servers = _servers(pods)
    for server in servers:
        for device in server["device"]:
            device["super_device_id"] = f"{1 + int(device['rank_id'])}"
    names = [{"server_id": server["server_id"]} for server in servers]
    return _document(
        status="completed",
        version="1.2",
        server_count=str(len(pods)),
        server_list=servers,
        super_pod_list=[{"super_pod_id": "0", "server_list": names}],
    )


def withdrawn(form: Form = template_2) -> bytes:
    """What stands in the file while pods are being replaced."""
    if form is template_2:
        return _document(status="initializing")
    version = "1.0" if form is template_1 else "1.2"
    return _document(status="initializing", version=version, server_count="0", server_list=[])


def _servers(pods: Members) -> list[dict[str, Any]]:
    servers: list[dict[str, Any]] = []
    rank = 0
    for pod in pods:
        devices = []
        for card in range(pod.cards):
            devices.append(
                {"device_id": f"{card}", "device_ip": pod.address_of(card), "rank_id": f"{rank}"}
            )
            rank += 1
        servers.append({"server_id": pod.address, "host_ip": pod.address, "device": devices})
    return servers


def _document(**keys: Any) -> bytes:
    return json.dumps(keys, indent=1).encode()
