"""Asking programs: what a check gets for it, and where the programs are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ascend_supervisor.processes.program_output import ProgramOutput
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import printable

Ask = Callable[[Sequence[str]], Awaitable[ProgramOutput]]
"""What a program prints within its time; never raises."""
MOST_CHARACTERS = 200


async def found_program(environ: Mapping[str, str], name: str, usual: str = "") -> str | None:
    """Its path, by the PATH of ``environ``, else the ``usual`` one if it is there."""

    def found() -> str | None:
        path = environ.get("PATH", os.defpath)
        return shutil.which(name, path=path) or (shutil.which(usual) if usual else None)

    return await aside(found)


def why_not(said: ProgramOutput) -> str:
    """Why there is no answer in what it ``said``, and its first line."""
    lines = (line.strip() for line in said.text.decode(errors="replace").splitlines())
    first = printable(next(filter(None, lines), ""), MOST_CHARACTERS)
    return ": ".join(filter(None, (said.trouble or "it says nothing of it", first)))
