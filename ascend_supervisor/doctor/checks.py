"""All checks, in the order of their rows.

To add rows: write a file in this room with a function from a ThisServer to its Results, name it
here, and describe the rows in docs/servers.md. What it needs to know besides is a field of
ThisServer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec import Struct

from ascend_supervisor.doctor.devices import devices
from ascend_supervisor.doctor.etcd_and_clock import etcd_and_clock
from ascend_supervisor.doctor.names_of_servers import names_of_servers
from ascend_supervisor.doctor.ports import ports, reserved_ports
from ascend_supervisor.doctor.room_on_disks import room_on_disks
from ascend_supervisor.doctor.server import ThisServer
from ascend_supervisor.events.server import Result
from ascend_supervisor.processes.program_output import ProgramOutput

Ask = Callable[[Sequence[str]], Awaitable[ProgramOutput]]
"""What a program prints within its time; never raises."""


class Check(Struct, frozen=True):
    """``look`` may block, because it is called in a thread, and raise OSError.

    ``subject`` names what is not known if it does.
    """

    subject: str
    look: Callable[[ThisServer], Iterable[Result]]


class ProgramCheck(Struct, frozen=True):
    """One that asks programs, or others; it keeps to a time of its own."""

    subject: str
    ask: Callable[[ThisServer, Ask], Awaitable[Iterable[Result]]]


Checks = tuple[Check | ProgramCheck, ...]

OF_THE_SERVER: Checks = (
    Check("room on disks", room_on_disks),
    ProgramCheck("etcd", etcd_and_clock),
)
"""They need no plan: they are made while the rank table is waited for."""
OF_THE_PLAN: Checks = (
    Check("devices", devices),
    Check("ports", ports),
    ProgramCheck("names of servers", names_of_servers),
)
"""They need to know the ranks of this server."""
ONLY_ASKED: Checks = (Check("reserved ports", reserved_ports),)
"""For ``ascend-supervisorctl doctor``: a start waits for these, or refuses them, by itself."""
