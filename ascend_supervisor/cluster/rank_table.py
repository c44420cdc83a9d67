"""Which ranks run where: the rank table, whatever format it came in; values."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.events.rank_table import NO_FILE


class Format(Enum):
    """How a table is laid out, told by its structure: ``version`` alone is not to be trusted."""

    TEMPLATE_1 = "template 1"
    TEMPLATE_2 = "template 2"
    SUPER_POD = "1.2"
    A5 = "2.0"
    LAB = "lab group_list"
    DECLARED = NO_FILE


class Device(Struct, frozen=True):
    rank: int
    device_id: int
    device_ip: str | None


class Entry(Struct, frozen=True):
    """What one supervisor supervises: a pod of template 2, a server of the other formats.

    The local index of a device is its position in ``devices``.
    """

    devices: tuple[Device, ...]
    server_id: str | None = None
    pod_name: str | None = None
    host_ip: str | None = None
    container_ip: str | None = None
    pod_ip: str | None = None
    server_ip: str | None = None

    @property
    def label(self) -> str:
        """Its most informative name, for people."""
        return self.pod_name or self.server_id or "an entry without a name"


class RankTable(Struct, frozen=True):
    """A table that is completed and right.

    ``entries`` are in rank order, those without devices last; the position is the node rank.
    ``servers`` counts the distinct servers that hold devices (2.0 names none: the entries).
    ``document`` is what the ranks get: the group_list formats converted to template 1, the other
    formats as the bytes that were parsed. Empty if the ranks get no file.
    ``warnings`` are sentences about what some HCCL refuses. ``essence`` is a digest of what the
    ranks depend on, and ``placement`` is one of what ranks that run depend on (see there); empty
    if that is not known, as of a table that came from no file. ``is_made``: the servers have made
    it, and the ``host_ip`` of each, which may be a name, is where it says that the others reach it.
    """

    format: Format
    entries: tuple[Entry, ...]
    world_size: int
    servers: int
    document: bytes
    warnings: tuple[str, ...] = ()
    essence: str = ""
    placement: str = ""
    is_made: bool = False

    @property
    def file_for_ranks(self) -> bytes | None:
        """The content of the ranks' own file; None if they get no file."""
        return self.document if self.document and self.world_size else None

    def holds_all(self, entry: Entry) -> bool:
        """Whether no other entry has a part in the job."""
        if not self.world_size:
            return len(self.entries) == 1
        return len(entry.devices) == self.world_size


PODS = "see whether the cluster has placed all pods"


class NotReady(Struct, frozen=True):
    """The table is still being written.

    ``reason`` continues a sentence after "not ready: ", and ``details`` continue the reason; if
    only they change, that is no news. ``lasting`` is what to say instead once nothing has changed
    for a while. ``advice`` is what to do if the table is never completed. ``is_said``: the table
    itself says so, in whole; else the file may be missing or half written.
    """

    reason: str
    details: str = ""
    lasting: NotReady | None = None
    advice: str = PODS
    is_said: bool = False

    @property
    def text(self) -> str:
        return self.reason + self.details


class FoundTable(Struct, frozen=True):
    """A table, and where it was found; ``sha256`` is of the file's content."""

    path: Path
    table: RankTable
    sha256: str

    @property
    def essence(self) -> str:
        """The same for two tables if they are the same to the ranks, however they are written."""
        return self.table.essence or self.sha256

    @property
    def placement(self) -> str:
        """The same for two tables if they are the same to ranks that run."""
        return self.table.placement or self.sha256
