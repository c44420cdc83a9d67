"""The checks of --server-check auto, made by a supervisor: programs are children of ours."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import Format
from ascend_supervisor.doctor.check import Checked, ThisServer, hosts_to_ask
from ascend_supervisor.doctor.checks import OF_THE_PLAN, OF_THE_SERVER, checkup
from ascend_supervisor.doctor.npus import of_this_job
from ascend_supervisor.events.rank_table import STANDALONE_PATH
from ascend_supervisor.life import Plan
from ascend_supervisor.processes.answer import Question, answer_to
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.program_output import ProgramOutput, trouble_of

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
