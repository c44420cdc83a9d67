"""Versions: of Python and its packages, of CANN, its driver and firmware, as files tell them.

Nothing is imported: torch_npu takes seconds, and may hang where the driver does.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path

from ascend_supervisor import __version__
from ascend_supervisor.collection.archive import Collector, member_name
from ascend_supervisor.collection.disks import Disks
from ascend_supervisor.collection.machine import PROGRAM_SECONDS
from ascend_supervisor.processes.program_output import output_of
from ascend_supervisor.untrusted_text import printable

MOST_BYTES = 1024 * 1024
MOST_FILES = 100
ASCEND = Path("/usr/local/Ascend")
PATTERNS = (
    "driver/version.info",
    "firmware/version.info",
    "version.cfg",
    "version.info",
    "ascend_*_install.info",
    "*/ascend_*_install.info",
    "*/version.cfg",
    "*/version.info",
    "*/*/version.cfg",
    "*/*/ascend_*_install.info",
    "*/*/*/ascend_*_install.info",
)
"""Below the directory of CANN; ``latest`` is a link in it, and its files are there anyway."""
OTHER_FILES = ("/etc/ascend_install.info", "/etc/os-release", "/etc/hccn.conf")
HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
PACKAGES = """
import importlib.metadata, sys
print("Python", sys.version.replace(chr(10), " "), sys.executable)
found = {(one.metadata["Name"], one.version) for one in importlib.metadata.distributions()}
for name, version in sorted(found, key=str): print(name, version)
"""
DISKS = Disks()
"""Those of the machine: its files belong to anybody."""
OF_AN_INTERPRETER = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "LANG", "VIRTUAL_ENV")


def add_versions(
    collector: Collector, ranks: Mapping[str, str], python: str, ascend: Path = ASCEND
) -> None:
    """Take all of them; ``ranks`` is the environment of a rank, ``python`` what it is run by."""
    own = f"ascend_supervisor {__version__}\nPython {sys.version} {sys.executable}\n"
    text = own + "".join(f"{line}\n" for line in _own_packages())
    collector.add_text("versions/ascend-supervisorctl.txt", sys.executable, text.encode())
    _add_packages(collector, ranks, python)
    places = [ascend, *(Path(ranks[name]) for name in HOMES if ranks.get(name))]
    for path in [*_files(collector, places), *map(Path, OTHER_FILES)]:
        _add_file(collector, path)


def _own_packages() -> list[str]:
    found = {f"{one.metadata['Name']} {one.version}" for one in metadata.distributions()}
    return sorted(map(printable, found))


def _add_packages(collector: Collector, ranks: Mapping[str, str], python: str) -> None:
    """Of the interpreter of the ranks, which has torch_npu and MindSpore, if we have another."""
    program = shutil.which(python, path=ranks.get("PATH"))
    if program is None:
        collector.leave_out(f"the packages of {python}", "there is no such program")
        return
    if program == sys.executable and "PYTHONPATH" not in ranks:
        return
    environ = {name: ranks[name] for name in OF_AN_INTERPRETER if name in ranks}
    said = output_of((program, "-c", PACKAGES), PROGRAM_SECONDS, MOST_BYTES, environ, "/")
    if said.trouble:
        reason = said.first_line
        collector.leave_out(f"the packages of {program}", f"{said.trouble}: {reason}")
    else:
        collector.add_text("versions/python.txt", program, said.text)


def _files(collector: Collector, places: Iterable[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for place in places:
        try:
            found |= DISKS.ask(place, partial(_matching, place))
        except OSError as error:
            collector.leave_out(str(place), error.strerror or str(error))
    if not found:
        collector.leave_out(
            "the versions of CANN", f"no file tells them in {', '.join(map(str, places))}"
        )
    return list(found)[:MOST_FILES]


def _matching(place: Path) -> dict[Path, None]:
    """The files, each once, without the links on the way to them."""
    found = (path for pattern in PATTERNS for path in sorted(place.glob(pattern)))
    return dict.fromkeys(path.resolve() for path in found if path.is_file())


def _add_file(collector: Collector, path: Path) -> None:
    """``versions/usr/local/Ascend/driver/version.info``: where it was is part of what it says."""
    if path.exists():
        name = member_name("versions", *path.parts[1:])
        collector.add_file(name, path.resolve(), MOST_BYTES, DISKS)
