"""Asks the endpoints in turn, with a token if there are users.

The last that answered comes first, one that has failed comes last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
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
    Meaning,
    Refused,
    error_of,
    meaning_of,
    not_understood,
    reason,
    refusal,
)

if TYPE_CHECKING:
    from ascend_supervisor.etcd.exchange import Exchange


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


_AUTHENTICATE = "/v3/auth/authenticate"

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
