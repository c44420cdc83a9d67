"""What servers that agree through etcd say of each other, with --peers."""

from __future__ import annotations

from itertools import zip_longest
from typing import ClassVar

from ascend_supervisor.events import Event, Level
from ascend_supervisor.phrases import counted, listed

MOST_TOLD = 10


class PeersJoined(Event, frozen=True):
    """Etcd answers, and this server takes part."""

    name: ClassVar[str] = "peers.joined"
    job: str
    server: int | None
    servers: int

    @property
    def sentence(self) -> str:
        if self.server is None:
            return f"this server takes part in the job {self.job}, which {self.servers} servers run"
        others = counted(self.servers - 1, "other server", "other servers")
        return f"this is server {self.server} of the job {self.job}, which agrees with {others}"


class PeersWaiting(Event, frozen=True):
    """The other servers that are not ready for the next generation yet, if any is known.

    The supervisors of those that are ``lost`` have not come, or not come back. ``hosts`` names the
    first MOST_TOLD of those that are ``missing`` to people, in the same order.
    """

    name: ClassVar[str] = "peers.waiting"
    missing: tuple[int, ...]
    lost: tuple[int, ...]
    hosts: tuple[str, ...]
    reason: str
    waited_seconds: float

    @property
    def what(self) -> str:
        """What is waited for, without the time."""
        if not self.missing:
            return f"waiting for the servers of the job: {self.reason}"
        lost = f"; no supervisor is there on {_servers(self.lost)}" if self.lost else ""
        more = f"; {known}" if (known := self.reason.partition(": ")[2]) else ""
        missing = _servers(self.missing, self.hosts)
        return f"waiting for {missing}, not ready for the next generation{lost}{more}"

    @property
    def sentence(self) -> str:
        return f"{self.what} ({self.waited_seconds:.0f} s so far)"


def _servers(indices: tuple[int, ...], hosts: tuple[str, ...] = ()) -> str:
    named = zip_longest(indices, hosts, fillvalue="")
    numbers = listed((f"{one} ({host})" if host else one for one, host in named), MOST_TOLD)
    return f"{'server' if len(indices) == 1 else 'servers'} {numbers}"


class PeersReplaced(Event, frozen=True):
    """A server that failed too often, or is unable, has left its place to a spare.

    That one starts with the others. ``left`` names the one that has left to people, ``by`` the
    other; ``reason`` is a clause.
    """

    name: ClassVar[str] = "peers.replaced"
    level: ClassVar[Level] = "warning"
    server: int
    left: str
    by: str
    reason: str

    @property
    def sentence(self) -> str:
        who = f"server {self.server} ({self.left})" if self.left else f"server {self.server}"
        return f"{who} has left, because it {self.reason}; in its place is {self.by or 'a spare'}"


class PeersDiffer(Event, frozen=True):
    """The servers are not alike in what should be the same; a clause for each such thing."""

    name: ClassVar[str] = "peers.differ"
    level: ClassVar[Level] = "warning"
    differences: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return f"the servers of the job are not alike: {'; '.join(self.differences)}"


class PeersUnreachable(Event, frozen=True):
    """Etcd does not answer; ``reason`` is a sentence. ``ranks_run``: there are ranks here."""

    name: ClassVar[str] = "peers.unreachable"
    level: ClassVar[Level] = "warning"
    reason: str
    ranks_run: bool

    @property
    def sentence(self) -> str:
        until = "the ranks run on until --peers-fence"
        return f"{self.reason}; {until if self.ranks_run else 'no rank starts until it answers'}"


class PeersReachable(Event, frozen=True):
    """Etcd answers again."""

    name: ClassVar[str] = "peers.reachable"

    @property
    def sentence(self) -> str:
        return "etcd answers again"
