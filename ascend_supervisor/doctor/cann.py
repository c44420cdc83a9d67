"""Driver, firmware, CANN and the packages of ranks: whether they go together and are found.

``version.info`` of the driver says which firmware it goes with (``compatible_version_fw``, closed
intervals), and that of a package of CANN which other packages (``required_package_X_version``).

The interpreter of the ranks is asked which packages are installed for it; nothing is imported.
torch_npu has the version of the torch that it was built for. MindSpore lists the versions of CANN
that it goes with in ``run_check/_check_version.py``, and warns of others itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.doctor.check import (
    Ask,
    ThisServer,
    fit,
    found_program,
    unknown,
    warning,
    why_not,
)
from ascend_supervisor.doctor.npus import npus_of
from ascend_supervisor.events.server import Result
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import plain, printable, shown

MOST_CHARACTERS = 400
MOST_BYTES = 64 * 1024
MOST_PACKAGES = 200
Info = Mapping[str, str]
Release = tuple[int, ...]
_INTERVAL = re.compile(r"\[([0-9][0-9.]*),([0-9][0-9.]*)\]")
_BOUND = re.compile(r"(>=|<=|)\s*([0-9][0-9.]*)")
_REQUIRED = re.compile(r"required_package_(\w+)_version")


def versions(server: ThisServer) -> Iterator[Result]:
    """Nothing on a machine without NPUs."""
    if not npus_of(server):
        return
    found = installed(server)
    told = ", ".join(f"{name} {one}" for name, one in found.versions.items())
    faults = [*_of_firmware(found.driver, found.firmware), *_between(found.packages)]
    yield from faults
    if told and not faults:
        yield fit("versions", told)


class Installed(Struct, frozen=True):
    """What the files of driver, firmware and each package of CANN say of themselves."""

    driver: Info
    firmware: Info
    packages: Mapping[str, Info]

    @property
    def versions(self) -> dict[str, str]:
        """By name; what is not installed has none."""
        of_cann = (info["Version"] for info in self.packages.values() if "Version" in info)
        known = {
            "driver": self.driver.get("package_version") or self.driver.get("Version"),
            "firmware": self.firmware.get("Version"),
            "CANN": next(of_cann, None),
        }
        return {name: version for name, version in known.items() if version}


def installed(server: ThisServer) -> Installed:
    ascend = server.roots.ascend
    driver, firmware = (
        read_info(ascend / name / "version.info") for name in ("driver", "firmware")
    )
    return Installed(driver, firmware, packages_of_cann(server))


def read_info(path: Path) -> Info:
    """Its lines NAME=VALUE; none if it cannot be read."""
    with suppress(OSError):
        text = read_regular_file(path, MOST_BYTES).decode(errors="replace")
        lines = (printable(line, MOST_CHARACTERS) for line in text.splitlines() if "=" in line)
        pairs = (line.partition("=") for line in lines)
        return {name.strip(): value.strip().strip('"') for name, _, value in pairs}
    return {}


def home_of_cann(server: ThisServer) -> Path:
    """Where the environment of the ranks says that it is, else where its installer puts it."""
    environ = server.environ
    named = environ.get("ASCEND_HOME_PATH") or environ.get("ASCEND_TOOLKIT_HOME")
    return Path(named) if named else server.roots.ascend / "ascend-toolkit" / "latest"


def packages_of_cann(server: ThisServer) -> Mapping[str, Info]:
    """By their names, those of 8.5 and newer in share/info; ``compiler`` and ``runtime`` first."""
    home = home_of_cann(server)
    places = (*home.glob("*/version.info"), *home.glob("share/info/*/version.info"))
    found = {path.parent.name: read_info(path) for path in islice(places, MOST_PACKAGES)}
    first = [name for name in ("compiler", "runtime") if name in found]
    return {name: found[name] for name in dict.fromkeys([*first, *found])}


def _of_firmware(driver: Info, firmware: Info) -> Iterator[Result]:
    number = _number(firmware.get("Version", ""))
    intervals = _INTERVAL.findall(driver.get("compatible_version_fw", ""))
    if number and intervals and not any(_is_in(number, *map(_number, one)) for one in intervals):
        yield warning(
            "versions",
            f"firmware {firmware['Version']} beside driver {driver.get('package_version', '?')}",
            "firmware " + " or ".join(f"{low} to {high}" for low, high in intervals),
            "install firmware and driver of one release",
        )


def _between(packages: Mapping[str, Info]) -> Iterator[Result]:
    """The first package of CANN that another one does not go with: the others follow from it."""
    for name, info in packages.items():
        for key, wanted in info.items():
            required = _REQUIRED.fullmatch(key)
            other = packages.get(required[1], {}).get("Version", "") if required else ""
            if required and _number(other) and not _meets(_number(other), wanted):
                yield warning(
                    "versions",
                    f"CANN's {required[1]} {other} beside its {name} {info.get('Version', '?')}",
                    f"{required[1]} {wanted}",
                    "install the packages of CANN (toolkit, kernels, nnal) of one release",
                )
                return


def _meets(number: Release, wanted: str) -> bool:
    """Bounds with commas between: ``>=7.6, <=8.3``; ``7.8`` is each 7.8.x."""
    bounds = _BOUND.findall(wanted)
    return all(_meets_one(number, sign, _number(bound)) for sign, bound in bounds)


def _meets_one(number: Release, sign: str, bound: Release) -> bool:
    part = number[: len(bound)]
    return part >= bound if sign == ">=" else part <= bound if sign == "<=" else part == bound


def _is_in(number: Release, low: Release, high: Release) -> bool:
    return low <= number[: len(low)] and number[: len(high)] <= high


def _number(text: str) -> Release:
    """Its numbers up to the first part that is none: 7.8.T5.0 is 7.8."""
    found: list[int] = []
    for part in text.split("."):
        if not (part.isascii() and part.isdecimal()):
            break
        found.append(int(part))
    return tuple(found)


ENVIRONMENT = "environment of CANN"
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
            yield warning(ENVIRONMENT, found, "the directory of CANN", REMEDY)
            return
    place = _place_of_library(server)
    if place is None:
        found = f"no {LIBRARY} in LD_LIBRARY_PATH, nor in the linker's cache"
        yield warning(ENVIRONMENT, found, "the libraries of CANN", REMEDY)
    else:
        yield fit(ENVIRONMENT, f"{LIBRARY} in {plain(place)}")


def _place_of_library(server: ThisServer) -> str | None:
    for folder in server.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and os.path.exists(f"{folder}/{LIBRARY}"):  # noqa: PTH110  (never raises)
            return folder
    try:
        cache = read_regular_file(server.roots.linker_cache, CACHE_BYTES)
    except OSError:
        return None
    return "the linker's cache" if LIBRARY.encode() in cache else None


PACKAGES = "packages"
ASKED = """
from importlib.metadata import PackageNotFoundError, distribution
for name in ("torch", "torch_npu", "mindspore"):
    try:
        found = distribution(name)
    except PackageNotFoundError:
        continue
    print("found", name, found.version, found.locate_file(name), sep="\\t")
"""
WORDS = 4
"""Of a line that tells a package."""
LIST_BYTES = 256 * 1024
_LIST = re.compile(r"class AscendEnvChecker\b.*?self\.version = \[([^\]]*)\]", re.DOTALL)
_VERSION = re.compile(r"[0-9]+\.[0-9]+")


async def packages(server: ThisServer, ask: Ask) -> Iterable[Result]:
    """Nothing on a machine without NPUs, or where the ranks are run by no Python that we know."""
    if not npus_of(server) or server.python is None:
        return ()
    program = await found_program(server.environ, server.python)
    if program is None:
        return ()
    said = await ask((program, "-c", ASKED))
    if said.trouble:
        return (unknown(PACKAGES, f"{program}: {why_not(said)}"),)
    lines = (line.split("\t") for line in said.text.decode(errors="replace").splitlines())
    told = (words for words in lines if words[0] == "found" and len(words) == WORDS)
    found = {name: (printable(version, 40), place) for _, name, version, place in told}
    return await aside(partial(_rows, server, found))


def _rows(server: ThisServer, found: Mapping[str, tuple[str, str]]) -> tuple[Result, ...]:
    rows = (*_torch(found), *_mindspore(server, found))
    told = ", ".join(f"{name} {version}" for name, (version, _) in found.items())
    return rows or ((fit(PACKAGES, told),) if told else ())


def _torch(found: Mapping[str, tuple[str, str]]) -> Iterator[Result]:
    """The first two numbers: 2.1.0.post10 of torch_npu goes with torch 2.1.0."""
    if {"torch", "torch_npu"} <= found.keys():
        torch, npu = (found[name][0] for name in ("torch", "torch_npu"))
        first, second = _VERSION.match(torch), _VERSION.match(npu)
        if first and second and first[0] != second[0]:
            yield warning(
                PACKAGES,
                f"torch {torch} beside torch_npu {npu}",
                f"torch {second[0]}",
                "install the torch_npu of the same version as torch",
            )


def _mindspore(server: ThisServer, found: Mapping[str, tuple[str, str]]) -> Iterator[Result]:
    if "mindspore" not in found:
        return
    version, place = found["mindspore"]
    known: list[str] = []
    with suppress(OSError):
        text = read_regular_file(Path(place, "run_check", "_check_version.py"), LIST_BYTES)
        listed = _LIST.search(text.decode(errors="replace"))
        known = re.findall(r"[0-9]+\.[0-9]+", listed[1]) if listed else []
    cann = packages_of_cann(server).get("compiler", {}).get("Version", "")
    number = _VERSION.match(cann)
    if known and number and number[0] not in known:
        yield warning(
            PACKAGES,
            f"MindSpore {version} beside CANN {cann}",
            f"CANN {' or '.join(known)}",
            "install the CANN that this MindSpore was made for",
        )
