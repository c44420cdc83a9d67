"""Each NPU: whether it is in /dev, what npu-smi says of its health, and hccn_tool of its port.

One call tells the health of all (``npu-smi info``). Of those that are not OK it is asked why
(``-t health``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.doctor.check import (
    Ask,
    ThisServer,
    fit,
    found_program,
    unfit,
    unknown,
    warning,
    why_not,
)
from ascend_supervisor.events.server import Result
from ascend_supervisor.phrases import counted, listed
from ascend_supervisor.untrusted_text import printable, shown

DEVICES = "devices"
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
            DEVICES,
            found,
            f"{len(wanted)}, as the rank table says ({listed(wanted)})",
            "give the container all of its NPUs, or start it elsewhere",
        )
    else:
        yield fit(DEVICES, found)
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


SUBJECT = "health of NPUs"
NAME, USUAL = "npu-smi", "/usr/local/bin/npu-smi"
OK, LESSER = "OK", frozenset({"Warning", "Alarm"})
CRITICAL = "Critical"
"""The gravest of four. Of the others nobody says that ranks surely fail with them."""
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
    if not rows:
        return (fit(SUBJECT, f"{counted(len(chips), 'chip')}, all OK"),)
    shows_others = len(chips) > len(npus_of(server))  # as in a privileged container
    return map(_warned, rows) if shows_others else rows


def of_this_job(rows: Iterable[Result], server: ThisServer) -> Iterator[Result]:
    """The ``rows`` once it is known how many ranks there are.

    If they are fewer than the NPUs, an ill one may be nobody's, and is no reason to refuse.
    """
    uses_all = server.ranks is None or server.ranks >= len(npus_of(server))
    return iter(rows) if uses_all else map(_warned, rows)


def chips_in(table: str) -> tuple[Chip, ...]:
    """Those of the table that npu-smi prints: each has a row that begins with its NPU and name."""
    seen: Counter[int] = Counter()
    found = []
    for npu, health in _ROW.findall(table):
        found.append(Chip(int(npu), seen[int(npu)], health))
        seen[int(npu)] += 1
    return tuple(found)


def _warned(row: Result) -> Result:
    is_ours = row.subject == SUBJECT and row.verdict == "unfit"
    return replace(row, verdict="warning") if is_ours else row


def _row(chip: Chip, why: str) -> Result:
    found = f"NPU {chip.npu}, chip {chip.chip}: {chip.health}{f' ({why})' if why else ''}"
    if chip.health == CRITICAL:
        remedy = "start the job elsewhere, and have the NPU reset or replaced"
        return unfit(SUBJECT, found, OK, remedy)
    if chip.health in LESSER:
        return warning(SUBJECT, found, OK, "look at the error code in Huawei's list of alarms")
    return unknown(SUBJECT, found)


def _facts(said: str) -> str:
    told = [printable(fact.strip(), FACT_CHARACTERS) for fact in _FACT.findall(said)]
    return ": ".join(fact for fact in told if fact != "NA")


ECC = "memory errors of NPUs"
_DOUBLE = re.compile(r"HBM Double Bit Error Count\s*:\s*([0-9]{1,9})")


async def ecc(server: ThisServer, ask: Ask) -> Iterable[Result]:
    """Errors of two bits, which cannot be corrected; nothing where npu-smi does not tell them."""
    if not npus_of(server) or (program := await found_program(server.environ, NAME, USUAL)) is None:
        return ()
    listed_now = (await ask((program, "info"))).text.decode(errors="replace")
    errors: dict[int, int] = {}

    async def count(npu: int) -> None:
        said = await ask((program, "info", "-t", "ecc", "-i", f"{npu}"))
        if counts := _DOUBLE.findall(said.text.decode(errors="replace")):
            errors[npu] = sum(map(int, counts))

    async with anyio.create_task_group() as tasks:
        for npu in sorted({chip.npu for chip in chips_in(listed_now)}):
            tasks.start_soon(count, npu)
    bad = [npu for npu in sorted(errors) if errors[npu]]
    if bad:
        found = f"{counted(errors[bad[0]], 'error')} of two bits in NPU {listed(bad)}"
        remedy = "have the NPU reset, and replaced if they come again"
        return (warning(ECC, found, "none", remedy),)
    return (fit(ECC, f"none in {counted(len(errors), 'NPU')}"),) if errors else ()


LINKS = "links of NPUs"
TOOL, USUAL_TOOL = "hccn_tool", "/usr/local/Ascend/driver/tools/hccn_tool"
UP = "UP"
HARMLESS = frozenset({"Success", "Init"})
"""``Init``: no address was set that is to be reached."""
_STATUS = re.compile(r"(?:link|net health) status:\s*(\S[^\r\n]*)")


async def npu_links(server: ThisServer, ask: Ask) -> Iterable[Result]:
    """Nothing for a job of one server, or without hccn_tool.

    It knows an NPU by its number in /dev.
    """
    numbers = npus_of(server)
    if not numbers or server.is_alone:
        return ()
    program = await found_program(server.environ, TOOL, USUAL_TOOL)
    if program is None:
        return ()
    links: dict[int, str] = {}
    health: dict[int, str] = {}

    async def note(found: dict[int, str], number: int, subject: str) -> None:
        said = await ask((program, "-i", f"{number}", subject, "-g"))
        status = _STATUS.search(said.text.decode(errors="replace"))
        found[number] = status[1].strip() if status else ""

    async with anyio.create_task_group() as tasks:
        for number in numbers:
            tasks.start_soon(note, links, number, "-link")
            tasks.start_soon(note, health, number, "-net_health")
    return tuple(_of_links(numbers, links, health))


def _of_links(
    numbers: Iterable[int], links: dict[int, str], health: dict[int, str]
) -> Iterable[Result]:
    down = [number for number in numbers if links[number] not in {UP, ""}]
    if down:
        found = f"the link of NPU {listed(down)} is {links[down[0]]}"
        remedy = "see cable, optical module and switch port; hccn_tool -i N -link_stat -g"
        yield warning(LINKS, found, UP, remedy)
    sick = [number for number in numbers if health[number] not in {*HARMLESS, ""}]
    if sick and not down:
        found = f"the net health of NPU {listed(sick)} is {health[sick[0]]}"
        remedy = (
            "see its address and gateway (hccn_tool -i N -ip -g, -netdetect -g), and the switch"
        )
        yield warning(LINKS, found, "Success", remedy)
    silent = [number for number in numbers if not links[number]]
    if silent and not down:
        yield unknown(LINKS, f"hccn_tool says nothing of NPU {listed(silent)}")
    elif not down and not sick:
        yield fit(LINKS, f"{counted(len(links), 'link')}, all {UP}")
