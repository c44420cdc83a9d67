"""The sequence of a trial: one step after the other, each with a job that leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from ascend_supervisor import __version__
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.imports import HOME
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import holders, open_files
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.program_output import ProgramOutput, output_of
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


SHARED_MEMORY = "/dev/shm/"  # noqa: S108  (it is only looked at)
PATIENCE_SECONDS = 10.0
"""The kernel, and PyTorch's own cleaner of shared memory, need a moment after the last process."""
LOOK_AGAIN_SECONDS = 0.1


class Traces:
    """Of a job whose processes have the variable ``mark``: others make files there, too."""

    def __init__(self, mark: str, npus: tuple[str, ...]) -> None:
        self._mark = os.fsencode(mark)
        self._npus = frozenset(npus)
        self._shared: set[str] = set()

    def look(self) -> None:
        """Note the shared memory that its processes have now."""
        for pid in self._processes():
            self._shared.update(_shared_by(pid))

    def left_in(self, directory: Path, seconds: float = PATIENCE_SECONDS) -> tuple[str, ...]:
        """What is still there, for people; waits until nothing is, but no longer than that."""
        end = time.monotonic() + seconds
        while (found := tuple(self._found(directory))) and time.monotonic() < end:
            time.sleep(LOOK_AGAIN_SECONDS)
        return found

    def end(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Kill its processes that run, and wait until none does, but no longer than that."""
        end = time.monotonic() + seconds
        while (found := self._living()) and time.monotonic() < end:
            for pid in found:
                pid.send(signal.SIGKILL)
            time.sleep(LOOK_AGAIN_SECONDS)

    def _living(self) -> list[Pid]:
        found = filter(None, map(Pid.of, self._processes()))
        return [pid for pid in found if pid.lives]

    def _processes(self) -> list[int]:
        return proc.started_with(self._mark, list(proc.pids()))

    def _found(self, directory: Path) -> Iterator[str]:
        for pid in self._living():
            yield f"process {proc.description(pid.number)}"
        yield from (f"shared memory {one}" for one in sorted(self._shared) if Path(one).exists())
        yield from (f"socket {one}" for one in directory.rglob("*") if one.is_socket())
        for held in holders(self._npus):
            yield f"an NPU is held by process {held}"


def _shared_by(pid: int) -> Iterator[str]:
    """The files of shared memory that a process has open, or mapped (proc(5), maps)."""
    with suppress(OSError):
        for line in proc.read(f"/proc/{pid}/maps").decode(errors="replace").splitlines():
            yield from (name for name in line.split(None, 5)[5:] if _is_shared(name))
    yield from filter(_is_shared, open_files(pid))


def _is_shared(name: str) -> bool:
    return name.startswith(SHARED_MEMORY) and not name.endswith(" (deleted)")
