"""What npu-smi and hccn_tool say now, as ascend-fd reads it: each command, and its answer below it.

The commands are those of its user guide, "NPU Environment Check File After Training and Inference".
It compares the file with an ``npu_info_before.txt``, which only who was there before can have made.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.collection.archive import Collector
from ascend_supervisor.collection.machine import PROGRAM_SECONDS
from ascend_supervisor.collection.versions import ASCEND, DISKS
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.processes.program_output import ProgramOutput, output_of

NAME = "environment_check/npu_info_after.txt"
SMI, HCCN = "/usr/local/bin/npu-smi", "/usr/local/Ascend/driver/tools/hccn_tool"
"""Where these programs usually are; ascend-fd knows a command by this beginning."""
MOST_BYTES = 1024 * 1024
"""Of each answer."""
ALL_SECONDS = 60.0
"""For all commands: one NPU that is slow must not hold up the archive."""
_DEVICE = re.compile(r"davinci([0-9]{1,4})", re.ASCII)
VERSION_FILES = tuple(
    ASCEND / name
    for name in (
        "driver/version.info",
        "firmware/version.info",
        "nnae/latest/ascend_nnae_install.info",
        "ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info",
        "ascend-toolkit/latest/x86_64-linux/ascend_toolkit_install.info",
        "cann/aarch64-linux/ascend_toolkit_install.info",
        "cann/x86_64-linux/ascend_toolkit_install.info",
    )
)
OF_ALL = ("info", "info -m", "info -l")
OF_A_DEVICE = (
    *("info -i {} -c 0 -t health", "info -i {} -t ecc", "info -i {} -t board"),
    *("info -i {} -c 0 -t board", "info -i {} -t usages"),
)
OF_A_PORT = ("net_health", "link", "optical", "tls", "fec", "ip", "stat", "link_stat")


class Query(Struct, frozen=True):
    """A command as the guide writes it: the ``usual`` path of its program, and its words."""

    usual: str
    words: tuple[str, ...]

    @property
    def line(self) -> str:
        """As it stands above its answer."""
        only = " | grep switch" if "-tls" in self.words else ""
        return f"{' '.join((self.usual, *self.words))}{only}"

    def answer(self, text: bytes) -> bytes:
        """What counts of what was said."""
        if "-tls" not in self.words:
            return text
        return b"".join(line for line in text.splitlines(keepends=True) if b"switch" in line)


def commands(devices: Sequence[int]) -> Iterator[Query]:
    """What to ask about these devices, the most important first."""
    for words in OF_ALL:
        yield Query(SMI, tuple(words.split()))
    for device in devices:
        for words in OF_A_DEVICE:
            yield Query(SMI, tuple(words.format(device).split()))
        for subject in OF_A_PORT:
            yield Query(HCCN, ("-i", str(device), f"-{subject}", "-g"))


def devices_here(directory: Path = Path("/dev")) -> list[int]:
    """The devices that this container has, by their files."""
    with suppress(OSError):
        found = (_DEVICE.fullmatch(one.name) for one in directory.iterdir())
        return sorted(int(name[1]) for name in found if name)
    return []


def add_npu(
    collector: Collector,
    environ: Mapping[str, str],
    devices: Sequence[int],
    version_files: Sequence[Path] = VERSION_FILES,
) -> None:
    """Ask the programs that are on PATH, or in their usual places."""
    programs = {
        usual: shutil.which(Path(usual).name, path=environ.get("PATH")) or shutil.which(usual)
        for usual in (SMI, HCCN)
    }
    for usual, program in programs.items():
        if program is None:
            why = f"it is not on PATH, and there is no {usual}"
            collector.leave_out(Path(usual).name, why)
    if any(programs.values()):
        asking = _Asking(collector, programs)
        answers = [answer for asked in commands(devices) if (answer := asking.answer_to(asked))]
        # The guide has no microseconds, but ascend-fd looks for them.
        head = f"Datetime: {datetime.now().astimezone():%Y-%m-%d %H:%M:%S.%f}\n\n".encode()
        source = ", ".join(filter(None, programs.values()))
        pages = [*answers, *map(_version_page, version_files)]
        collector.add_text(NAME, source, head + b"\n".join(filter(None, pages)))


def _version_page(path: Path) -> bytes:
    """A file as ``cat`` shows it; empty if there is none."""
    with suppress(OSError):
        return (
            f"cat {path}\n".encode()
            + DISKS.ask(path.parent, partial(read_regular_file, path, MOST_BYTES)).rstrip()
            + b"\n"
        )
    return b""


class _Asking:
    """A program that was late once is not asked again."""

    def __init__(self, collector: Collector, programs: Mapping[str, str | None]) -> None:
        self._collector = collector
        self._programs = dict(programs)
        self._end = time.monotonic() + ALL_SECONDS

    def answer_to(self, asked: Query) -> bytes:
        """The command and its answer; empty if it was not asked."""
        program = self._programs[asked.usual]
        if program is None:
            return b""
        left = self._end - time.monotonic()
        if left <= 0:
            self._give_up(asked, f"all answers together took {ALL_SECONDS:g} s")
            return b""
        command = (program, *asked.words)
        said = output_of(command, min(PROGRAM_SECONDS, left), MOST_BYTES)
        if said.is_late:
            self._give_up(asked, said.trouble)
        return _page(asked, said)

    def _give_up(self, asked: Query, why: str) -> None:
        self._programs[asked.usual] = None
        self._collector.leave_out(asked.line, f"{why}; {asked.usual} was not asked for more")


def _page(asked: Query, said: ProgramOutput) -> bytes:
    trouble = f"[{said.trouble}]\n" if said.trouble else ""
    return f"{asked.line}\n".encode() + asked.answer(said.text).rstrip() + f"\n{trouble}".encode()
