"""What npu-smi says of the health of each NPU.

One call tells all of them (``npu-smi info``). Of those that are not OK it is asked why
(``-t health``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import anyio
from msgspec import Struct

from ascend_supervisor.doctor.asking import Ask, found_program, why_not
from ascend_supervisor.doctor.devices import npus_of
from ascend_supervisor.doctor.rows import fit, unfit, unknown, warning
from ascend_supervisor.doctor.server import ThisServer
from ascend_supervisor.events.server import Result
from ascend_supervisor.events.words import counted
from ascend_supervisor.untrusted_text import printable

SUBJECT = "health of NPUs"
NAME, USUAL = "npu-smi", "/usr/local/bin/npu-smi"
OK, WARNING = "OK", "Warning"
UNHEALTHY = frozenset({"Alarm", "Critical"})
"""The graver two of four."""
MOST_ASKED = 4
"""So many NPUs are asked why; the others are named."""
FACT_CHARACTERS = 160
_ROW = re.compile(r"\|\s*([0-9]{1,4})\s+[^|\s][^|]*\|\s*([A-Za-z]+)\s*\|")
_FACT = re.compile(r"\s*Error (?:Code|Information)\s*:\s*(\S.*)")


class Chip(Struct, frozen=True):
    """One of an NPU; an Atlas A3 has two."""

    npu: int
    chip: int
    health: str


async def npu_health(server: ThisServer, ask: Ask) -> Iterable[Result]:
    """Nothing on a machine without NPUs, or without npu-smi."""
    if not npus_of(server) or (program := await found_program(server.environ, NAME, USUAL)) is None:
        return ()
    said = await ask((program, "info"))
    chips = chips_in(said.text.decode(errors="replace"))
    if not chips:
        return (unknown(SUBJECT, f"npu-smi info: {why_not(said)}"),)
    ill = [one for one in chips if one.health != OK]
    reasons: dict[Chip, str] = {}

    async def ask_why(chip: Chip) -> None:
        words = (program, "info", "-t", "health", "-i", f"{chip.npu}", "-c", f"{chip.chip}")
        reasons[chip] = _facts((await ask(words)).text.decode(errors="replace"))

    async with anyio.create_task_group() as tasks:
        for chip in ill[:MOST_ASKED]:
            tasks.start_soon(ask_why, chip)
    rows = [_row(chip, reasons.get(chip, "")) for chip in ill]
    return rows or (fit(SUBJECT, f"{counted(len(chips), 'chip')}, all OK"),)


def chips_in(table: str) -> tuple[Chip, ...]:
    """Those of the table that npu-smi prints: each has a row that begins with its NPU and name."""
    seen: Counter[int] = Counter()
    found = []
    for npu, health in _ROW.findall(table):
        found.append(Chip(int(npu), seen[int(npu)], health))
        seen[int(npu)] += 1
    return tuple(found)


def _row(chip: Chip, why: str) -> Result:
    found = f"NPU {chip.npu}, chip {chip.chip}: {chip.health}{f' ({why})' if why else ''}"
    if chip.health in UNHEALTHY:
        remedy = "start the job elsewhere, and have the NPU reset or replaced"
        return unfit(SUBJECT, found, OK, remedy)
    if chip.health == WARNING:
        return warning(SUBJECT, found, OK, "look at the error code in Huawei's list of alarms")
    return unknown(SUBJECT, found)


def _facts(said: str) -> str:
    told = [printable(fact.strip(), FACT_CHARACTERS) for fact in _FACT.findall(said)]
    return ": ".join(fact for fact in told if fact != "NA")
