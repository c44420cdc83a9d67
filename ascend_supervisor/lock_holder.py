"""The supervisor that holds the lock, as the lock file or its state file describes it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.files.untrusted_json import Misfit, NotJson, parse_json
from ascend_supervisor.processes import proc
from ascend_supervisor.reporters.state_file import Status
from ascend_supervisor.untrusted_text import plain

AFTER_GRACE_SECONDS = 30
"""How long a predecessor may take to end besides drain and grace: to kill, and to write."""
MOST_SECONDS = 86400
"""A day: a longer grace does not extend this wait."""
LOCK_BYTES = 4096
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


class Holder(Struct, frozen=True):
    """A supervisor, as its lock file describes it.

    ``realm`` names the PID namespace of ``pid`` and ``start_time`` (clock ticks), ``began`` is a
    time stamp for people, ``ends_within`` is how many seconds it may take to end.
    """

    pid: int
    start_time: int | None
    pod: str
    realm: str
    began: str
    ends_within: int

    @classmethod
    def ourselves(cls, pod: str, patience: float) -> Holder:
        """This process; ``patience`` is its drain or its grace, whichever is longer, in seconds."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        start_time = proc.start_time(os.getpid())
        ends_within = int(min(patience, MOST_SECONDS)) + AFTER_GRACE_SECONDS
        return cls(os.getpid(), start_time, pod, _realm(), now, ends_within)

    @property
    def is_here(self) -> bool:
        """Whether its pid is in our PID namespace."""
        return self.realm == _realm()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, though the kernel may have work left; false if it is not here.

        Its main thread never ends alone: another thread that is left is stuck in the kernel.
        """
        if not self.is_here:
            return False
        return proc.main_thread_has_ended(self.pid) or proc.start_time(self.pid) != self.start_time

    @property
    def description(self) -> str:
        """Its pid and its age."""
        if not self.is_here:
            name = f"process {self.pid} of {self.pod} in another container"
        else:
            name = f"process {self.pid}"
        if self.start_time is None or not self.is_here:
            return plain(f"{name}, started at {self.began}")
        return f"{name}, started {_age(self.start_time)} ago"


def described_in(lock: Path) -> Holder | None:
    """The holder as the lock file describes it; None if the file is empty or unreadable."""
    try:
        top = parse_json(read_regular_file(lock, LOCK_BYTES))
        return Holder(
            pid=top.integer("pid", 1),
            start_time=None if top.get("start_time") is None else top.integer("start_time"),
            pod=top.text("pod"),
            realm=top.text("realm"),
            began=top.text("began"),
            ends_within=top.integer("ends_within"),
        )
    except (OSError, NotJson, Misfit):
        return None


def described_by(status: Status) -> Holder:
    """The supervisor of a state file, which runs in our PID namespace."""
    return Holder(
        status.pid, status.start_time, status.pod, _realm(), "an unknown time", AFTER_GRACE_SECONDS
    )


@cache
def _realm() -> str:
    """A name of our PID namespace that is unique on all hosts."""
    with suppress(OSError):
        return f"{_BOOT_ID.read_text().strip()} {_PID_NAMESPACE.readlink()}"
    return ""


def _age(start_time: int) -> str:
    """The time since ``start_time`` (clock ticks since boot), for people."""
    seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - start_time / os.sysconf("SC_CLK_TCK")
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
