"""The end of a run: every exception becomes the last event, and everything is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

import anyio

from ascend_supervisor.cluster.from_environment.choice import node_rank_told, pods_told
from ascend_supervisor.errors import DEFECT, Refusal, Unavailable
from ascend_supervisor.events.supervisor import ExitLingering, SupervisorExited
from ascend_supervisor.life import Start
from ascend_supervisor.processes.ownership import Known
from ascend_supervisor.processes.sweep import sweep_descendants
from ascend_supervisor.program.parts import Parts
from ascend_supervisor.reporters.python_warnings import defect
from ascend_supervisor.scarcity import NoThread, scarcity
from ascend_supervisor.supervisor import Broken, End, Job, refused, supervise
from ascend_supervisor.tasks.race import every, innermost
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.workers.runtime import Runtime

DEFECT_SECONDS = 10.0
"""How long the ranks may take to die after a defect of ours."""
LAST_WORDS_SECONDS = 10.0
"""How long after the last process we wait for the reader of rank output."""


async def exited(
    claim: Callable[[], Awaitable[None]], job: Callable[[], Awaitable[Job]], runtime: Runtime
) -> End:
    """Run the job; every exception becomes the final event, and no process is left."""
    try:
        await claim()
        return await supervise(await job())
    except Refusal as refusal:
        return refused(refusal)
    except Broken as broken:
        return await _broken(broken.error, runtime, broken.generations)
    except Exception as error:  # noqa: BLE001  (a defect of ours is an end, too)
        return await _broken(error, runtime)


async def _broken(error: Exception, runtime: Runtime, generations: int = 0) -> End:
    """The end by an error that nobody expected, or by a lack that nothing waits for."""
    cause = innermost(error)
    shortage = scarcity(cause)
    if not shortage:
        runtime.report(defect(error))
    with suppress(Exception):  # the last event and the exit code come, whatever fails here
        await sweep_descendants(
            runtime.children, runtime.ownership, Known(), DEFECT_SECONDS, lambda _: None
        )
    if shortage:
        what = "" if isinstance(cause, NoThread) else "the machine has no room for this job: "
        return refused(Unavailable(f"{what}{shortage}"), generations)
    reason = printable(f"a defect of ascend_supervisor, please report it: {error!r}")
    return End(SupervisorExited(DEFECT, reason, generations, reason), reason, is_retryable=True)


def ends_last(start: Start | None, environ: Mapping[str, str]) -> bool:
    """Whether this server of the job ends last (--exit-linger): the first one of several.

    Its last ``start`` tells that, or variables if there was none. If all pods of a job fail within
    seconds, Volcano does not retry it.
    """
    is_one_of_several = any(pods > 1 for _, pods in pods_told(environ))
    if start is None:
        return is_one_of_several and node_rank_told(environ) == 0
    return start.node_rank == 0 and (is_one_of_several or not start.holds_all_ranks)


async def linger(parts: Parts, end: SupervisorExited, seconds: float) -> None:
    """Wait with the end, unless we are told to stop: until then other servers end."""
    if not seconds or await parts.interrupts.stop_within(0):
        return
    parts.runtime.report(
        ExitLingering(seconds, end.exit_code, end.reason, end.root_cause, end.own_exit_code)
    )
    await parts.interrupts.stop_within(seconds)


async def last_words(parts: Parts, end: End) -> None:
    """Write everything that is left, the last event at the end; takes a bounded time."""
    until = anyio.current_time() + LAST_WORDS_SECONDS
    await parts.runtime.outputs.logs.finish()
    # These do not wait for the reader of stdout.
    parts.chronicle.report(end.event)
    parts.records.end(end.event, is_refused=end.refusal is not None)
    parts.events.report(end.event)
    for metrics in parts.metrics:
        metrics.report(end.event)
    for alerts in parts.alerts:
        alerts.report(end.event)
    await parts.records.finish()
    await parts.events.finish()
    output = partial(parts.outlets.finish_output, until - anyio.current_time())
    await every(partial(output, parts.interrupts.hurry), *(one.finish for one in parts.alerts))
    await parts.outlets.end(end.event, end.refusal)
    await parts.runtime.guardian.dismiss()
