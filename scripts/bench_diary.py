"""What the ranks of scripts/bench steps and where write down, and when one of them dies."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

BEFORE, AFTER, DEATH = "first step", "step after the death", "death"


def phase(name: str) -> None:
    """From now on the time is spent on this; scripts/bench where listens, by its sitecustomize."""
    switch = getattr(sys.modules.get("sitecustomize"), "switch", None)
    if switch is not None:
        switch(name)


class Diary:
    """Rank 0 writes when each life makes its first step; rank 1 dies once PATH.fatal exists."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._rank = os.environ["RANK"]
        self._is_second = self._path.exists() and DEATH in self._path.read_text()
        self._steps = 0

    def is_over(self) -> bool:
        """To be called after each step: whether that was the last one of this job."""
        self._steps += 1
        if self._rank == "0":
            print(f" iteration {self._steps:8d}/  100000 | elapsed time:", flush=True)
        if self._rank == "0" and self._steps == 1:
            self._note(AFTER if self._is_second else BEFORE)
        if self._rank == "1" and not self._is_second and Path(f"{self._path}.fatal").exists():
            self._note(DEATH)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)
        return self._is_second

    def _note(self, what: str) -> None:
        with self._path.open("a") as file:
            print(what, time.monotonic(), sep="|", file=file)
