"""What ``--check`` answers in a pod, without a process of its own: a plan, or why there is none."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ascend_supervisor.program.run import run


@dataclass(frozen=True)
class Process:
    """``environ`` is all that it gets: what the pod has, with the plan's changes."""

    rank: int | None
    argv: tuple[str, ...]
    environ: Mapping[str, str]

    def has(self, *names: str) -> dict[str, str | None]:
        """These variables; None for one that is not set."""
        return {name: self.environ.get(name) for name in names}

    @property
    def options(self) -> dict[str, str]:
        """Its words of the form ``--name=value``."""
        words = (word.removeprefix("--").partition("=") for word in self.argv if "=" in word)
        return {name: value for name, _, value in words}


@dataclass(frozen=True)
class Answer:
    """``complaint`` is what stands on stderr."""

    code: int
    document: Mapping[str, Any]
    processes: tuple[Process, ...]
    complaint: str

    @property
    def ranks(self) -> list[int | None]:
        return [process.rank for process in self.processes]

    @property
    def node_rank(self) -> int:
        return int(self.document["this_server"]["node_rank"])

    @property
    def shape(self) -> tuple[int, int]:
        """The cluster's world size and number of servers."""
        cluster = self.document["rank_table"]
        return cluster["world_size"], cluster["servers"]


class Check:
    """``check(variables, *options)``; torchrun and msrun are found, but never started."""

    def __init__(self, root: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._root = root
        self._capfd = capfd
        (root / "train.py").touch()
        programs = root / "programs"
        programs.mkdir()
        for name in ("python", "torchrun", "msrun"):
            (programs / name).write_text("#!/bin/sh\nexit 1\n")
            (programs / name).chmod(0o755)
        self._usual = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(root)}

    def __call__(self, variables: Mapping[str, str], *options: str) -> Answer:
        environ = {**self._usual, **variables}
        logs = ("--log-dir", str(self._root / "logs"))
        words = ("--check", *logs, *options, "--", "python", str(self._root / "train.py"))
        self._capfd.readouterr()
        code = run(words, environ, lambda _: None, never)
        stdout, stderr = self._capfd.readouterr()
        document = json.loads(stdout) if code == 0 else {}
        processes = tuple(
            Process(
                rank=process["rank"],
                argv=tuple(process["argv"]),
                environ=changed(environ, process["environment"]),
            )
            for process in document.get("processes", ())
        )
        return Answer(code, document, processes, stderr)

    def plan(self, variables: Mapping[str, str], *options: str) -> Answer:
        answer = self(variables, *options)
        assert answer.code == 0, answer.complaint
        assert answer.complaint == ""
        return answer

    def refusal(self, variables: Mapping[str, str], *options: str) -> str:
        """The one sentence with which a wrong setting is refused."""
        answer = self(variables, *options)
        assert answer.code == 64, answer
        (sentence,) = answer.complaint.splitlines()
        return sentence


def changed(environ: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def never(code: int) -> NoReturn:
    raise AssertionError(f"--check starts no job, and this would end one with {code}")
