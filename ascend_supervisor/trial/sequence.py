"""The sequence of a trial: one step after the other, each with a job of its own."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from ascend_supervisor import __version__
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.imports import HOME
from ascend_supervisor.processes.program_output import ProgramOutput, output_of
from ascend_supervisor.trial.leftovers import Traces
from ascend_supervisor.trial.server import RANK_PROGRAM, SAYS_NOTHING
from ascend_supervisor.trial.steps import COLD, START, STEPS, Finding, NotPossible, Stage
from ascend_supervisor.trial.summary import Setting, StepResult, StepVerdict, Summary
from ascend_supervisor.trial.supervised import StepFailed, Supervised

MANY = 6000
"""All-reduces, a tenth of a second each: a job whose trial was killed ends by itself."""
DOCTOR = (sys.executable, "-m", "ascend_supervisor.ctl", "doctor", "--json")
DOCTOR_SECONDS = 60.0
MOST_BYTES = 1024 * 1024
OF_A_PLATFORM = re.compile(
    r"(ASCEND_SUPERVISOR|MA|VC|VK|XDL|MS|PET|CM|TORCHELASTIC|MASTER|GROUP|LOCAL|NODE|POD|MINDX)_.*"
    r"|RANK(_.*)?|WORLD_SIZE|JOB_ID|DEVICE_ID"
)
"""Variables that describe another job than that of a step."""
IMPORTS = {
    "torch_npu": ("torch", "torch_npu"),
    "gloo": ("torch",),
    "mindspore": ("mindspore",),
    "mindspore_cpu": ("mindspore",),
}
USUAL = (
    *("--console=json", "--console-ranks=none", "--color=never"),
    r"--progress-pattern=all-reduce (?P<step>\d+): ",
)


class Trial:
    """Everything is below ``directory``, and over after ``seconds``; ``say`` takes each line.

    ``interrupt`` is what ended it early, if something did.
    """

    def __init__(
        self,
        setting: Setting,
        environ: Mapping[str, str],
        directory: Path,
        seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self.interrupt: KeyboardInterrupt | None = None
        self._setting = setting
        self._kind = setting.kind
        self._directory = directory
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._say = say
        self._results: list[StepResult] = []
        self._mark = f"ASCEND_TRIAL_{os.getpid()}_{time.monotonic_ns()}"
        self._environ = {
            **{name: environ[name] for name in environ if not OF_A_PLATFORM.fullmatch(name)},
            self._mark: "1",
            "TMPDIR": str(directory),
            "ASCEND_CACHE_PATH": str(directory / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HCCL_WHITELIST_DISABLE": "1",
            "HCCL_CONNECT_TIMEOUT": "120",
            "GLOO_SOCKET_IFNAME": "lo",
        }

    def run(self) -> Summary:
        """Make all steps; after a KeyboardInterrupt no more of them. No process is left."""
        self._say(self._setting.remark or "this takes some minutes")
        self._say(self._setting.sentence)
        why = ""
        for name, step in STEPS.items():
            if time.monotonic() >= self._until:
                why = f"ended before the step {name}: {self._seconds:g} s were over (--limit)"
                break
            try:
                result = self._result(name, step)
            except KeyboardInterrupt as interrupt:
                self.interrupt = interrupt
                why = f"interrupted in the step {name}"
                break
            self._results.append(result)
            self._say(result.line)
        Traces(self._mark, ()).end()
        now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
        maker = f"ascend_supervisor {__version__}"
        host = os.uname().nodename
        return Summary(now, maker, host, self._setting, tuple(self._results), why)

    def _result(self, name: str, step: Callable[[Stage], Finding]) -> StepResult:
        began = time.monotonic()
        place = self._directory / name.replace(" ", "-")
        traces = Traces(self._mark, self._setting.npus)
        supervised = partial(self._supervised, place, traces.look)
        imports = IMPORTS.get(self._kind, ())
        doctor = partial(self._doctor, place)
        stage = Stage(self._setting.ranks, imports, supervised, doctor, self._cold)
        result, finding = _tried(step, stage)
        seconds = round(time.monotonic() - began, 1)
        left = traces.left_in(place)
        sentence = finding.sentence
        if result == "failed" and name == START and self._kind != "plain":
            sentence += f"; the steps after it run with plain Python over sockets: {SAYS_NOTHING}"
            self._kind = "plain"
        return StepResult(
            name, "failed" if left else result, seconds, sentence, finding.figures, left
        )

    @property
    def _cold(self) -> float | None:
        """How long the cold restart took, to the next all-reduce."""
        return next(
            (one.figures.get("all_reduce") for one in self._results if one.step == COLD), None
        )

    def _doctor(self, place: Path) -> ProgramOutput:
        job = {"ASCEND_SUPERVISOR_STANDALONE": str(self._setting.ranks)}
        said = output_of(DOCTOR, DOCTOR_SECONDS, MOST_BYTES, self._environ | job, HOME)
        place.mkdir()
        (place / "rows.json").write_bytes(said.text)
        return said

    def _supervised(
        self, place: Path, look: Callable[[], None], *options: str, steps: int = MANY
    ) -> Supervised:
        method = ["--method=mindspore"] if self._kind.startswith("mindspore") else []
        words = [
            *(f"--standalone={self._setting.ranks}", f"--master-port={_free_port()}", *method),
            *(*USUAL, *options, "--", self._setting.python, str(RANK_PROGRAM)),
            *(self._kind, str(steps)),
        ]
        return Supervised(place, words, self._environ, self._until, look)


def _tried(step: Callable[[Stage], Finding], stage: Stage) -> tuple[StepVerdict, Finding]:
    try:
        return "ok", step(stage)
    except NotPossible as why:
        return "not possible", Finding(str(why))
    except StepFailed as why:
        return "failed", Finding(str(why))
    except OSError as error:
        return "failed", Finding(reason_of(error))


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
