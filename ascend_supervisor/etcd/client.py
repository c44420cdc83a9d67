"""A client of etcd 3.4 or newer, through its JSON gateway.

Each request has a deadline; the endpoints are tried in turn, each for its share of the deadline.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ascend_supervisor.etcd import wire
from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.etcd.endpoint_requests import Asking
from ascend_supervisor.etcd.etcd_errors import Complained, Meaning, Message, meaning_of, reason
from ascend_supervisor.etcd.failures import LeaseNotFound, TooManyOperations
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
_REVOKE = "/v3/lease/revoke"


class Etcd:
    """What can be asked of etcd. All of it raises Unreachable, Refused or MalformedAnswer."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

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
        body = wire.transaction_body(transaction)
        message = Message(_TRANSACT, body, may_repeat=transaction.changes_nothing)
        try:
            return await self._asking.ask(
                message, lambda data: wire.transaction_answer(data, transaction)
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
        message = Message(_GRANT, wire.grant_body(lease, seconds))
        await self._unless(Meaning.LEASE_EXISTS, message)

    async def keep_alive(self, lease: int) -> int | None:
        """The seconds that the lease has left; None if it is gone."""
        message = Message(_KEEP_ALIVE, wire.lease_body(lease))
        return await self._asking.ask(message, wire.seconds_left) or None

    async def revoke(self, lease: int) -> None:
        """End a lease, and delete its keys; one that is gone already is no error."""
        await self._unless(Meaning.NO_LEASE, Message(_REVOKE, wire.lease_body(lease)))

    @asynccontextmanager
    async def watch(self, *ranges: Range, revision: int) -> AsyncIterator[Watch]:
        """Wake-ups for changes of these keys from ``revision`` on, while this is entered."""
        watch = await begun(self._asking, ranges, revision)
        try:
            with self._asking.turns.told(watch.leave):
                yield watch
        finally:
            await watch.close()

    async def _unless(self, harmless: Meaning, message: Message) -> None:
        try:
            await self._asking.ask(message, wire.check_header)
        except Complained as error:
            if meaning_of(error.complaint) is not harmless:
                raise
