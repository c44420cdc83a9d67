"""Addresses of hosts, for launchers that need more than a name: looked up for a bounded time."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import NoReturn

import anyio

from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.launchers.process_spec import HostName
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first
from ascend_supervisor.tasks.threads import Call
from ascend_supervisor.untrusted_text import shown

RESOLVE_SECONDS = 600.0
"""How long a name may have no address: a pod's name gets one when the pod is placed."""
AGAIN_SECONDS = 1.0
TELL_SECONDS = 2.0


async def addresses_of(
    hosts: Iterable[HostName], clock: Clock, report: Report, seconds: float = RESOLVE_SECONDS
) -> dict[str, str]:
    """An address for each name; raises Unavailable for one that has none within ``seconds``."""
    found = {}
    for host in hosts:
        lookup = _Lookup(host, clock, report)
        with anyio.move_on_after(seconds):
            found[host.name] = await first(lookup.keep_asking, lookup.tell_waiting)
        if host.name not in found:
            raise Unavailable(
                f"{shown(host.name)}: expected an address of this name within {seconds:g} s, found "
                f"none: {lookup.reason}; see whether its server or pod has been placed, or give an "
                f"address in place of the name in {host.named_by}"
            )
        if ip_address(found[host.name]).is_loopback:
            report(Diagnostic(shown(host.name), _only_here(host, found[host.name]), None))
    return found


def _only_here(host: HostName, address: str) -> str:
    return (
        f"its address is {address} here, which other servers cannot reach; see /etc/hosts, or give "
        f"an address in place of the name in {host.named_by}"
    )


class _Lookup:
    """The wait for one name; ``reason`` is why it has no address yet."""

    def __init__(self, host: HostName, clock: Clock, report: Report) -> None:
        self.reason = "the resolver has not answered"
        self._host = host
        self._clock = clock
        self._report = report

    async def keep_asking(self) -> str:
        while True:
            try:
                return await Call(partial(look_up, self._host)).result()
            except OSError as error:
                self.reason = error.strerror or str(error)
            await self._clock.sleep(AGAIN_SECONDS)

    async def tell_waiting(self) -> NoReturn:
        await self._clock.sleep(TELL_SECONDS)
        text = f"the name has no address yet: {self.reason}; the ranks start when it has one"
        self._report(Diagnostic(shown(self._host.name), text, None))
        await anyio.sleep_forever()
        raise AssertionError


def look_up(host: HostName) -> str:
    """An address of the host; may block. Raises OSError, or SettingsRefused for no host's name."""
    try:
        answers = socket.getaddrinfo(host.name, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise SettingsRefused(
            f"{host.named_by}: expected a host name, found {shown(host.name)} ({error})"
        ) from error
    addresses = [str(answer[4][0]).partition("%")[0] for answer in answers]
    return best(addresses, is_local if host.is_here else lambda _: True)


def best(addresses: Iterable[str], suits: Callable[[str], bool]) -> str:
    """One that other servers can reach, if possible one that ``suits``, if possible of IPv4."""

    def rank(address: str) -> tuple[bool, bool, int]:
        known = ip_address(address)
        return known.is_loopback, not suits(address), known.version

    return min(addresses, key=rank)


def is_local(address: str) -> bool:
    """Whether a program on this machine can listen there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False
