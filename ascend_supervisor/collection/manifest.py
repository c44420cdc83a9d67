"""What an archive holds, from where, and what was left out and why; values."""

from __future__ import annotations

from msgspec import Struct

MANIFEST_NAME = "MANIFEST.json"
NOT_MASKED = (
    "What ranks, CANN and other programs have written is here as it was: it may hold secrets. "
    "Environments and command lines that were read for this archive are masked by their names and "
    "forms; look through them, too, before you give the archive away."
)


class Taken(Struct, frozen=True):
    """A member ``name``; of a file that was cut, its last ``bytes`` are there.

    ``bytes_before`` is what was left out before them. ``bytes_missing`` could not be read any more
    (the file shrank, or its disk did not answer): so many zeros are at the end.
    """

    name: str
    source: str
    bytes: int
    bytes_before: int = 0
    bytes_missing: int = 0
    note: str | None = None


class NotTaken(Struct, frozen=True):
    """What is not there: a path, a program or a subject; ``why`` is a sentence."""

    source: str
    why: str


class OtherServer(Struct, frozen=True):
    """Another server of the job, and the ``command`` that makes its archive there."""

    name: str
    command: str


class Manifest(Struct, frozen=True):
    """The last member of the archive. ``made_at`` is RFC 3339, UTC; sizes are in bytes.

    ``size_limit`` is that of --size, ``bytes`` what was taken, both before compression. ``servers``
    are the others of the job that are known here.
    """

    made_at: str
    made_by: str
    host: str
    user: int
    job_id: str | None
    pod: str | None
    size_limit: int
    bytes: int
    secrets: str
    taken: tuple[Taken, ...]
    left_out: tuple[NotTaken, ...]
    servers: tuple[OtherServer, ...]
    format: int = 1
