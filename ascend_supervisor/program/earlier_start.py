"""How the start before this one ended, by the state file that it left; nothing in it is trusted.

A platform that runs the boot command again in the same container shows only its last end.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.ctl.state import State, StateUnknown, read_state_file
from ascend_supervisor.job_files import UNNAMED_JOB, Place, StartCount
from ascend_supervisor.output.terminal_escapes import harmless_text
from ascend_supervisor.reporters.state_file import Status
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import ANSWER_SECONDS, Call
from ascend_supervisor.untrusted_text import clipped, printable

CAUSE_CHARACTERS = 3000
SENTENCE_CHARACTERS = 400


class EarlierEnd(Struct, frozen=True):
    """``sentence`` says how it ended; ``root_cause`` is None if it is unknown."""

    sentence: str
    root_cause: str | None = None


def earlier_end(place: Place) -> EarlierEnd | None:
    """How the previous start of this job ended here; None if it succeeded, or left no word.

    The file system has ANSWER_SECONDS to answer. Jobs without a name of their own are not told
    apart, so nothing is said about them.
    """
    if place.job_id == UNNAMED_JOB:
        return None
    with suppress(NoThread):  # whoever needs one says so
        state = Call(partial(_state_in, Path(place.state_file))).within(ANSWER_SECONDS, None)
        return None if state is None else _end(state, place)
    return None


def _state_in(path: Path) -> State | None:
    """The state file, if it is ours or root's; another user may have planted it."""
    with suppress(OSError, StateUnknown):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_uid in {os.geteuid(), 0}:
            return read_state_file(path)
    return None


def _end(state: State, place: Place) -> EarlierEnd | None:
    status = state.status
    is_of_this_job = (status.job_id, status.pod) == (place.job_id, place.pod)
    if not is_of_this_job or not state.is_final or status.exit_code == 0:
        return None
    cause = clipped(harmless_text(status.root_cause or ""), CAUSE_CHARACTERS) or None
    return EarlierEnd(clipped(printable(_sentence(status, cause)), SENTENCE_CHARACTERS), cause)


def _sentence(status: Status, cause: str | None) -> str:
    label = StartCount(status.schedule_count, status.start_count).label
    who = f"the previous start here{f' ({label})' if label else ''}"
    why = (cause or "").partition("\n")[0]
    if status.phase == "ended":
        return f"{who} ended with exit code {status.exit_code}: {why or status.why}"
    lost = f"{who} did not report its end; its phase was {status.phase!r}"
    return f"{lost}: {why}" if why else lost
