"""Whether ranks that are run by Python find CANN, as its set_env.sh lets them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ascend_supervisor.doctor.check import ThisServer, fit, warning
from ascend_supervisor.doctor.devices import npus_of
from ascend_supervisor.events.server import Result
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.untrusted_text import plain, shown

SUBJECT = "environment of CANN"
LIBRARY = "libascendcl.so"
HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
CACHE_BYTES = 16 * 1024 * 1024
REMEDY = (
    "give --env-from with CANN's set_env.sh, such as /usr/local/Ascend/ascend-toolkit/set_env.sh"
)


def cann_environment(server: ThisServer) -> Iterator[Result]:
    """Nothing on a machine without NPUs, or for a command that may source set_env.sh itself."""
    if not npus_of(server) or server.python is None:
        return
    for name in HOMES:
        home = server.environ.get(name)
        if home and not Path(home).is_dir():
            found = f"{name}={shown(home)}, which is no directory here"
            yield warning(SUBJECT, found, "the directory of CANN", REMEDY)
            return
    place = _place_of_library(server)
    if place is None:
        found = f"no {LIBRARY} in LD_LIBRARY_PATH, nor in the linker's cache"
        yield warning(SUBJECT, found, "the libraries of CANN", REMEDY)
    else:
        yield fit(SUBJECT, f"{LIBRARY} in {plain(place)}")


def _place_of_library(server: ThisServer) -> str | None:
    for folder in server.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and os.path.exists(f"{folder}/{LIBRARY}"):  # noqa: PTH110  (never raises)
            return folder
    try:
        cache = read_regular_file(server.roots.linker_cache, CACHE_BYTES)
    except OSError:
        return None
    return "the linker's cache" if LIBRARY.encode() in cache else None
