"""``stop``, ``restart`` and ``dump``: what an operator asks of a supervisor."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, TypeVar

from msgspec import Struct

from ascend_supervisor.control.protocol import (
    DUMP_SECONDS,
    Accepted,
    AnsweredNo,
    AskDump,
    AskRestart,
    AskStatus,
    AskStop,
    Dumped,
    NotUnderstood,
    Request,
)
from ascend_supervisor.control.status_answer import LiveStatus
from ascend_supervisor.ctl.seen import ANSWER_SECONDS, Denied, NoAnswer, NoSocket, ask, unanswered
from ascend_supervisor.ctl.state import State, StateUnknown, read_state_file
from ascend_supervisor.errors import Refusal
from ascend_supervisor.untrusted_text import plain, printable

POLL_SECONDS = 0.2
"""How often to check whether the supervisor has ended."""

T = TypeVar("T", bound=Struct)


class NotDone(Refusal):
    """The supervisor was not reached, or has declined; the sentence says why and what to do."""

    exit_code: ClassVar[int] = 1


class HasEnded(NotDone):
    """The supervisor has ended while it was being asked, or is just about to."""


def stop(state: State, grace: float | None) -> str:
    """Tell the supervisor to stop, with this ``grace`` (seconds) or the job's; raises NotDone.

    Returns what follows.
    """
    instead = f"; kill {state.status.pid} stops it, too" if grace is None else ""
    try:
        return _requested(state, AskStop(grace), Accepted, instead=instead).effect
    except NotDone as error:
        latest = _renewed(state)
        if state.status.phase == "ended" or latest.status.phase != "ended":
            raise
        raise HasEnded(_ended_already(latest)) from error


def restart(state: State) -> str:
    """End the generation and start the next one; returns what follows. Raises NotDone.

    The generation that runs now is named, so that two who ask at once end it only once.
    """
    live = _requested(state, AskStatus(), LiveStatus)
    return _requested(state, AskRestart(live.status.generation), Accepted).effect


def dump(state: State) -> Dumped:
    """Who waits where, and the files that say more; raises NotDone."""
    return _requested(state, AskDump(), Dumped, DUMP_SECONDS + ANSWER_SECONDS)


def lines_of(dumped: Dumped) -> list[str]:
    """The sentence, and the paths of the files, for a terminal."""
    directory = Path(dumped.directory or "")
    files = [printable(str(directory / file)) for file in dumped.files]
    return [*map(printable, dumped.summary.split("\n")), *files]


def until_ended(state: State, sleep: Callable[[float], object] = time.sleep) -> str:
    """Wait until the process of the supervisor is gone; returns how it ended."""
    while state.supervisor_lives:
        sleep(POLL_SECONDS)
        state = _renewed(state)
    status = _renewed(state).status
    return status.why if status.phase == "ended" else state.loss


def _requested(
    state: State,
    request: Request,
    kind: type[T],
    seconds: float = ANSWER_SECONDS,
    instead: str = "",
) -> T:
    """The answer; raises NotDone. ``instead`` is what to do where there is no socket."""
    if state.status.phase == "ended":
        raise NotDone(_ended_already(state))
    try:
        answer = ask(state.path, request, kind, seconds)
    except AnsweredNo as declined:
        raise NotDone(plain(str(declined))) from declined
    except NotUnderstood as error:
        raise NotDone(f"{state.description}: {error}") from error
    if not isinstance(answer, (NoSocket, Denied, NoAnswer)):
        return answer
    if isinstance(answer, NoSocket) and state.left_behind:
        raise NotDone(state.loss)
    told = unanswered(state, answer)
    raise NotDone(f"{told}{instead if isinstance(answer, NoSocket) else ''}")


def _ended_already(state: State) -> str:
    return f"{state.description} has ended with {state.status.exit_code} already"


def _renewed(state: State) -> State:
    try:
        return read_state_file(state.path)
    except StateUnknown:
        return state
