"""What one look at a supervisor finds: its state file, and its own answer if it gives one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from ascend_supervisor.control.protocol import AnsweredNo, AskStatus, NotUnderstood
from ascend_supervisor.control.status_answer import LiveStatus
from ascend_supervisor.ctl.connection import (
    ANSWER_SECONDS,
    Denied,
    NoAnswer,
    NoSocket,
    Unanswered,
    ask,
    socket_of,
)
from ascend_supervisor.ctl.state import State, read_state_file
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.files.untrusted_json import parse_json
from ascend_supervisor.reporters.status_document import Status
from ascend_supervisor.untrusted_text import plain

LITTLE_BYTES = 64 * 1024
"""A state file of many ranks, and the directory's own block, may not fit in less."""


class Seen(Struct, frozen=True):
    """``live`` is None if the supervisor gave no answer; ``trouble`` says why if it should have."""

    state: State
    live: LiveStatus | None = None
    trouble: str = ""

    @property
    def status(self) -> Status:
        """The supervisor's own, which is newer than its file, else that of the file."""
        return self.state.status if self.live is None else self.live.status

    @property
    def is_final(self) -> bool:
        return self.live is None and self.state.is_final


def look_at(state: State, seconds: float = ANSWER_SECONDS) -> Seen:
    """The supervisor of ``state``, which may take so many seconds to answer.

    It is asked even if its process is not to be seen: it may run in another container.
    """
    if state.status.phase == "ended":
        return Seen(state)
    try:
        answer = ask(state.path, AskStatus(), LiveStatus, seconds)
    except (AnsweredNo, NotUnderstood) as error:
        return Seen(state, trouble=f"{state.description} gave no live figures: {error}")
    if isinstance(answer, LiveStatus):
        return Seen(state, answer)
    return _without_answer(read_state_file(state.path), answer)


def _without_answer(state: State, how: Unanswered) -> Seen:
    """An earlier version has no socket, and runs well."""
    if state.status.phase == "ended":
        return Seen(state)
    if not isinstance(how, NoSocket):
        return Seen(state, trouble=unanswered(state, how))
    loss = f"{state.loss}: all of this was so when it wrote that file last"
    return Seen(state, trouble=f"{loss}{_full_disk(state.path)}" if state.left_behind else "")


def _full_disk(path: Path) -> str:
    """That there is no room for another state file: it may have ended in order, and said so."""
    with suppress(OSError):
        space = os.statvfs(path)
        if space.f_bavail * space.f_frsize < LITTLE_BYTES:
            directory = plain(str(path.parent))
            return (
                f"; the disk of {directory} is full: if it has ended in order, only its console "
                "(kubectl logs) and the termination log say so"
            )
    return ""


def look_again(path: Path, seconds: float) -> Seen:
    """The same of the supervisor with the state file at ``path``; raises StateUnknown."""
    return look_at(read_state_file(path), seconds)


def unanswered(state: State, how: Unanswered) -> str:
    """The sentence about a supervisor that runs, but could not be asked."""
    match how:
        case NoSocket(reason=reason):
            return (
                f"{state.description} has no control socket {plain(str(socket_of(state.path)))} "
                f"({reason}): it is of an earlier version, or the file system holds no sockets"
            )
        case Denied(reason=reason):
            return (
                f"{state.description} answers only its own user and root ({reason}); ask as one "
                "of them"
            )
        case NoAnswer(seconds=seconds):
            why = (
                f"it was stopped (SIGSTOP); kill -CONT {state.status.pid} continues it"
                if state.is_stopped
                else "it has too much to do, or was stopped"
            )
            return (
                f"{state.description} did not answer within {seconds:g} s: {why} "
                f"(state file {plain(str(state.path))})"
            )


def as_document(seen: Seen) -> Mapping[str, Any]:
    """What the state file holds, and the live figures as ``live``: null without an answer."""
    if seen.live is None:
        return {**parse_json(seen.state.content).value, "live": None}
    figures = asdict(seen.live)
    del figures["status"]
    return {**asdict(seen.live.status), "live": figures}


def as_json(seen: Seen, *, indent: bool = True) -> bytes:
    return to_json(as_document(seen), indent=indent) + b"\n"
