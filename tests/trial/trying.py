"""Trials by processes of their own, and what they have written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ascend_supervisor.processes.proc import pids, started_with
from tests.collection.reading import members
from tests.ctl.calling import PROGRAM

TRIAL_SECONDS = 280.0
"""Half a minute on an idle machine with plain ranks, two minutes with PyTorch."""


class Tried:
    """A trial of two ranks; everything that it writes is below ``root``, or in ``archive``."""

    def __init__(
        self,
        root: Path,
        python: str,
        *words: str,
        archive: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.archive = archive or root / "trial.tar.gz"
        self.temporary = root / "temporary"
        self.temporary.mkdir()
        self._mark = f"TEST_OF_A_TRIAL_{root.name}_{os.getpid()}"
        self.process = subprocess.Popen(
            [*PROGRAM, "trial", *self._options(python), *words],
            env={
                "PATH": os.environ["PATH"],
                "TMPDIR": str(self.temporary),
                self._mark: "1",
                **(environ or {}),
            },
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _options(self, python: str) -> list[str]:
        return ["-o", str(self.archive), "--python", python, "--ranks", "2"]

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ended(self, seconds: float = TRIAL_SECONDS) -> tuple[int, str, str]:
        """Its exit code, and what else it says; nothing of it is left."""
        out, err = self.process.communicate(timeout=seconds)
        assert self.remains == []
        assert list(self.temporary.iterdir()) == []
        return self.process.returncode, out, err

    @property
    def remains(self) -> list[int]:
        """Its processes that run."""
        return started_with(self._mark.encode(), list(pids()))

    @property
    def files(self) -> dict[str, bytes]:
        return members(self.archive.read_bytes())


def summary_of(files: Mapping[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files["summary.json"])
    assert files["summary.txt"].decode().endswith("\n")
    return found


def results(summary: Mapping[str, Any]) -> dict[str, str]:
    return {one["step"]: one["result"] for one in summary["steps"]}


def every_step_is_made(root: Path, with_what: str, kind: str, package: str) -> None:
    """With the framework that this Python has; no NPU is here."""
    tried = Tried(root, sys.executable)
    said = f"no NPU here: ran with {with_what}; nothing here says anything about NPUs\n"
    assert tried.line() == said
    code, out, err = tried.ended(3 * TRIAL_SECONDS)
    assert (code, err) == (0, ""), out
    files = tried.files
    summary = summary_of(files)
    assert summary["setting"]["kind"] == kind
    assert set(summary["setting"]["versions"]) >= {"python", package}
    found = results(summary)
    warm = next(one for one in summary["steps"] if one["step"] == "warm restart")
    if found.pop("warm restart") != "ok":  # standbys give way to whatever else runs here
        assert "imports at the lowest priority, and the CPUs are busy" in warm["sentence"]
    assert set(found.values()) == {"ok"}
    log = files["steps/start/log/job-proc-rank-1-device-1.txt"]
    assert b"all-reduce 1: 2 ranks add up to 3\n" in log
