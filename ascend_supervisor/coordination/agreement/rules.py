"""What this server was started with, and what all servers of its job have in common; values."""

from __future__ import annotations

from msgspec import Struct

from ascend_supervisor.cluster.made_table import ServerDevice
from ascend_supervisor.restart_policy import RestartBudget


class Self(Struct, frozen=True):
    """This process: ``incarnation`` is random and new in every process.

    ``place`` stays on this machine while its state file does. ``index`` is given by a rank table or
    by --node-rank; None: any free one. ``host`` names it to people.
    """

    incarnation: str
    place: str
    index: int | None = None
    addresses: tuple[str, ...] = ()
    devices: tuple[ServerDevice, ...] = ()
    host: str = ""


class Rules(Struct, frozen=True):
    """``servers`` is how many take part. All times are in seconds.

    ``ttl`` is the life of the lease of ``alive``. A server that had no contact for ``fence`` has no
    ranks any more: it kills them ``margin`` earlier. ``timeout`` bounds the wait for servers that
    are missing. ``settings`` is a digest of what must not differ between servers. ``budget`` is
    the restart budget before anything was spent. ``verdict`` is how long a failure waits for what a
    cluster says of it; 0: none is followed.
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

    @property
    def patience(self) -> float:
        """A server is cut off when its last contact is this old: it kills its ranks."""
        return self.fence - self.margin

    @property
    def longest_absence(self) -> float:
        """Who was absent for this long has no ranks, whatever has become of it."""
        return self.fence + self.ttl
