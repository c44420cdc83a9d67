"""How the start before this one ended, by the state file that it left; nothing in it is trusted.

A platform that runs the boot command again in the same container shows only its last end.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.ctl.state import State, StateUnknown, read_state_file
from ascend_supervisor.job_files import UNNAMED_JOB, Place, StartCount
from ascend_supervisor.progress.account import MOST_PAUSE_SECONDS, KeptAccount
from ascend_supervisor.reporters.status_document import Status
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import ANSWER_SECONDS, Call
from ascend_supervisor.untrusted_text import clipped, harmless_text, printable

CAUSE_CHARACTERS = 3000
SENTENCE_CHARACTERS = 400


class EarlierStart(Struct, frozen=True):
    """``sentence`` says how it ended, and ``root_cause`` why; None if it is unknown.

    ``account`` is that of the time of all starts here, up to now; None if no step was seen.
    ``no_progress`` are the last steps of its last generations, if these made no progress.
    """

    sentence: str | None = None
    root_cause: str | None = None
    account: KeptAccount | None = None
    no_progress: tuple[int, ...] = ()


def earlier_start(place: Place) -> EarlierStart:
    """The previous start of this job here; empty if it succeeded, or left no word.

    The file system has ANSWER_SECONDS to answer. Jobs without a name of their own are not told
    apart, so nothing is said about them.
    """
    nothing = EarlierStart()
    if place.job_id == UNNAMED_JOB:
        return nothing
    with suppress(NoThread):  # whoever needs one says so
        look = Call(partial(_state_in, Path(place.state_file)))
        found = look.within(ANSWER_SECONDS, None)
        return nothing if found is None else _told(*found, place)
    return nothing


def _state_in(path: Path) -> tuple[State, float] | None:
    """The state file, if it is ours or root's (another user may have planted it), and its age."""
    with suppress(OSError, StateUnknown):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_uid in {os.geteuid(), 0}:
            return read_state_file(path), max(time.time() - found.st_mtime, 0.0)
    return None


def _told(state: State, age: float, place: Place) -> EarlierStart:
    status = state.status
    is_of_this_job = (status.job_id, status.pod) == (place.job_id, place.pod)
    if not is_of_this_job or not state.is_final or status.exit_code == 0:
        return EarlierStart()
    cause = clipped(harmless_text(status.root_cause or ""), CAUSE_CHARACTERS) or None
    sentence = clipped(printable(_sentence(status, cause)), SENTENCE_CHARACTERS)
    return EarlierStart(sentence, cause, _account(status, age), status.no_progress)


def _account(status: Status, age: float) -> KeptAccount | None:
    """The account up to now; what a supervisor did after its last word, if killed, is unknown."""
    if status.progress is None:
        return None
    pause = age if age <= MOST_PAUSE_SECONDS else 0.0
    return status.progress.kept.after(pause, "restarting" if status.phase == "ended" else "unknown")


def _sentence(status: Status, cause: str | None) -> str:
    label = StartCount(status.schedule_count, status.start_count).label
    who = f"the previous start here{f' ({label})' if label else ''}"
    why = (cause or "").partition("\n")[0]
    if status.phase == "ended":
        return f"{who} ended with exit code {status.exit_code}: {why or status.why}"
    lost = f"{who} did not report its end; its phase was {status.phase!r}"
    return f"{lost}: {why}" if why else lost
