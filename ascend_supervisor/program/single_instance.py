"""One supervisor per state file: a lock beside it, and the supervisor that holds it.

If the file system has no locks or does not answer, this is reported, and only a state file whose
supervisor is alive keeps a second one out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

import anyio
from msgspec import Struct

from ascend_supervisor.ctl.state import State, StateUnknown, read_state_file
from ascend_supervisor.errors import Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.files.regular_file import (
    NotRegular,
    close_quietly,
    read_regular_file,
    reason_of,
    refuse_to_replace,
)
from ascend_supervisor.files.reserved_descriptor import Reserve
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.files.untrusted_json import Misfit, NotJson, parse_json
from ascend_supervisor.files.watch import FileSystemTimeout, SlowFiles
from ascend_supervisor.job_files import HOST_NAME_BYTES
from ascend_supervisor.phrases import duration
from ascend_supervisor.processes import proc
from ascend_supervisor.reporters.status_document import Status
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first
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
    return duration(time.clock_gettime(time.CLOCK_BOOTTIME) - start_time / os.sysconf("SC_CLK_TCK"))


SUFFIX = ".lock"
ANSWER_SECONDS = 5.0
"""After this time without an answer, the job runs without the lock."""
LOOK_AGAIN_SECONDS = 0.1
HEALTHY_SECONDS = 3.0
"""A predecessor that was told to stop has updated its state file within this time."""
ENDING = frozenset({"stopping", "ended"})


class Free(Struct, frozen=True):
    """The place is ours; ``obstacle`` says why others are not kept out, if they are not."""

    obstacle: str | None = None


class Held(Struct, frozen=True):
    """Another supervisor has the place; ``holder`` is None if it is unknown."""

    holder: Holder | None
    is_ending: bool

    @property
    def patience(self) -> float:
        """How many seconds to wait for it."""
        return self.holder.ends_within if self.holder and self.is_ending else HEALTHY_SECONDS

    @property
    def description(self) -> str:
        return self.holder.description if self.holder else "a process that has not said its pid"


class SingleInstance:
    """The claim of ``ourselves`` to this state file."""

    def __init__(
        self,
        state_file: Path,
        ourselves: Holder,
        reserve: Reserve,
        clock: Clock,
        report: Report,
    ) -> None:
        self._state_file = state_file
        self._lock = state_file.with_name(state_file.name + SUFFIX)
        self._ourselves = ourselves
        self._reserve = reserve
        self._clock = clock
        self._report = report
        self._files = SlowFiles(ANSWER_SECONDS)
        self.is_taken_here = False
        """Whether it was refused because of a supervisor in this container."""

    async def claim(self, stopped: Callable[[], Awaitable[object]]) -> bool:
        """Whether the place is ours until this process ends; False if ``stopped`` returns first.

        Waits for a predecessor that is ending. Raises Unavailable if the place is taken.
        """
        with anyio.CancelScope(shield=True):  # it is bounded
            found = await self._look()

        async def wait() -> bool:
            await self._wait_for(found)
            return True

        async def stop() -> bool:
            await stopped()
            return False

        return await first(stop, wait) if isinstance(found, Held) else True

    async def _wait_for(self, found: Held | Free) -> None:
        began = self._clock.now()
        told = False
        while isinstance(found, Held):
            waited = self._clock.now() - began
            if waited >= found.patience:
                self.is_taken_here = found.holder is None or found.holder.is_here
                raise Unavailable(self._refusal(found, waited))
            if found.is_ending and not told:
                told = True
                self._tell(
                    f"another supervisor is ending: {found.description}; it is waited for, "
                    f"{found.patience:g} s at most"
                )
            await self._clock.sleep(LOOK_AGAIN_SECONDS)
            found = await self._look(found)

    def _refusal(self, found: Held, waited: float) -> str:
        ending = f", which is ending, but did not end within {waited:.0f} s" * found.is_ending
        return (
            f"another supervisor uses the state file {plain(str(self._state_file))}: "
            f"{found.description}{ending}; end it first, or start this one with another --log-dir "
            f"and another --state-file{self._of_a_cut_name(found.holder)}"
        )

    def _of_a_cut_name(self, holder: Holder | None) -> str:
        """What to do if two pods may have one name because Kubernetes has cut both."""
        pod = self._ourselves.pod
        is_alike = holder is not None and not holder.is_here and holder.pod == pod
        if not is_alike or len(pod) not in (HOST_NAME_BYTES - 1, HOST_NAME_BYTES):
            return ""
        return (
            f"; if that is another pod, HOSTNAME holds only the first {HOST_NAME_BYTES} "
            "characters of both names: set POD_NAME to the whole name (metadata.name)"
        )

    async def _look(self, before: Held | None = None) -> Held | Free:
        """The state of the lock; the one found ``before`` if the file system does not answer."""
        try:
            found = await self._files.ask(self._try)
        except FileSystemTimeout as timeout:
            found = before or Free(str(timeout))
        if isinstance(found, Free) and found.obstacle is not None:
            self._tell(
                f"{plain(str(self._lock))} cannot be locked: {found.obstacle}; a second supervisor "
                "with this state file may not be noticed"
            )
        return found

    def _tell(self, text: str) -> None:
        self._report(Diagnostic("the lock of the state file", text, None))

    def _try(self) -> Held | Free:
        """Take the lock unless another process has it; may block."""
        state = self._state()
        # It may be alive without the lock: the file was removed, or there are no locks.
        lives = state is not None and state.supervisor_lives and state.status.pid != os.getpid()
        try:
            if not lives and take_lock(self._lock, to_json(self._ourselves)):
                return Free()
        except OSError as error:
            return Free(reason_of(error))
        holder = described_in(self._lock)
        if state is not None and lives and not _is_of(state, holder):
            holder = described_by(state.status)
        return Held(holder, holder is not None and (holder.is_gone or _is_ending(state, holder)))

    def _state(self) -> State | None:
        """The state file, even if no other file can be opened."""
        found: list[State] = []
        with suppress(StateUnknown, OSError):
            self._reserve.ensure(lambda: found.append(_read(self._state_file)))
        return found[0] if found else None


def _read(state_file: Path) -> State:
    """Raises StateUnknown, or OSError at EMFILE and the like, and for a link: none is of ours."""
    refuse_to_replace(state_file)
    try:
        return read_state_file(state_file)
    except StateUnknown as unknown:
        if isinstance(unknown.__cause__, OSError) and scarcity(unknown.__cause__):
            raise unknown.__cause__ from None
        raise


def _is_of(state: State, holder: Holder | None) -> bool:
    named = (state.status.pid, state.status.start_time)
    return holder is not None and named == (holder.pid, holder.start_time)


def _is_ending(state: State | None, holder: Holder) -> bool:
    return state is not None and _is_of(state, holder) and state.status.phase in ENDING


LOCK_MODE = 0o600
"""No other user may open it: whoever can read it can lock it."""
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def take_lock(path: Path, content: bytes) -> bool:
    """Lock ``path``, make it hold ``content``, and keep it open; false if another process has it.

    The lock is flock(2)'s: it lasts until this process ends, and no child inherits it. Makes the
    directory. Raises OSError if locking is impossible, or if another user planted the file.
    """
    make_directories(path.parent)
    if not path.is_dir():  # which the kernel refuses
        refuse_to_replace(path)  # to open a device may do something
    descriptor = os.open(path, LOCK_FLAGS, LOCK_MODE)
    try:
        _refuse_planted(descriptor, path)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        close_quietly(descriptor)
        return False
    except OSError:
        close_quietly(descriptor)
        raise
    with suppress(OSError):  # on a full disk: it is the lock that counts
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)
    return True


def _refuse_planted(descriptor: int, path: Path) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise NotRegular(found.st_mode)
    if found.st_nlink > 1:
        raise OSError(errno.EMLINK, "it has another name, too", str(path))
    shared = path.parent.stat().st_mode & stat.S_IWOTH
    if shared and found.st_uid not in {os.geteuid(), 0}:
        raise PermissionError(errno.EPERM, "another user has put it there", str(path))
