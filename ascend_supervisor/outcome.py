"""How a process ended, and how a generation ended; values only."""

from __future__ import annotations

from enum import Enum
from signal import Signals
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import Diagnosis

SIGNAL_BASE = 128
"""Added to a signal's number to make an exit code of it, as shells do."""
MOST_GENERATIONS = 10**9
"""No job has more: a record of etcd that names a later one is damaged."""

MOST_STATUS = 255
StatusNumber = Annotated[int, Meta(ge=0, le=MOST_STATUS)]
"""Of a process, as the kernel keeps it."""
Number = Annotated[int, Meta(ge=0, le=MOST_GENERATIONS)]
"""Of a rank, a generation, a server, or how many there are."""
Seconds = Annotated[float, Meta(ge=-1e10, le=1e10)]
"""Up to 300 years."""

SAME_STOP_SECONDS = 2.0
"""A SIGTERM may reach the ranks this long before it reaches us."""
MOST_SENT = 40
"""How many of a failure's last lines are told to other servers."""


class ExitStatus(Struct, frozen=True):
    """How a child ended: with a status of its own (0-255) or by a signal, never both."""

    status: StatusNumber | None
    signal: Annotated[int, Meta(ge=1, le=64)] | None = None

    @classmethod
    def of(cls, returncode: int) -> ExitStatus:
        """The status for a return code like that of subprocess.Popen."""
        return cls(None, -returncode) if returncode < 0 else cls(returncode)

    @property
    def ok(self) -> bool:
        return self.status == 0

    @property
    def exit_code(self) -> int:
        """The status, or 128 + the signal's number."""
        return SIGNAL_BASE + self.signal if self.signal is not None else (self.status or 0)

    @property
    def signal_name(self) -> str | None:
        return None if self.signal is None else signal_name(self.signal)

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was killed by {signal_name(self.signal)}"
        return f"exited with status {self.status}"


class Worker(Struct, frozen=True):
    """A rank that a command has started, and how it ended, in the words of its launcher."""

    rank: Number
    status: ExitStatus

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended it that neither its launcher nor a lost rank brings about."""
        return self.status.signal not in {None, Signals.SIGINT, Signals.SIGABRT, Signals.SIGTERM}

    def __str__(self) -> str:
        return f"rank {self.rank} {self.status}"


class Failure(Struct, frozen=True):
    """The first process of a generation that failed: the root cause, as far as is known.

    ``exception`` is what it raised, ``reason`` why its framework ended it. ``code`` is CANN's error
    code. ``meaning`` says what its words mean and where to look, ``advice`` what to start in its
    place; ``said`` is the line in which it says itself why it ended. ``ended_at`` is in seconds of
    the clock. ``oom_kills`` is the OOM counter of our memory cgroup at the start of the generation
    and at the failure, if it rose though the process itself was not killed, or perhaps not (then
    ``oom_killed`` is None): others were, such as its children. ``memory`` says where there was no
    room, who had it, and what to do. ``alike`` says how many ranks failed in the same way.
    ``worker`` failed first of those that a command has started. It ``is_shared`` if several ranks
    wrote the ``last_lines``, ``is_alone`` if the job has no other rank. ``diagnosis`` is the cause,
    if the table of causes knows it.
    """

    name: str
    rank: Number | None
    generation: Number
    status: ExitStatus
    runtime_seconds: Seconds
    ended_at: Seconds = 0.0
    oom_killed: bool | None = None
    oom_kills: tuple[Number, Number] | None = None
    memory: str | None = None
    log: str = ""
    exception: str | None = None
    last_lines: tuple[str, ...] = ()
    reason: str | None = None
    code: str | None = None
    meaning: str | None = None
    advice: str | None = None
    said: str | None = None
    alike: str = ""
    worker: Worker | None = None
    is_shared: bool = False
    is_alone: bool = False
    diagnosis: Diagnosis | None = None

    @property
    def explainable_until(self) -> float | None:
        """Until when a SIGTERM to us explains it, in seconds of the clock; None: never.

        It explains a death by SIGTERM, also as a shell reports it (143), unless a framework says
        that it ended the process itself.
        """
        by_sigterm = self.status.exit_code == SIGNAL_BASE + Signals.SIGTERM
        return self.ended_at + SAME_STOP_SECONDS if by_sigterm and not self.reason else None

    @property
    def to_be_sent(self) -> Failure:
        """Without the lines that were only searched."""
        return replace(self, last_lines=self.last_lines[-MOST_SENT:])


class Completed(Struct, frozen=True):
    """Every significant process ended with 0; ``who`` names them for people."""

    who: str = "every rank"


class NotStarted(Struct, frozen=True):
    """A process could not be started, and starting it again would fail the same way.

    ``is_of_server``: here; another server may be able to.
    """

    exit_code: int
    reason: str
    is_of_server: bool = False


class Crashed(Struct, frozen=True):
    """A process of this server failed."""

    failure: Failure


class Remedy(Enum):
    """What a fault costs."""

    CHARGED = "charged"
    """A restart, charged to the budget."""
    FREE = "free"
    """A restart that is not charged, because it was requested from outside."""
    FINAL = "final"
    """No restart would help."""


class Patience(Struct, frozen=True):
    """Seconds: ``drain`` from the first failure to TERM, ``grace`` from TERM to KILL.

    ``kill`` bounds the wait for killed processes: a process inside a driver call does not end
    before the call returns. The ranks that are ``hurried`` are killed ``hurried_grace`` after TERM.
    """

    drain: float
    grace: float
    kill: float = 30.0
    hurried: frozenset[int] = frozenset()
    hurried_grace: float = 0.0


class Fault(Struct, frozen=True):
    """A reason to end a generation other than the death of a process here.

    ``exit_code`` applies if this generation is the last. ``patience`` None means the job's grace
    and no drain. ``last_look``: inspect the ranks before they are told to stop. ``cause`` is the
    first failure, if another server has reported it. ``by_cluster``: the cluster asks for it.
    ``is_of_server``: no rank had begun to fail; this server lacked what it takes to start them.
    """

    reason: str
    exit_code: int
    remedy: Remedy = Remedy.CHARGED
    patience: Patience | None = None
    last_look: bool = False
    cause: Failure | None = None
    by_cluster: bool = False
    is_of_server: bool = False


class Requester(Struct, frozen=True):
    """The process that has asked for something, and its user, as the kernel knows them.

    ``pid`` is 0 for a process outside our PID namespace; ``user`` is empty if that name is unknown.
    """

    pid: int
    uid: int
    user: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} of user {self.user or self.uid}"


class StopSignal(Struct, frozen=True):
    """The first signal that told us to stop, and when it came, in seconds of the clock.

    An operator's request to stop is a SIGTERM ``by`` somebody.
    """

    number: int
    at: float
    by: Requester | None = None

    def explains(self, failure: Failure) -> bool:
        """Whether the failure is a consequence of the same request to stop."""
        until = failure.explainable_until
        return self.number == Signals.SIGTERM and until is not None and self.at <= until


class Interrupted(Struct, frozen=True):
    """We were told to stop by a signal; a failure may have come before it."""

    stop: StopSignal
    failure: Failure | None = None


Outcome = Completed | NotStarted | Crashed | Fault | Interrupted


class LastSeen(Struct, frozen=True):
    """The last step that was seen, as the ranks told it: ``step`` of ``steps``, in ``epoch``."""

    step: int
    steps: int
    epoch: int | None = None

    def __str__(self) -> str:
        epoch = "" if self.epoch is None else f" in epoch {self.epoch}"
        return f"{self.step:,} of {self.steps:,}{epoch}"


class Reached(Struct, frozen=True):
    """How far the training of a generation came: its last ``step``, None if none was seen.

    ``best`` is the best step of the generations before it, ``lost`` how many steps are in no
    checkpoint; None is unknown. ``is_stuck``: it came no further than those before it. ``short`` is
    that last step, if more were to come, as far as the ranks of this server have told.
    """

    step: int | None = None
    best: int | None = None
    lost: int | None = None
    is_stuck: bool = False
    short: LastSeen | None = None


class Ended(Struct, frozen=True):
    """A generation whose processes have all ended.

    ``uptime`` is in seconds, from its start to its first reason to end. ``faults`` came while it
    was being ended; ``left`` describes the processes that even SIGKILL did not end, which wait in
    the kernel and run no more if they ``are_stuck``. ``success``: whatever the outcome is, all
    ranks here had ended with 0 before they were told to stop.
    ``unheeded`` says which of their outputs holds a failure, although all have ended with 0.
    ``drain`` is in seconds, too: from that reason until the ranks were told to stop; ``grace`` from
    then until nothing was left.
    """

    outcome: Outcome
    uptime: float
    faults: tuple[Fault, ...] = ()
    left: tuple[str, ...] = ()
    are_stuck: bool = False
    success: Completed | None = None
    reached: Reached = Reached()
    unheeded: str = ""
    drain: Seconds = 0.0
    grace: Seconds = 0.0

    @property
    def of_all_ranks(self) -> Ended:
        """The same end, if all ranks of the job are here: then their success outranks a fault."""
        if self.success is None or not isinstance(self.outcome, Fault):
            return self
        return replace(self, outcome=self.success, faults=())

    @property
    def decisive(self) -> Outcome:
        """What decides what follows: the outcome, unless a later fault outranks it.

        A final fault outranks a free one, and that outranks a failure here, which would be
        charged. Nothing outranks the success of all ranks or a signal to us.
        """
        return max((self.outcome, *self.faults), key=_weight)


def _weight(outcome: Outcome) -> int:
    match outcome:
        case Fault(remedy=Remedy.FINAL):
            return 2
        case Fault(remedy=Remedy.FREE):
            return 1
        case Crashed() | Fault():
            return 0
        case Completed() | NotStarted() | Interrupted():
            return 3


def signal_name(number: int) -> str:
    """The signal's name, such as SIGTERM; "signal 40" for the real-time ones without a name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
