"""``health`` and ``ready``, which Kubernetes runs every few seconds."""

from __future__ import annotations

from typing import ClassVar

from ascend_supervisor.control.protocol import (
    AnsweredNo,
    AskReady,
    NotUnderstood,
    Ping,
    Pong,
    Readiness,
)
from ascend_supervisor.ctl.seen import Denied, NoAnswer, NoSocket, ask, unanswered
from ascend_supervisor.ctl.state import State, read_state_file
from ascend_supervisor.errors import Refusal
from ascend_supervisor.untrusted_text import plain

ASK_SECONDS = 4.5
"""So long may the supervisor take: the sentence about its silence comes before the deadline."""


class ProbeFailed(Refusal):
    """The supervisor is not healthy, or not ready."""

    exit_code: ClassVar[int] = 1


def check_health(state: State) -> None:
    """Raise ProbeFailed unless the supervisor answers, or has ended with 0.

    Where nobody may or can ask it, it must run.
    """
    if state.status.phase == "ended":
        _check_end(state)
        return
    try:
        answer = ask(state.path, Ping(), Pong, ASK_SECONDS)
    except (AnsweredNo, NotUnderstood):
        return  # it is alive enough to decline
    match answer:
        case Pong():
            return
        case NoAnswer():
            _check_silent(read_state_file(state.path), answer)
        case NoSocket() | Denied():
            _check_process(read_state_file(state.path))


def check_ready(state: State) -> None:
    """Raise ProbeFailed unless the ranks do their work; without a socket, unless they run."""
    if state.status.phase == "ended":
        raise ProbeFailed(_end(state))
    try:
        answer = ask(state.path, AskReady(), Readiness, ASK_SECONDS)
    except (AnsweredNo, NotUnderstood) as error:
        raise ProbeFailed(
            f"{state.description} does not say whether it is ready: {error}"
        ) from error
    match answer:
        case Readiness(ready=True):
            return
        case Readiness(reason=reason):
            raise ProbeFailed(plain(reason))
        case NoSocket():
            _check_ranks(read_state_file(state.path))
        case NoAnswer() | Denied():
            raise ProbeFailed(unanswered(state, answer))


def _check_end(state: State) -> None:
    if state.status.exit_code != 0:
        raise ProbeFailed(_end(state))


def _end(state: State) -> str:
    status = state.status
    code = status.exit_code
    cause = (status.root_cause or status.why).partition("\n")[0]
    cause = cause.removesuffix(f"; ending with exit code {code}")
    return f"the supervisor has ended with {code}: {plain(cause)}"


def _check_silent(state: State, silent: NoAnswer) -> None:
    """It may have ended while it was asked."""
    if state.status.phase != "ended":
        raise ProbeFailed(unanswered(state, silent))
    _check_end(state)


def _check_process(state: State) -> None:
    if state.status.phase == "ended":
        _check_end(state)
    elif state.left_behind:
        raise ProbeFailed(state.loss)
    elif state.is_stopped:
        raise ProbeFailed(f"{state.description} was stopped (SIGSTOP)")


def _check_ranks(state: State) -> None:
    """What the state file and /proc say."""
    status = state.status
    if state.left_behind:
        raise ProbeFailed(state.loss)
    if status.phase != "running":
        raise ProbeFailed(f"the phase is {status.phase!r}: {plain(status.why)}")
    dead = [rank for rank in status.ranks if not state.rank_lives(rank)]
    if dead or not status.ranks:
        missing = f"process {dead[0].pid} has ended" if dead else "no rank has started"
        raise ProbeFailed(f"not every rank runs: {missing}")
