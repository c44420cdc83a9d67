"""Why a server must end although its job goes on."""

from __future__ import annotations

from ascend_supervisor.errors import TableRefused, Unavailable


class Moved(Unavailable):
    """The rank table gives this server another place: it must be started anew."""


class Replaced(Unavailable):
    """The cluster wants another in the place of this server: the others wait for that."""


class LeftOut(TableRefused):
    """The rank table does not hold this server any more: the others go on without it."""
