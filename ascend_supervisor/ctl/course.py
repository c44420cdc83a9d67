"""What a job has gone through so far, for people: restarts, generations, the cause; pure."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_supervisor.causes.diagnosis import Language
from ascend_supervisor.control.status_answer import PastRestart
from ascend_supervisor.phrases import counted
from ascend_supervisor.reporters.status_document import PastGeneration, Status
from ascend_supervisor.untrusted_text import plain, printable

MOST_RESTARTS = 5
"""How many of the latest restarts are listed."""


def course(
    status: Status, why: str, trouble: str = "", language: Language = "en"
) -> list[tuple[str, object]]:
    """What a status tells of the whole job: each fact with its name.

    The cause is that of the latest failure, in ``language``, also while the ranks run again; where
    ``why`` says it already, it is not said twice.
    """
    known = "" if status.diagnosis is None else status.diagnosis.told(language)
    return [
        ("trouble", trouble),
        ("why", why),
        ("exit code", status.exit_code),
        ("generation", status.generation),
        ("world size", status.world_size),
        *_restarts_left(status),
        ("cause" if status.phase == "ended" else "last cause", "" if known in why else known),
        ("root cause", status.root_cause),
    ]


def _restarts_left(status: Status) -> list[tuple[str, object]]:
    """The user's, and the cluster's if it is followed: then the first may not apply."""
    used, left = status.cluster_restarts_used, status.restarts_left
    if used is None:
        return [("restarts left", left)]
    own: list[tuple[str, object]] = [("restarts left", left)] if left else []
    return [*own, ("by the cluster", f"{used} of {status.cluster_restarts_limit} within an hour")]


def past_restarts(restarts: Sequence[PastRestart]) -> str:
    """The latest first."""
    told = [
        f"{one.at} after generation {one.generation}: {printable(one.cause)}"
        + " (not charged)" * one.free
        for one in reversed(restarts[-MOST_RESTARTS:])
    ]
    earlier = len(restarts) - len(told)
    return "\n".join([*told, f"and {counted(earlier, 'earlier one')}"] if earlier > 0 else told)


def past_generations(generations: Sequence[PastGeneration]) -> str:
    """The latest first."""
    told = [
        f"{one.generation}: {plain(one.started_at)} to {plain(one.ended_at or '?')}, "
        f"{printable(one.cause or one.outcome or 'its end is not known')}"
        + " (not charged)"
        * bool(one.free)
        for one in reversed(generations[-MOST_RESTARTS:])
    ]
    earlier = len(generations) - len(told)
    return "\n".join([*told, f"and {counted(earlier, 'earlier one')}"] if earlier > 0 else told)
