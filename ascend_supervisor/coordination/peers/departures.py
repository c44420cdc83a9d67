"""Why a server must end although its job goes on."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.rules import Rules
from ascend_supervisor.errors import TableRefused, Unavailable


class Moved(Unavailable):
    """The rank table gives this server another place: it must be started anew."""


class Replaced(Unavailable):
    """The cluster wants another in the place of this server: the others wait for that."""


class LeftOut(TableRefused):
    """The rank table does not hold this server any more: the others go on without it."""


def moved_to(rules: Rules, index: int, servers: int, *, may_move: bool) -> Rules:
    """The rules of a server at this place among so many, which a later rank table gives it.

    ``may_move``: that it was at another place is no fault. Else raises Moved.
    """
    if (index, servers) == (rules.own.index, rules.servers):
        return rules
    if may_move:
        return replace(rules, servers=servers, own=replace(rules.own, index=index))
    raise Moved(
        f"the rank table has changed: this was server {rules.own.index} of {rules.servers}, and is "
        f"now server {index} of {servers}; a server that was moved must be started anew"
    )
