"""npu-smi and hccn_tool: real small programs that answer as the real ones do."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ascend_supervisor.processes.program_output import ProgramOutput, output_of

HEAD = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.0.rc1.1               Version: 25.0.rc1.1                                           |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
"""
TAIL = """\
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 4711          | python                   | 3010                    |
| No running processes found in NPU 1                                                            |
+===========================+===============+====================================================+
"""


def table(*health: str, chips: int = 1) -> str:
    """What ``npu-smi info`` prints on a server whose chips have this health."""
    rows = ""
    for number, word in enumerate(health):
        npu, chip = divmod(number, chips)
        name = "Ascend910" if chips > 1 else "910B3"
        phy = f"{number:<6}" if chips > 1 else "      "
        rows += (
            f"| {npu:<5} {name:<20}| {word:<14}| 93.8        44                0    / 0      |\n"
        )
        rows += (
            f"| {chip:<5} {phy:<20}| 0000:C{number}:00.0  | 0           0    / 0   3356 / 65536|\n"
        )
    return f"{HEAD}{rows}{TAIL}"


def program(directory: Path, name: str, script: str) -> None:
    file = directory / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def bare_python(directory: Path) -> str:
    """A real Python that finds no package, whatever is installed beside the tests."""
    program(directory, "bare-python", f'exec {shlex.quote(sys.executable)} -S "$@"')
    return str(directory / "bare-python")


def npu_smi(directory: Path, *health: str, chips: int = 1, more: str = "") -> None:
    """``more`` are shell commands for what is asked beside ``info``."""
    answer = directory / "info.txt"
    answer.write_text(table(*health, chips=chips))
    script = f'if [ "$*" = info ]; then cat {answer}; exit; fi\n{more}'
    program(directory, "npu-smi", script)


def path_with(directory: Path) -> Mapping[str, str]:
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


async def ask(words: Sequence[str], environ: Mapping[str, str] | None = None) -> ProgramOutput:
    return partial(output_of, seconds=10, most=65536, environ=environ)(words)
