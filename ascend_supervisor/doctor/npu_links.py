"""What hccn_tool says of the network ports of the NPUs, which ranks of several servers need."""

from __future__ import annotations

import re
from collections.abc import Iterable

import anyio

from ascend_supervisor.doctor.check import Ask, ThisServer, fit, found_program, unknown, warning
from ascend_supervisor.doctor.devices import npus_of
from ascend_supervisor.events.server import Result
from ascend_supervisor.events.words import counted, listed

SUBJECT = "links of NPUs"
NAME, USUAL = "hccn_tool", "/usr/local/Ascend/driver/tools/hccn_tool"
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
    program = await found_program(server.environ, NAME, USUAL)
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
    return tuple(_rows(numbers, links, health))


def _rows(
    numbers: Iterable[int], links: dict[int, str], health: dict[int, str]
) -> Iterable[Result]:
    down = [number for number in numbers if links[number] not in {UP, ""}]
    if down:
        found = f"the link of NPU {listed(down)} is {links[down[0]]}"
        remedy = "see cable, optical module and switch port; hccn_tool -i N -link_stat -g"
        yield warning(SUBJECT, found, UP, remedy)
    sick = [number for number in numbers if health[number] not in {*HARMLESS, ""}]
    if sick and not down:
        found = f"the net health of NPU {listed(sick)} is {health[sick[0]]}"
        remedy = (
            "see its address and gateway (hccn_tool -i N -ip -g, -netdetect -g), and the switch"
        )
        yield warning(SUBJECT, found, "Success", remedy)
    silent = [number for number in numbers if not links[number]]
    if silent and not down:
        yield unknown(SUBJECT, f"hccn_tool says nothing of NPU {listed(silent)}")
    elif not down and not sick:
        yield fit(SUBJECT, f"{counted(len(links), 'link')}, all {UP}")
