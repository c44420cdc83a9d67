"""Who holds an NPU: a generation waits until nobody does, so only who asks is told here."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_supervisor.doctor.check import ThisServer, fit, warning
from ascend_supervisor.doctor.devices import npus_of
from ascend_supervisor.events.server import Result
from ascend_supervisor.events.words import counted, listed
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import holds_file
from ascend_supervisor.settings.user_variables import OWNER

SUBJECT = "held devices"


def held_devices(server: ThisServer) -> Iterator[Result]:
    """Ranks of a supervisor may; of others, each is described."""
    paths = frozenset(str(server.roots.dev / f"davinci{number}") for number in npus_of(server))
    if not paths:
        return
    holders = [pid for pid in proc.pids() if holds_file(pid, paths)]
    ours = proc.started_with(OWNER.encode(), holders)
    others = [proc.description(pid) for pid in holders if pid not in ours]
    if others:
        yield warning(
            SUBJECT,
            f"held by {listed(others, 4)}",
            "no process that is none of a supervisor",
            "end these processes; in state D only a reset of the NPU does",
        )
    elif ours:
        number = counted(len(ours), "process", "processes")
        yield fit(SUBJECT, f"held by {number} of a supervisor")
    else:
        yield fit(SUBJECT, "held by nobody")
