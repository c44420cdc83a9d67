"""Where to look for the cause of a lost peer: a rank, a device, a server; values only."""

from __future__ import annotations

from msgspec import Struct

ALL_RANKS = "the first error among the ranks of all servers"


class Suspect(Struct, frozen=True):
    """``ranks`` are numbers, as they were printed; a device is one of the server ``host``.

    Nothing given: all servers.
    """

    ranks: str = ""
    host: str = ""
    device: str = ""
    is_here: bool = False

    @property
    def rank(self) -> int | None:
        """The first of ``ranks``."""
        first = self.ranks.partition(",")[0]
        return int(first) if first else None

    def __str__(self) -> str:
        if self.device:
            return f"device {self.device} of server {self.host}"
        where = "this server" if self.is_here else self.host
        if self.ranks:
            return f"rank {self.ranks}, on {where}" if where else f"rank {self.ranks}"
        return f"the ranks on {where}" if where else ALL_RANKS

    @property
    def zh(self) -> str:
        """The same in Chinese, to follow the verb as it is: with a space before a Latin letter."""
        if self.device:
            return f"节点 {self.host} 的设备 {self.device}"
        where = f"节点 {self.host} " if self.host else ""
        where = "本节点" if self.is_here else where
        if self.ranks:
            return f"{where}上的 rank {self.ranks}" if where else f" rank {self.ranks}"
        return f"{where}上的 rank" if where else "所有节点上最先报错的 rank"
