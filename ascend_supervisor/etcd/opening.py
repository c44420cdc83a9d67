"""Makes a client of etcd; httpx, which is slow to import, is imported here and not before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ascend_supervisor.etcd.access import Access
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.endpoint_requests import Asking
from ascend_supervisor.etcd.failures import HttpxMissing


@asynccontextmanager
async def etcd_client(access: Access) -> AsyncIterator[Etcd]:
    """A client, whose connections are closed at the end; it connects when it is asked.

    Raises HttpxMissing, or Refused for a CA that cannot be read.
    """
    try:
        from ascend_supervisor.etcd.exchange import connections  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in {"httpx", "httpcore"}:
            raise
        raise HttpxMissing("the Python package httpx is not installed here") from error
    async with connections(access) as exchange:
        yield Etcd(Asking(exchange, access))
