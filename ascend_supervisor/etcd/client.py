"""A client of etcd 3.4 or newer, through its JSON gateway.

Each request has a deadline; the endpoints are tried in turn, each for its share of the deadline.
The last that answered comes first, one that has failed comes last. httpx, which is slow to import,
is imported when a client is made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

import anyio

from ascend_supervisor.etcd import wire
from ascend_supervisor.etcd.access import Access, Endpoint, Login
from ascend_supervisor.etcd.failures import (
    FULL,
    Complained,
    EndpointFailure,
    Failed,
    FailureKind,
    HttpxMissing,
    LeaseNotFound,
    Meaning,
    Refused,
    TooManyOperations,
    error_of,
    meaning_of,
    not_understood,
    reason,
    refusal,
)
from ascend_supervisor.etcd.values import (
    MOST_OPERATIONS,
    Get,
    Range,
    Transaction,
    TransactionAnswer,
)
from ascend_supervisor.etcd.watch import Watch, confirmed

if TYPE_CHECKING:
    from ascend_supervisor.etcd.exchange import Exchange

_TRANSACT = "/v3/kv/txn"
_GRANT = "/v3/lease/grant"
_KEEP_ALIVE = "/v3/lease/keepalive"
_WATCH = "/v3/watch"
_AUTHENTICATE = "/v3/auth/authenticate"
MIDDLE_OF_SECOND = 0.5
"""A date in HTTP has no fractions."""


class Turns:
    """The endpoints in the order in which they are tried."""

    def __init__(self, endpoints: tuple[Endpoint, ...]) -> None:
        self._order = list(endpoints)
        self._leaving: list[Callable[[Endpoint], None]] = []

    @property
    def order(self) -> tuple[Endpoint, ...]:
        return tuple(self._order)

    def become(self, endpoints: tuple[Endpoint, ...]) -> None:
        """From now on these are asked; who depends on another one is called."""
        gone = [endpoint for endpoint in self._order if endpoint not in endpoints]
        self._order = list(endpoints)
        for endpoint in gone:
            for leave in self._leaving:
                leave(endpoint)

    def failed(self, endpoint: Endpoint) -> None:
        """It has not answered; whoever depends on it is called, if there is another to go to."""
        if len(self._order) > 1:
            self._order.remove(endpoint)
            self._order.append(endpoint)
            for leave in self._leaving:
                leave(endpoint)

    @contextmanager
    def told(self, leave: Callable[[Endpoint], None]) -> Iterator[None]:
        """Call ``leave`` for each endpoint that fails meanwhile."""
        self._leaving.append(leave)
        try:
            yield
        finally:
            self._leaving.remove(leave)


T = TypeVar("T")
Try = Callable[[Endpoint, str, float], Awaitable[T]]
"""One try at an endpoint, with a token, within so many seconds; raises Failed or Complained."""


class Asking:
    """``turns`` says which endpoint is next."""

    def __init__(self, exchange: Exchange, access: Access) -> None:
        self.exchange = exchange
        self.turns = Turns(access.endpoints)
        self._login = access.login
        self._ca = access.ca
        self._again = access.again
        self._deadline = access.deadline
        self._token = ""
        self._renewing = anyio.Lock()

    @property
    def _share(self) -> float:
        """The seconds that each endpoint gets of a request's deadline."""
        return self._deadline / max(1, len(self.turns.order))

    async def ask(self, message: wire.Message, read: Callable[[bytes], T | wire.Complaint]) -> T:
        """What ``read`` makes of the answer. Raises an EtcdError, or Complained.

        ``read`` raises wire.Garbled for what is not etcd's.
        """

        async def once(endpoint: Endpoint, token: str, seconds: float) -> T:
            data = await self.exchange.ask(endpoint, message, token, seconds)
            try:
                answer = read(data)
            except wire.Garbled as error:
                raise not_understood(error) from error
            if isinstance(answer, wire.Complaint):
                raise Complained(answer)
            return answer

        return await self.in_turn(once, may_repeat=message.may_repeat)

    async def in_turn(self, attempt: Try[T], *, may_repeat: bool) -> T:
        """The result of the first try that succeeds, each within its share of the deadline.

        Without ``may_repeat`` there is no other try after one that may have had an effect.
        """
        failures: list[EndpointFailure] = []
        may_have_happened = False
        for endpoint in self.turns.order:
            try:
                return await self._with_token(endpoint, attempt)
            except Failed as failed:
                self.turns.failed(endpoint)
                if failed.kind is FailureKind.REFUSED:
                    await self._read_again()
                failures.append(EndpointFailure(endpoint.told, failed.kind, failed.clause))
                may_have_happened = failed.was_sent and not may_repeat
            except BaseException as error:
                if isinstance(error, anyio.get_cancelled_exc_class()):
                    self.turns.failed(endpoint)  # the caller would not wait so long
                raise
            if may_have_happened:
                break
        raise error_of(failures, may_have_happened=may_have_happened)

    async def _with_token(self, endpoint: Endpoint, attempt: Try[T]) -> T:
        """One try, and another one with a new token if etcd does not accept the old one."""
        deadline = anyio.current_time() + self._share
        if self._login and not self._token:
            await self._renew(endpoint, "", self._share)
        token = self._token
        try:
            return await attempt(endpoint, token, _until(deadline))
        except Complained as error:
            if meaning_of(error.complaint) is not Meaning.TOKEN or self._login is None:
                raise self._judged(error) from error
        await self._renew(endpoint, token, _until(deadline))
        try:
            return await attempt(endpoint, self._token, _until(deadline))
        except Complained as error:
            raise self._judged(error) from error

    async def _renew(self, endpoint: Endpoint, old: str, seconds: float) -> None:
        """Get a token in place of ``old``, unless another request has done so meanwhile."""
        try:
            with anyio.fail_after(seconds):
                await self._renew_alone(endpoint, old, seconds)
        except TimeoutError as error:
            raise Failed(
                FailureKind.SILENT, f"no token within {seconds:.3g} s", was_sent=False
            ) from error

    async def _renew_alone(self, endpoint: Endpoint, old: str, seconds: float) -> None:
        login = self._login
        async with self._renewing:
            if login is None or self._token != old:
                return
            try:
                await self._authenticate(endpoint, login, seconds)
            except Complained as error:
                if meaning_of(error.complaint) is Meaning.NO_USERS:
                    return
                await self._read_again()
                if self._login == login or self._login is None:
                    raise self._judged(error) from error
                await self._authenticate_again(endpoint, self._login, seconds)

    async def _authenticate_again(self, endpoint: Endpoint, login: Login, seconds: float) -> None:
        try:
            await self._authenticate(endpoint, login, seconds)
        except Complained as error:
            raise self._judged(error) from error

    async def _authenticate(self, endpoint: Endpoint, login: Login, seconds: float) -> None:
        """Get a token; raises Failed, or Complained."""
        message = wire.Message(_AUTHENTICATE, wire.login_body(login.user, login.password.text))
        try:
            data = await self.exchange.ask(endpoint, message, "", seconds)
            self._token = wire.token_answer(data)
        except wire.Garbled as error:
            raise not_understood(error) from error
        except Failed as failed:
            raise Failed(failed.kind, failed.clause, was_sent=False) from failed

    async def _read_again(self) -> None:
        """The password and the CA, as they are by now; what cannot be read stays as it was."""
        if self._again is None:
            return
        kept = await self._again()
        if kept.login is not None:
            self._login = kept.login
        if kept.ca is not None and kept.ca != self._ca:
            self._ca = kept.ca
            self.exchange.trust(kept.ca)

    def _judged(self, error: Complained) -> Exception:
        """The same error if the caller is to decide about it."""
        match meaning_of(error.complaint):
            case Meaning.ELSEWHERE:
                return Failed(FailureKind.SILENT, reason(error.complaint))
            case Meaning.FULL:
                return Failed(FailureKind.FULL, FULL)
            case Meaning.REFUSED | Meaning.TOKEN:
                user = self._login.user if self._login else None
                return Refused(refusal(error.complaint, user))
            case _:
                return error


def _until(deadline: float) -> float:
    return max(0.0, deadline - anyio.current_time())


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

    @property
    def clock_ahead(self) -> float | None:
        """By how many seconds the clock of what answered last is ahead of ours, give or take one.

        None if it has told no time.
        """
        date = self._asking.exchange.date
        with suppress(ValueError, OverflowError):  # a proxy may say anything
            if date is not None:
                return parsedate_to_datetime(date[0]).timestamp() + MIDDLE_OF_SECOND - date[1]
        return None

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
        watch = await self._watch(ranges, revision)
        try:
            with self._asking.turns.told(watch.leave):
                yield watch
        finally:
            await watch.close()

    async def _watch(self, ranges: tuple[Range, ...], revision: int) -> Watch:
        """One that etcd has confirmed; to be closed."""
        message = wire.Message(_WATCH, wire.watch_body(ranges, revision, self._prefix))

        async def once(endpoint: Endpoint, token: str, seconds: float) -> Watch:
            deadline = anyio.current_time() + seconds
            stream = await self._asking.exchange.open(endpoint, message, token, seconds)
            return await confirmed(stream, endpoint, len(ranges), deadline, self._prefix)

        return await self._asking.in_turn(once, may_repeat=True)


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
