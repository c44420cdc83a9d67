"""What a generation needs before its first process: a table for the ranks, directories, logs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import PurePath

from ascend_supervisor.cluster.wait_for_table import keep_copy
from ascend_supervisor.errors import Unavailable
from ascend_supervisor.life import Plan
from ascend_supervisor.tasks.threads import in_thread
from ascend_supervisor.workers.group import Surroundings
from ascend_supervisor.workers.process import prepare_all


async def prepare(plan: Plan, table_file: PurePath, around: Surroundings) -> Plan:
    """Make it; gives the plan, with what the machine lacks now and may have again later.

    Raises the other refusals; nothing of the generation has been told then.
    """
    try:
        document = plan.start.found.table.file_for_ranks
        if document is not None:
            await in_thread(partial(keep_copy, document, table_file))
        await in_thread(partial(prepare_all, plan.specs, around.environ))
        for spec in plan.specs:
            await around.logs.open(spec)
    except Unavailable as lacking:
        return replace(plan, lacking=lacking)
    return plan
