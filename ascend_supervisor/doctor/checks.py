"""All checks, in the order of their rows, made side by side within a bounded time.

To add rows: write a function from a ThisServer to its Results in this room, name it here, and
describe the rows in docs/servers.md. What it needs to know besides is a field of ThisServer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import anyio
from msgspec import Struct

from ascend_supervisor.doctor.cann import cann_environment, packages, versions
from ascend_supervisor.doctor.check import Ask, ThisServer, unknown
from ascend_supervisor.doctor.disks import access, old_plogs, room_on_disks, termination_file
from ascend_supervisor.doctor.etcd_and_clock import etcd_and_clock
from ascend_supervisor.doctor.limits import limits
from ascend_supervisor.doctor.names_of_servers import names_of_servers
from ascend_supervisor.doctor.npus import devices, ecc, npu_health, npu_links
from ascend_supervisor.doctor.other_processes import held_devices, left_processes
from ascend_supervisor.doctor.ports import ports, reserved_ports
from ascend_supervisor.doctor.shared_memory import shared_memory
from ascend_supervisor.events.server import Result
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call


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
    ProgramCheck("health of NPUs", npu_health),
    Check("environment of CANN", cann_environment),
    Check("versions", versions),
    ProgramCheck("packages", packages),
    Check("room on disks", room_on_disks),
    Check("logs of CANN", old_plogs),
    Check("shared memory", shared_memory),
    Check("termination log", termination_file),
    ProgramCheck("etcd", etcd_and_clock),
)
"""They need no plan: they are made while the rank table is waited for."""
OF_THE_PLAN: Checks = (
    Check("devices", devices),
    ProgramCheck("links of NPUs", npu_links),
    Check("limits", limits),
    Check("ports", ports),
    ProgramCheck("names of servers", names_of_servers),
)
"""They need to know the ranks of this server."""
ONLY_ASKED: Checks = (
    Check("left processes", left_processes),
    Check("held devices", held_devices),
    ProgramCheck("memory errors of NPUs", ecc),
    Check("access", access),
    Check("reserved ports", reserved_ports),
)
"""For ``ascend-supervisorctl doctor``.

A start waits for devices that are held, ends what its own job has left, and refuses directories
that cannot be written, by itself. The errors of memory take npu-smi once for each NPU.
"""


LOOK_SECONDS = 5.0
"""How long a file system may take."""
PROGRAM_SECONDS = 9.0
"""How long the programs of one check may take, all together."""


async def checkup(
    server: ThisServer, checks: Checks, ask: Ask, seconds: float = LOOK_SECONDS
) -> tuple[Result, ...]:
    """The rows of all ``checks``; what is late, or fails, gives one that is ``unknown``."""
    rows: list[tuple[Result, ...]] = [()] * len(checks)

    async def make(at: int, check: Check | ProgramCheck) -> None:
        rows[at] = await _rows(server, check, ask, seconds)

    async with anyio.create_task_group() as tasks:
        for at, check in enumerate(checks):
            tasks.start_soon(make, at, check)
    return tuple(row for found in rows for row in found)


async def _rows(
    server: ThisServer, check: Check | ProgramCheck, ask: Ask, seconds: float
) -> tuple[Result, ...]:
    if isinstance(check, Check):
        return await _within(partial(_looked, check, server), check.subject, seconds, _LATE)
    limit = max(PROGRAM_SECONDS, seconds)
    return await _within(partial(_asked, check, server, ask), check.subject, limit, _NO_ANSWER)


_LATE = "its file system has not answered within {:g} s"
_NO_ANSWER = "its programs have not answered within {:g} s"


async def _within(
    rows: Callable[[], Awaitable[tuple[Result, ...]]], subject: str, seconds: float, late: str
) -> tuple[Result, ...]:
    try:
        with anyio.fail_after(seconds):
            return await rows()
    except TimeoutError:
        return (unknown(subject, late.format(seconds)),)
    except (OSError, NoThread) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        return (unknown(subject, f"it cannot be looked at: {reason}"),)
    except Exception as error:  # noqa: BLE001  (a defect of a check ends no job)
        return (unknown(subject, f"a defect of this check, please report it: {error!r}"),)


async def _looked(check: Check, server: ThisServer) -> tuple[Result, ...]:
    def look() -> Iterable[Result]:
        return tuple(check.look(server))

    return tuple(await Call(look).result())


async def _asked(check: ProgramCheck, server: ThisServer, ask: Ask) -> tuple[Result, ...]:
    return tuple(await check.ask(server, ask))
