"""Whether the names of other servers have addresses here; names get them when pods are placed."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from functools import partial

import anyio

from ascend_supervisor.cluster.rank_table import is_loopback
from ascend_supervisor.doctor.check import ThisServer, fit, warning
from ascend_supervisor.events.server import Result
from ascend_supervisor.phrases import counted, listed
from ascend_supervisor.tasks.threads import Call
from ascend_supervisor.untrusted_text import shown

SUBJECT = "names of servers"
AGAIN_SECONDS = 0.5
PATIENCE_SECONDS = 2.0
"""How long a name that is not known is asked for again."""
MOST_SECONDS = 4.0
"""How long a resolver may take."""


async def names_of_servers(server: ThisServer, _: object) -> Iterable[Result]:
    """Nothing where the others are told by addresses, or there are none."""
    hosts = server.part.hosts
    if not hosts:
        return ()
    found: dict[str, str] = {}
    why = dict.fromkeys(hosts, f"the resolver has not answered within {MOST_SECONDS:g} s")
    with anyio.move_on_after(MOST_SECONDS):
        async with anyio.create_task_group() as tasks:
            for host in hosts:
                tasks.start_soon(_ask, host, found, why)
    return (_row(hosts, found, why),)


async def _ask(host: str, found: dict[str, str], why: dict[str, str]) -> None:
    end = anyio.current_time() + PATIENCE_SECONDS
    while True:
        try:
            answers = await Call(partial(socket.getaddrinfo, host, None)).result()
        except (OSError, UnicodeError) as error:
            why[host] = getattr(error, "strerror", None) or str(error)
        else:
            found[host] = str(answers[0][4][0]).partition("%")[0]
            return
        if anyio.current_time() > end:
            return
        await anyio.sleep(AGAIN_SECONDS)


def _row(hosts: tuple[str, ...], found: Mapping[str, str], why: Mapping[str, str]) -> Result:
    unknown = [f"{shown(host)} ({why[host]})" for host in hosts if host not in found]
    if unknown:
        return warning(
            SUBJECT,
            f"that {len(unknown)} of {counted(len(hosts), 'name')} have no address here: "
            f"{listed(unknown, 3)}",
            "an address for each",
            "see whether these servers or pods run, and this one's name servers and /etc/hosts",
        )
    here = [f"{shown(host)} is {found[host]}" for host in hosts if is_loopback(found[host])]
    if here:
        return warning(
            SUBJECT,
            f"that {listed(here, 3)} here, which leads to this machine",
            "the address of another server",
            "correct /etc/hosts",
        )
    return fit(SUBJECT, listed([f"{shown(host)} is {found[host]}" for host in hosts], 3))
