"""--server-check: the probe that asks whether this server is fit, and what it is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.launchers.process_spec import changed
from ascend_supervisor.life import Plan
from ascend_supervisor.probes import Probe
from ascend_supervisor.probes.server_check import Examiner, ServerCheck
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.ownership import Known
from ascend_supervisor.processes.shell_file import Changes
from ascend_supervisor.processes.sweep import sweep_descendants
from ascend_supervisor.program.premises import Premises
from ascend_supervisor.settings.alert_options import EventProgram
from ascend_supervisor.workers.runtime import Runtime

if TYPE_CHECKING:
    from ascend_supervisor.doctor.check import Checked
    from ascend_supervisor.doctor.own_checks import OwnChecks
    from ascend_supervisor.doctor.users_command import UsersCommand

SWEEP_SECONDS = 1.0


def server_checks(given: Premises, changes: Changes, runtime: Runtime) -> Sequence[Probe]:
    """``changes`` are those of --env-from, for the environment of the ranks."""
    wish = given.settings.server_check
    if wish == "off":
        return ()
    environ = changed(runtime.environ, changes)
    examiner: Examiner
    if isinstance(wish, EventProgram):
        examiner = _users(wish, given, environ, runtime)
    else:
        examiner = _Own(given, environ, runtime.children)
    return (ServerCheck(examiner, runtime.clock, runtime.report),)


FactsHere = Callable[[], Awaitable[Mapping[str, str]]]
"""What must be the same on all servers, by name."""


def facts_here(given: Premises, changes: Changes, runtime: Runtime) -> FactsHere | None:
    """Finds what the servers of --peers compare; None if they compare nothing."""
    if given.settings.server_check == "off":
        return None

    async def found() -> Mapping[str, str]:
        from ascend_supervisor.doctor.facts_of_server import (  # noqa: PLC0415
            CODE,
            NO_DIGEST,
            facts_of_server,
        )
        from ascend_supervisor.doctor.own_checks import OwnChecks  # noqa: PLC0415
        from ascend_supervisor.doctor.server_of_job import server_of_job  # noqa: PLC0415

        code = given.settings.code_digest
        server = server_of_job(given.settings, changed(runtime.environ, changes), given.place)
        facts = await facts_of_server(server, OwnChecks(server, runtime.children).ask, code)
        if facts.get(CODE, "").startswith(NO_DIGEST):
            runtime.report(Diagnostic("--code-digest", f"{code}: {facts[CODE]}", None))
        return facts

    return found


class _Own:
    """The checks of auto; they are imported when they are made, and not before."""

    def __init__(self, given: Premises, environ: Mapping[str, str], children: Children) -> None:
        self._given = given
        self._environ = environ
        self._children = children
        self._is_first = True

    async def early(self) -> Checked:
        return await self._checks.early()

    async def late(self, plan: Plan, early: Checked) -> Checked:
        checks = self._checks
        self._is_first = False
        return await checks.late(plan, early)

    @property
    def _checks(self) -> OwnChecks:
        from ascend_supervisor.doctor.own_checks import OwnChecks  # noqa: PLC0415
        from ascend_supervisor.doctor.server_of_job import part_of, server_of_job  # noqa: PLC0415

        given = self._given
        server = server_of_job(given.settings, self._environ, given.place)
        if self._is_first:  # etcd has enough to do at a restart of 1,250 servers
            server = replace(server, part=part_of(given.settings, given.environ))
        return OwnChecks(server, self._children)


def _users(
    program: EventProgram, given: Premises, environ: Mapping[str, str], runtime: Runtime
) -> UsersCommand:
    from ascend_supervisor.doctor.users_command import UsersCommand  # noqa: PLC0415  (seldom)

    place, children, nothing = given.place, runtime.children, Known()
    sweep = partial(
        sweep_descendants, children, runtime.ownership, nothing, SWEEP_SECONDS, lambda _: None
    )
    return UsersCommand(
        words=program.words,
        children=children,
        environ=environ,
        cwd=str(place.started_in),
        output=Path(place.log_dir) / f"{place.job_id}-server-check-{place.short_pod}.txt",
        sweep=sweep,
    )
