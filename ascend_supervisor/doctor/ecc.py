"""The errors of the NPUs' memory since they were switched on, as npu-smi counts them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import anyio

from ascend_supervisor.doctor.check import Ask, ThisServer, fit, found_program, warning
from ascend_supervisor.doctor.devices import npus_of
from ascend_supervisor.doctor.npu_health import NAME, USUAL, chips_in
from ascend_supervisor.events.server import Result
from ascend_supervisor.events.words import counted, listed

SUBJECT = "memory errors of NPUs"
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
        return (warning(SUBJECT, found, "none", remedy),)
    return (fit(SUBJECT, f"none in {counted(len(errors), 'NPU')}"),) if errors else ()
