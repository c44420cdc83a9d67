"""The failures that were first in their generation and were on this machine, kept beside the state.

For a supervisor that starts again here when the records of the job are gone from etcd. Nothing in
the file is trusted: what is no failure of this machine within the last day is ignored.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from ascend_supervisor.coordination.agreement.history import MOST_KEPT, FirstFailure, is_recent
from ascend_supervisor.coordination.agreement.records import About
from ascend_supervisor.files.regular_file import read_regular_file, write_atomically

SUFFIX = ".failures"
MODE = 0o600
MOST_BYTES = 64 * 1024

_Failures = tuple[FirstFailure, ...]


def kept_failures(state_file: Path, machine: str, now: float) -> _Failures:
    """Those that are kept, the latest last; none if the file cannot be read. It may block."""
    with suppress(OSError, msgspec.MsgspecError, RecursionError):
        found = read_regular_file(_beside(state_file), MOST_BYTES)
        known = msgspec.json.decode(found, type=_Failures)
        return tuple(one for one in known if one.machine == machine and is_recent(one, now))
    return ()


def keep_failure(state_file: Path, machine: str, failure: FirstFailure, now: float) -> None:
    """Keep this one, too, if there is room on the disk; it may block."""
    known = kept_failures(state_file, machine, now)
    if failure not in known:
        data = msgspec.json.encode((*known, failure)[-MOST_KEPT:])
        with suppress(OSError):
            write_atomically(_beside(state_file), data, MODE)


def failure_on(machine: str, about: About | None) -> FirstFailure | None:
    """That for which the job gathers, if it was on this machine."""
    first = about.cause.first if about is not None and about.cause is not None else None
    return first if first is not None and first.machine == machine else None


def _beside(state_file: Path) -> Path:
    return state_file.with_name(state_file.name + SUFFIX)
