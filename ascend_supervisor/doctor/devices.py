"""The files of the NPUs and of their driver, against what the ranks are to use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ascend_supervisor.doctor.check import ThisServer, fit, unfit, warning
from ascend_supervisor.events.server import Result
from ascend_supervisor.events.words import counted, listed
from ascend_supervisor.untrusted_text import shown

SUBJECT = "devices"
OF_THE_DRIVER = ("davinci_manager", "devmm_svm", "hisi_hdc")
"""What a process opens besides its NPU, on Atlas A2 and A3."""
VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
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
    yield from _driver(server)
    yield from _visible(server, len(here))


def _driver(server: ThisServer) -> Iterator[Result]:
    missing = [name for name in OF_THE_DRIVER if not (server.roots.dev / name).exists()]
    if missing:
        yield warning(
            "devices of the driver",
            f"no {listed(missing)} in {server.roots.dev}",
            listed(OF_THE_DRIVER),
            "mount them into the container, as Ascend Docker Runtime does",
        )


def _visible(server: ThisServer, count: int) -> Iterator[Result]:
    """CANN counts the devices of a container from 0."""
    told = server.environ.get(VISIBLE, "")
    numbers = [word.strip() for word in told.split(",")]
    if told and all(word.isdecimal() for word in numbers):
        beyond = [word for word in numbers if int(word) >= count]
        if beyond:
            yield warning(
                VISIBLE,
                f"{shown(told)}, but {counted(count, 'NPU')} here",
                f"numbers from 0 to {count - 1}",
                f"correct the variable, or remove it: CANN finds no device {listed(beyond)}",
            )


def npus_of(server: ThisServer) -> list[int]:
    """The numbers of the NPUs that have a file; raises OSError."""
    names = (_NPU.fullmatch(path.name) for path in server.roots.dev.iterdir())
    return sorted(int(name[1]) for name in names if name)
