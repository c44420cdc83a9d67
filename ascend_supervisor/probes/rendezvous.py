"""The port at which the other ranks meet rank 0: no generation starts before it can be bound again.

The platform fixes this port, so the next generation uses it once more. Connections that the last
one has closed hold it for a minute (TIME_WAIT), unless its listener had set SO_REUSEADDR.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress

from ascend_supervisor.events import Report
from ascend_supervisor.events.leftovers import PortWaiting, WaitEnded
from ascend_supervisor.life import Plan
from ascend_supervisor.probes import Probe
from ascend_supervisor.processes.tcp_ports import can_bind
from ascend_supervisor.tasks.clock import Clock

LOOK_AGAIN_SECONDS = 0.2
MOST_SECONDS = 75.0
"""Linux keeps TIME_WAIT for 60 s. After this the ranks start, and say themselves what they find."""


class Rendezvous(Probe):
    """Waits before each restart. A port that was taken before the first generation is not ours."""

    def __init__(self, clock: Clock, report: Report) -> None:
        self._clock = clock
        self._report = report
        self._port: int | None = None
        """That of the generation before."""
        self._others: set[int] = set()
        """Ports that were taken before any rank had run."""

    async def released(self) -> None:
        """Before other servers are told that this one is ready."""
        await self._free(self._port)

    async def ready(self, plan: Plan) -> None:
        """A supervisor that has taken the place of another one did not see the port before."""
        self._port = next((spec.port for spec in plan.specs if spec.port is not None), None)
        if self._port is not None and not plan.start.generation and not can_bind(self._port):
            self._others.add(self._port)
        await self._free(self._port)

    async def _free(self, port: int | None) -> None:
        """Return when it can be bound, or after MOST_SECONDS."""
        if port is None or port in self._others or can_bind(port):
            return
        self._report(PortWaiting(port, 0.0, MOST_SECONDS))
        began, told_from = self._clock.now(), self._clock.elapsed()
        try:
            while not can_bind(port) and self._clock.now() - began < MOST_SECONDS:
                await self._clock.sleep(LOOK_AGAIN_SECONDS)
        finally:
            self._report(WaitEnded(round(self._clock.elapsed() - told_from, 3)))


NAME_OF_PORT = "ascend-supervisor/port/"
"""What the name of a kept port begins with, an abstract address of unix(7)."""
FREE_PORTS_TRIED = 64
"""The kernel may offer one that another job keeps: at the port itself nobody may listen yet."""


class OwnPort:
    """A port that this job keeps for its rank 0, and that no other job of ours gets.

    It is the ``usual`` one if nobody has it, else a free one; None if there is no usual one, or
    none can be had. What is kept is a name, in the same network, that only one process can have:
    the port itself is free, so that a rank can listen there in whatever way.
    """

    def __init__(self, usual: int | None) -> None:
        self._usual = usual
        self._name: socket.socket | None = None
        self._port: int | None = None

    def __call__(self) -> int | None:
        """The same at each call."""
        if self._port is None and self._usual is not None:
            tries = (self._usual, *[0] * FREE_PORTS_TRIED)
            self._port = next(filter(None, map(self._take, tries)), None)
        return self._port

    def _take(self, port: int) -> int | None:
        """``port``, or any for 0, if nobody has it.

        Its name is taken first: a look at a port holds it for a moment, when the job whose port it
        is may look, too.
        """
        with suppress(OSError), ExitStack() as undone:
            name = undone.enter_context(socket.socket(socket.AF_UNIX))
            if port:
                name.bind(_name_of(port))
            with socket.socket() as probe:
                probe.bind(("", port))
                number: int = probe.getsockname()[1]
            if not port:
                name.bind(_name_of(number))
            undone.pop_all()
            self._name = name
            return number
        return None

    def close(self) -> None:
        """Others may have it."""
        if self._name is not None:
            self._name.close()


def _name_of(port: int) -> str:
    return f"\0{NAME_OF_PORT}{port}"
