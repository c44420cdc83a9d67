"""How things stand on this server, beside what etcd says; values.

With what it was started, what all servers of its job have in common, the time, and chance.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from ascend_supervisor.cluster.made_table import ServerDevice
from ascend_supervisor.coordination.agreement.history import FailureLimit, FirstFailure
from ascend_supervisor.outcome import Ended, Fault, Reached
from ascend_supervisor.restart_policy import RestartBudget

VERSION = "ascend-supervisor="
"""How the one of the settings begins that is the version of this program."""


class Ranks(Enum):
    """What is known of our ranks; between a failure and ``NONE`` some of them may still run."""

    NONE = "none"
    """None was started, or all are gone, swept, and their devices released."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    """All have ended with 0."""
    FAILED = "failed"
    """There is a reason to end them (``Situation.verdict``); none of them got a signal yet."""
    ENDING = "ending"


class Obstacle(Struct, frozen=True):
    """Why this server cannot go on: something cannot be ended, no table came, a final fault."""

    exit_code: int
    reason: str


class Situation(Struct, frozen=True):
    """``generation`` is that of the ranks, None if none was ever started.

    ``verdict`` is why that generation ends here, ``reached`` how far its training has come; they
    stay until the next start. ``stop`` is the
    signal that told us to stop, or by which we do so ourselves. ``unable`` says why this server
    cannot do its part, in a sentence: it is not fit, or cannot start its ranks or end them, and
    none of them runs code or will; empty if it can. ``leftovers``: processes of an earlier life are
    left here, or have not been looked for yet. ``table`` is the digest of the
    rank table, None as long as there is none. ``cluster`` is what a cluster that is followed says
    at present of the ranks of the latest generation, None if nothing. ``retry_time`` is the
    RetryTime that its reset file shows here; ``confirmed`` one that belongs to the last restart,
    None if there is none.
    """

    ranks: Ranks = Ranks.NONE
    generation: int | None = None
    verdict: Ended | None = None
    reached: Reached = Reached()
    stop: int | None = None
    unable: str = ""
    leftovers: bool = False
    obstacle: Obstacle | None = None
    table: str | None = None
    cluster: Fault | None = None
    retry_time: int | None = None
    confirmed: int | None = None


class Clocks(Struct, frozen=True):
    """``now`` is in seconds of CLOCK_BOOTTIME, which goes on while the machine sleeps.

    ``word`` is random and was never used before: job ids and stamps are made of it. ``fraction`` is
    a random number in [0, 1). ``date`` is Unix time: by it failures are remembered for a day, and
    nothing else is decided.
    """

    now: float
    word: str
    fraction: float = 0.0
    date: float = 0.0


class Self(Struct, frozen=True):
    """This process: ``incarnation`` is random and new in every process.

    ``place`` stays on this machine while its state file does. ``index`` is given by a rank table or
    by --node-rank; None: any free one. ``host`` names it to people. ``machine`` is the same for all
    of its containers, empty if it is unknown; ``failures`` on it are those that were kept here.
    """

    incarnation: str
    place: str
    index: int | None = None
    addresses: tuple[str, ...] = ()
    devices: tuple[ServerDevice, ...] = ()
    host: str = ""
    machine: str = ""
    failures: tuple[FirstFailure, ...] = ()


class JobRules(Struct, frozen=True):
    """``servers`` is how many take part. All times are in seconds.

    ``ttl`` is the life of the lease of ``alive``. A server that had no contact for ``fence`` has no
    ranks any more: it kills them ``margin`` earlier. ``timeout`` bounds the wait for servers that
    are missing. ``settings`` is a digest of what must not differ between servers. ``budget`` is
    the restart budget before anything was spent. ``verdict`` is how long a failure waits for what a
    cluster says of it; 0: none is followed. The roster of more than ``group`` servers is kept in
    blocks of so many seats. ``leave_after`` is when a server leaves to a spare. Within ``soon`` a
    server that reaches etcd sees that it has lost its data, and puts back what it knows.
    """

    own: Self
    servers: int
    budget: RestartBudget
    settings: str = ""
    ttl: float = 10.0
    fence: float = 30.0
    timeout: float = 600.0
    margin: float = 5.0
    verdict: float = 0.0
    group: int = 64
    leave_after: FailureLimit = FailureLimit()
    soon: float = 2.0

    @property
    def patience(self) -> float:
        """A server is cut off when its last contact is this old: it kills its ranks."""
        return self.fence - self.margin

    @property
    def longest_absence(self) -> float:
        """Who was absent for this long has no ranks, whatever has become of it."""
        return self.fence + self.ttl
