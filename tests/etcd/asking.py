"""Clients of test servers, and what tests ask them."""

from __future__ import annotations

from typing import Any

from ascend_supervisor.etcd.access import Access, Endpoint, Login, Password, read_endpoints
from ascend_supervisor.etcd.client import Etcd, etcd_client
from ascend_supervisor.etcd.values import Get, Key, KeyValue, Put, Transaction
from tests.etcd.servers import EtcdServer

SHORT = 1.0
"""A deadline in seconds, for endpoints that never answer."""


def at(*places: EtcdServer | str, deadline: float = 20.0, **options: Any) -> Any:
    """A client of these servers or URLs, to be entered."""
    return etcd_client(Access(endpoints(*places), deadline=deadline, **options))


def endpoints(*places: EtcdServer | str) -> tuple[Endpoint, ...]:
    urls = [place if isinstance(place, str) else place.url for place in places]
    return read_endpoints(",".join(urls))


def login(user: str, password: str) -> Login:
    return Login(user, Password(password))


async def put(client: Etcd, key: str, value: bytes, lease: int = 0) -> int:
    """The revision after it."""
    return (await client.transact(Transaction(then=(Put(key, value, lease),)))).revision


async def value_of(client: Etcd, key: str) -> bytes | None:
    record = await found_at(client, key)
    return None if record is None else record.value


async def record_of(client: Etcd, key: str) -> KeyValue:
    record = await found_at(client, key)
    assert record is not None
    return record


async def found_at(client: Etcd, key: str) -> KeyValue | None:
    return (await client.read(Get(Key(key)))).got[0].one
