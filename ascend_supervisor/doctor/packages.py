"""torch_npu against torch, and MindSpore against CANN, as their own files say.

The interpreter of the ranks is asked what is installed for it; nothing is imported. torch_npu has
the version of the torch that it was built for. MindSpore lists the versions of CANN that it goes
with in ``run_check/_check_version.py``, and warns of others itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from ascend_supervisor.doctor.cann import packages_of_cann
from ascend_supervisor.doctor.check import (
    Ask,
    ThisServer,
    fit,
    found_program,
    unknown,
    warning,
    why_not,
)
from ascend_supervisor.doctor.devices import npus_of
from ascend_supervisor.events.server import Result
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import printable

SUBJECT = "packages"
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
MOST_BYTES = 256 * 1024
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
        return (unknown(SUBJECT, f"{program}: {why_not(said)}"),)
    lines = (line.split("\t") for line in said.text.decode(errors="replace").splitlines())
    told = (words for words in lines if words[0] == "found" and len(words) == WORDS)
    found = {name: (printable(version, 40), place) for _, name, version, place in told}
    return await aside(partial(_rows, server, found))


def _rows(server: ThisServer, found: Mapping[str, tuple[str, str]]) -> tuple[Result, ...]:
    rows = (*_torch(found), *_mindspore(server, found))
    told = ", ".join(f"{name} {version}" for name, (version, _) in found.items())
    return rows or ((fit(SUBJECT, told),) if told else ())


def _torch(found: Mapping[str, tuple[str, str]]) -> Iterator[Result]:
    """The first two numbers: 2.1.0.post10 of torch_npu goes with torch 2.1.0."""
    if {"torch", "torch_npu"} <= found.keys():
        torch, npu = (found[name][0] for name in ("torch", "torch_npu"))
        first, second = _VERSION.match(torch), _VERSION.match(npu)
        if first and second and first[0] != second[0]:
            yield warning(
                SUBJECT,
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
        text = read_regular_file(Path(place, "run_check", "_check_version.py"), MOST_BYTES)
        listed = _LIST.search(text.decode(errors="replace"))
        known = re.findall(r"[0-9]+\.[0-9]+", listed[1]) if listed else []
    cann = packages_of_cann(server).get("compiler", {}).get("Version", "")
    number = _VERSION.match(cann)
    if known and number and number[0] not in known:
        yield warning(
            SUBJECT,
            f"MindSpore {version} beside CANN {cann}",
            f"CANN {' or '.join(known)}",
            "install the CANN that this MindSpore was made for",
        )
