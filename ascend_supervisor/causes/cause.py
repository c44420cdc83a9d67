"""A row of the table of causes; values only."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from msgspec import Meta, Struct

Layer = Literal["user", "framework", "cann", "device", "host", "network", "cluster", "unknown"]
"""Who can act: the author of the script, its data and settings, of the framework, and so on.

``host`` is the server with its container, ``cluster`` another rank or what schedules them. What is
``unknown`` claims no cause: only the type of an exception is known, or only what failed and not
why, such as an operator on the NPU or a worker of a data loader.
"""

Where = Literal["exception", "output", "plog"]
"""An exception that has ended a rank; all that it has written; also CANN's own log of it."""

Id = Annotated[
    str, Meta(pattern=r"^(?:E[1-4EHIJKLZ][0-9]{4}|[1-57][0-9]{5}|[a-z][a-z0-9-]{2,39})$")
]
Clause = Annotated[str, Meta(min_length=4, max_length=200, pattern=r"^[^\n]*[^\n.。;；]$")]
"""Half a sentence: no capital letter where grammar needs none, and no full stop."""


class Blame(Enum):
    """Where the cause of a failure is."""

    OWN = "own"
    """In this rank: memory, an exception of the script, a device of this server."""
    CONSEQUENCE = "consequence"
    """Elsewhere: this rank lost its peers, or waited for them in vain."""
    UNKNOWN = "unknown"


class Sign(Struct, frozen=True, forbid_unknown_fields=True):
    """What a line looks like: its parts, in their order, with ``*`` for what stands between them.

    ``^`` is the beginning of a line. ``example`` is a line that shows it, ``unlike`` one that looks
    like it and is another thing. With a ``file`` it counts for an exception that was raised there.
    """

    seen: Annotated[str, Meta(min_length=5, max_length=200)]
    example: str
    unlike: str
    where: Where = "output"
    file: str = ""

    @property
    def is_type(self) -> bool:
        """Whether it is only the type of an exception, without a word of a message."""
        return " " not in self.seen.rstrip() and self.seen.endswith((": ", ".", "Error"))


class CauseRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of failure: what happened, what to do, and how it is recognized.

    CANN's codes are ids: who prints one needs no other ``signs``. ``leads_to`` are the ids of what
    follows from it. ``faults`` are its names in the diagnosis of MindCluster (ascend-fd). It
    ``is_bare`` if the script or a package may have done so: the file that raised it shows whose
    it is.
    """

    id: Id
    layer: Layer
    blame: Blame
    text: Clause
    text_zh: Clause
    remedy: Clause
    remedy_zh: Clause
    signs: tuple[Sign, ...] = ()
    leads_to: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    is_bare: bool = False
