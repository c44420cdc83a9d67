"""A client of etcd 3.4 or newer, through its JSON gateway.

Each request has a deadline; the endpoints are tried in turn, each for its share of the deadline.
httpx, which is slow to import, is imported when a client is made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ascend_supervisor.etcd import wire
from ascend_supervisor.etcd.access import Access, Endpoint
from ascend_supervisor.etcd.endpoint_requests import Asking
from ascend_supervisor.etcd.failures import (
    Complained,
    HttpxMissing,
    LeaseNotFound,
    Meaning,
    TooManyOperations,
    meaning_of,
    reason,
)
from ascend_supervisor.etcd.values import (
    MOST_OPERATIONS,
    Get,
    Range,
    Transaction,
    TransactionAnswer,
)
from ascend_supervisor.etcd.watch import Watch, begun

_TRANSACT = "/v3/kv/txn"
_GRANT = "/v3/lease/grant"
_KEEP_ALIVE = "/v3/lease/keepalive"


class Etcd:
    """What can be asked of etcd. All of it raises Unreachable, Refused or MalformedAnswer."""

    def __init__(self, asking: Asking, prefix: str = "") -> None:
        self._asking = asking
        self._prefix = prefix

    def below(self, prefix: str) -> Etcd:
        """The same client for the keys that begin with ``prefix``, which are named without it."""
        return Etcd(self._asking, self._prefix + prefix)

    def move(self, endpoint: Endpoint) -> None:
        """From now on etcd is there, and nowhere else."""
        if self._asking.turns.order != (endpoint,):
            self._asking.turns.become((endpoint,))

    async def transact(self, transaction: Transaction) -> TransactionAnswer:
        """Raises also LeaseNotFound for a put with an unknown lease, and TooManyOperations.

        A transaction that may have been done is not sent again: Unreachable then says so, and only
        reading can tell.
        """
        if transaction.size > MOST_OPERATIONS:
            raise TooManyOperations(
                f"expected a transaction of at most {MOST_OPERATIONS} compares, and as many "
                f"operations in each branch, found {transaction.size}"
            )
        body = wire.transaction_body(transaction, self._prefix)
        message = wire.Message(_TRANSACT, body, may_repeat=transaction.changes_nothing)
        try:
            return await self._asking.ask(
                message, lambda data: wire.transaction_answer(data, transaction, self._prefix)
            )
        except Complained as error:
            if meaning_of(error.complaint) is not Meaning.NO_LEASE:
                raise
            raise LeaseNotFound(
                f"nothing was written to etcd: {reason(error.complaint)}"
            ) from error

    async def read(self, *gets: Get) -> TransactionAnswer:
        """What each of ``gets`` finds, all at one revision."""
        return await self.transact(Transaction(then=gets))

    async def grant(self, lease: int, seconds: int) -> None:
        """Make a lease with this id, from 1 to 2**63 - 1; one that exists already stays as it is.

        It ends ``seconds`` after its last keep-alive; etcd makes it two or more.
        """
        message = wire.Message(_GRANT, wire.grant_body(lease, seconds))
        try:
            await self._asking.ask(message, wire.check_header)
        except Complained as error:
            if meaning_of(error.complaint) is not Meaning.LEASE_EXISTS:
                raise

    async def keep_alive(self, lease: int) -> int | None:
        """The seconds that the lease has left; None if it is gone."""
        message = wire.Message(_KEEP_ALIVE, wire.lease_body(lease))
        return await self._asking.ask(message, wire.seconds_left) or None

    @asynccontextmanager
    async def watch(self, *ranges: Range, revision: int) -> AsyncIterator[Watch]:
        """Wake-ups for changes of these keys from ``revision`` on, while this is entered."""
        watch = await begun(self._asking, ranges, revision, self._prefix)
        try:
            with self._asking.turns.told(watch.leave):
                yield watch
        finally:
            await watch.close()


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
