"""The NPUs that this container has, against those of its entry in the rank table."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ascend_supervisor.doctor.rows import fit, unfit
from ascend_supervisor.doctor.server import ThisServer
from ascend_supervisor.events.server import Result
from ascend_supervisor.events.words import counted, listed

SUBJECT = "devices"
_NPU = re.compile(r"davinci([0-9]+)", re.ASCII)


def devices(server: ThisServer) -> Iterator[Result]:
    """Nothing on a machine without NPUs: its job needs none."""
    here = npus_of(server)
    if not here:
        return
    found = f"{counted(len(here), 'NPU')} in {server.roots.dev} ({listed(here)})"
    wanted = server.devices or ()
    if len(wanted) > len(here):
        yield unfit(
            SUBJECT,
            found,
            f"{len(wanted)}, as the rank table says ({listed(wanted)})",
            "give the container all of its NPUs, or start it elsewhere",
        )
    else:
        yield fit(SUBJECT, found)


def npus_of(server: ThisServer) -> list[int]:
    """The numbers of the NPUs that have a file; raises OSError."""
    names = (_NPU.fullmatch(path.name) for path in server.roots.dev.iterdir())
    return sorted(int(name[1]) for name in names if name)
