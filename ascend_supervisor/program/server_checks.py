"""--server-check: the probe that asks whether this server is fit, and what it is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import Format
from ascend_supervisor.doctor.check import Checked, ThisServer, hosts_to_ask
from ascend_supervisor.doctor.checks import OF_THE_PLAN, OF_THE_SERVER, checkup
from ascend_supervisor.doctor.npus import of_this_job
from ascend_supervisor.events.rank_table import STANDALONE_PATH
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.life import Plan
from ascend_supervisor.probes import Probe
from ascend_supervisor.probes.server_check import Examiner, ServerCheck
from ascend_supervisor.process_spec import changed
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.helper_program import Question, answer_to
from ascend_supervisor.processes.ownership import Known
from ascend_supervisor.processes.program_output import ProgramOutput, trouble_of
from ascend_supervisor.processes.shell_file import Changes
from ascend_supervisor.processes.sweep import sweep_descendants
from ascend_supervisor.program.premises import Premises
from ascend_supervisor.settings.alert_options import EventProgram
from ascend_supervisor.workers.runtime import Runtime

if TYPE_CHECKING:
    from ascend_supervisor.doctor.check import Checked
    from ascend_supervisor.doctor.server_check_command import UsersCommand


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
        from ascend_supervisor.doctor.facts_of_server import facts_of_server  # noqa: PLC0415
        from ascend_supervisor.doctor.server_of_job import server_of_job  # noqa: PLC0415

        code = given.settings.code_digest
        server = server_of_job(given.settings, changed(runtime.environ, changes), given.place)
        facts = await facts_of_server(server, OwnChecks(server, runtime.children).ask, code)
        if facts.no_digest:
            runtime.report(Diagnostic("--code-digest", f"{code}: {facts.no_digest}", None))
        return facts.told

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
        from ascend_supervisor.doctor.server_of_job import part_of, server_of_job  # noqa: PLC0415

        given = self._given
        server = server_of_job(given.settings, self._environ, given.place)
        if self._is_first:  # etcd has enough to do at a restart of 1,250 servers
            server = replace(server, part=part_of(given.settings, given.environ))
        return OwnChecks(server, self._children)


def _users(
    program: EventProgram, given: Premises, environ: Mapping[str, str], runtime: Runtime
) -> UsersCommand:
    from ascend_supervisor.doctor.server_check_command import UsersCommand  # noqa: PLC0415  (seldom)

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


ANSWER_SECONDS = 4.0
"""How long one program may take."""
MOST_BYTES = 256 * 1024


class OwnChecks(Struct, frozen=True):
    """``server`` is what is known of it before there is a plan."""

    server: ThisServer
    children: Children

    async def early(self) -> Checked:
        """What needs no plan, within 10 s."""
        return Checked(await checkup(self.server, OF_THE_SERVER, self.ask))

    async def late(self, plan: Plan, early: Checked) -> Checked:
        """All of it, within 10 s: the plan tells what the early rows mean to this job."""
        server = planned(self.server, plan)
        rows = await checkup(server, OF_THE_PLAN, self.ask)
        return Checked((*of_this_job(early.rows, server), *rows))

    async def ask(self, words: Sequence[str]) -> ProgramOutput:
        """What a program says within 4 s."""
        asked = Question(words, self.server.environ, ANSWER_SECONDS, MOST_BYTES)
        try:
            said = await answer_to(asked, self.children)
        except OSError as error:
            return ProgramOutput(b"", f"it cannot be started: {error.strerror or error}")
        trouble = trouble_of(said.status, ANSWER_SECONDS)
        return ProgramOutput(said.output, trouble, said.status is None)


def planned(server: ThisServer, plan: Plan) -> ThisServer:
    """The server, with what only a plan tells."""
    start = plan.start
    environ = {**server.environ, **next((spec.environ for spec in plan.specs), {})}
    part = replace(
        server.part,
        hosts=hosts_to_ask(start.found.table, start.node_rank, environ),
        port=next((spec.port for spec in plan.specs if spec.port is not None), None),
        may_hold_ports=start.generation > 0,
    )
    devices = plan.start.entry.devices
    found = plan.start.found
    is_told = found.table.format is not Format.DECLARED and str(found.path) != STANDALONE_PATH
    ids = tuple(device.device_id for device in devices) if is_told else None
    ranks = sum(spec.rank is not None for spec in plan.specs) or len(devices)
    is_alone = start.holds_all_ranks
    return replace(server, ranks=ranks, devices=ids, is_alone=is_alone, part=part)
