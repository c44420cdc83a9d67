"""An image that a command of the pages is written for, as a directory of the test's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.running import MARK, Running

PROGRAMS = ("ascend-supervisor", "ascend-supervisorctl")
DIRECTORIES = re.compile(
    r"(?<![\w.-])(/home/ma-user|/opt/ascend-supervisor|/portable|/code|/usr/local/Ascend)/"
)
"""Places in the image; for a test they are below a directory of its own."""
BIN = Path(sys.executable).parent
PATH = f"{BIN}:{os.environ['PATH']}"


class Image:
    """Directories of an image below ``root``, with the supervisor; its Python is that of the test.

    ``supervised`` starts what it runs.
    """

    def __init__(self, root: Path, supervised: Callable[..., Running]) -> None:
        self.root = root
        self._supervised = supervised

    def with_programs(self, directory: str) -> None:
        """Install them there, as links to those of the test."""
        bin_ = self.root / directory / "bin"
        bin_.mkdir(parents=True)
        for name in PROGRAMS:
            (bin_ / name).symlink_to(BIN / name)

    def with_file(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def here(self, text: str) -> str:
        """A command, with the places of this image."""
        return DIRECTORIES.sub(lambda found: f"{self.root}{found[1]}/", text)

    def runs(self, words: Sequence[str], environ: Mapping[str, str], **options: Any) -> Running:
        """A container's words, which no shell has seen."""
        program, *rest = map(self.here, words)
        inside = {"PATH": PATH, "ASCEND_SUPERVISOR_RESTART_DELAY": "0", **environ}
        return self._supervised(python=program, program=rest, environ=inside, **options)

    def enters(self, script: str, environ: Mapping[str, str], **options: Any) -> Running:
        """What a person types into a shell."""
        return self.runs(("bash", "-c", script), environ, **options)


def beside(job: Running, line: str, environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """A command in the container of a job, as by `kubectl exec`; it ends with the test."""
    return subprocess.Popen(
        ["bash", "-c", line],
        env={"PATH": PATH, "TERM": "xterm", MARK: job.mark, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
