"""Makes checks side by side, within a bounded time; the order of their rows is fixed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import anyio

from ascend_supervisor.doctor.check import Ask, ThisServer, unknown
from ascend_supervisor.doctor.checks import Check, Checks, ProgramCheck
from ascend_supervisor.events.server import Result
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call

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
