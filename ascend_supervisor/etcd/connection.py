"""Connections to etcd: TLS, and the addresses of names: looked up apart from requests, and kept.

A look-up may take longer than a request has: one name server that is dead costs 5 s. It goes on
when the request has failed, for the next one. Where a later one fails, what was known counts.
"""

from __future__ import annotations

import socket
import ssl
import time
from datetime import datetime, timezone
from functools import partial
from ipaddress import ip_address

import anyio
import httpcore
from msgspec import Struct

from ascend_supervisor.etcd.access import Access
from ascend_supervisor.etcd.failures import Refused
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call

FRESH_SECONDS = 0.5
"""So long a connection waits for a new answer where an earlier one is known."""

SocketOption = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)


class NoAddress(OSError):
    """There is no answer yet; the text is a clause."""


class _LookUp(Struct, frozen=True):
    began: float
    call: Call[tuple[str, ...]]


class Names:
    """To be used in one event loop."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}
        self._going_on: dict[str, _LookUp] = {}

    async def addresses(self, host: str, seconds: float) -> tuple[str, ...]:
        """At least one, within so many seconds; raises NoAddress, or what the look-up raises."""
        if _is_address(host):
            return (host,)
        known = self._known.get(host)
        one = self._going_on.get(host)
        if one is None:
            one = _LookUp(time.monotonic(), Call(partial(_looked_up, host)))
            self._going_on[host] = one
        with anyio.move_on_after(seconds if known is None else min(seconds / 4, FRESH_SECONDS)):
            await one.call.over()
        if not one.call.is_done:
            return known or _without(time.monotonic() - one.began)
        self._going_on.pop(host, None)
        try:
            self._known[host] = one.call.answer
        except (OSError, NoThread) as error:
            if known is None:
                raise (NoAddress(str(error)) if isinstance(error, NoThread) else error) from error
        return self._known[host]


class Dialling(httpcore.AsyncNetworkBackend):
    """Connects to the addresses of a name, one after the other; each has its share of the time."""

    def __init__(self) -> None:
        self._names = Names()
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (of the class that it stands for)
        local_address: str | None = None,
        socket_options: list[SocketOption] | None = None,  # type: ignore[override]
    ) -> httpcore.AsyncNetworkStream:
        end = time.monotonic() + (timeout or 0.0)
        found = await self._names.addresses(host, timeout or 0.0)
        for left in range(len(found), 0, -1):
            share = max(0.0, end - time.monotonic()) / left
            try:
                return await self._backend.connect_tcp(
                    found[-left], port, share, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if left == 1:
                    raise
        raise AssertionError

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def _looked_up(host: str) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise NoAddress(f"it is no name of a host ({error})") from error
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def _without(seconds: float) -> tuple[str, ...]:
    raise NoAddress(
        f"the look-up of its name has had no answer for {seconds:.3g} s and goes on; see the name "
        "servers in /etc/resolv.conf"
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})

_BEGIN = "-----BEGIN CERTIFICATE-----"
WITHOUT_CLIENT_CERTIFICATE = (
    "with which etcd serves no JSON, so let it listen without --client-cert-auth, and use a user "
    "and a password"
)


def context_of(access: Access) -> ssl.SSLContext:
    """Trusts the CA of ``access`` alone, or those of the system; raises Refused for a bad CA."""
    if not any(endpoint.is_tls for endpoint in access.endpoints):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # is not used; trusts nobody
    try:
        if access.ca is None:
            return ssl.create_default_context()
        context = ssl.create_default_context(cadata=access.ca or "nothing")  # not the system's
    except (ssl.SSLError, ValueError) as error:
        found = "one that is damaged" if _BEGIN in (access.ca or "") else "none"
        raise Refused(
            "the CA for etcd holds no certificate that can be read: expected PEM, which begins "
            f"with {_BEGIN}, found {found}"
        ) from error
    # Since Python 3.13 a certificate needs extensions that many a CA made by hand does not write,
    # such as the identifier of its signer's key; etcdctl asks for none of them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def refusal_of(error: ssl.SSLError) -> str:
    """Why there is no TLS with an endpoint, and what to do, as a clause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _unverified(error)
    reason = error.reason or ""
    if reason in _NOT_TLS:
        return "it does not speak TLS, so write http:// or another port"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "HANDSHAKE" in reason):
        return f"it asks for a client certificate, {WITHOUT_CLIENT_CERTIFICATE}"
    what = reason.lower().replace("_", " ") or "without a reason"
    return f"TLS failed ({what}); see whether this is a client address of etcd, and its log"


def _unverified(error: ssl.SSLCertVerificationError) -> str:
    """The codes are those of OpenSSL's X509_V_ERR."""
    now = f"the clock here says {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
    match error.verify_code:
        case 9:
            return f"its certificate is not valid yet; {now}: set the clocks, or wait"
        case 10:
            return f"its certificate has expired; {now}: renew the certificate, or set the clock"
        case 18 | 19 | 20 | 21:
            return (
                "its certificate is not signed by a CA that is trusted here: give the CA that has "
                "signed it (--peers-ca), with those between"
            )
        case 62 | 64:
            return (
                "its certificate does not hold this host: write one that it holds, or add this one "
                "to its names (subjectAltName)"
            )
        case _:
            return f"its certificate is not accepted: {error.verify_message.rstrip('.').lower()}"
