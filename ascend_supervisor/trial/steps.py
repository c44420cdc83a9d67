"""The steps of a trial: what each does to a job of its own, and what must follow.

Each gets a Stage, and returns a Finding; it raises StepFailed or NotPossible.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import orjson
from msgspec import Struct

from ascend_supervisor.phrases import read_cpu_list
from ascend_supervisor.processes.program_output import ProgramOutput
from ascend_supervisor.report.told import text
from ascend_supervisor.trial.supervised import (
    END_SECONDS,
    GRACE_SECONDS,
    STARTED,
    StepFailed,
    Supervised,
    seconds_to,
)

START_SECONDS = 240.0
"""To the first all-reduce: imports from a cold disk, the device, the links between NPUs."""
HANG_SECONDS = 6.0
STACKS_SECONDS = 30.0
STOPPED = 128 + signal.SIGTERM
AGAIN = ("--restarts=1", "--restart-delay=0")


class NotPossible(Exception):
    """A step that cannot be made here; the text says why."""


class Finding(Struct, frozen=True):
    """What was seen, as a sentence and in figures (seconds)."""

    sentence: str
    figures: Mapping[str, float] = {}


class Stage(Struct, frozen=True):
    """``supervised`` starts a job with these options, whose ranks make so many all-reduces.

    ``doctor`` gives the answer of ``ascend-supervisorctl doctor --json``. ``imports`` are the
    packages that ranks import. ``cold`` is what the restart took, once known.
    """

    ranks: int
    imports: tuple[str, ...]
    supervised: Callable[..., Supervised]
    doctor: Callable[[], ProgramOutput]
    cold: float | None = None

    @property
    def victim(self) -> int:
        return self.ranks // 2


def doctor(stage: Stage) -> Finding:
    """The server is fit, perhaps with warnings."""
    said = stage.doctor()
    try:
        rows = orjson.loads(said.text)["rows"]
        named = [(row["verdict"], f"{row['subject']}: {row['found']}") for row in rows]
    except (orjson.JSONDecodeError, LookupError, TypeError):
        raise StepFailed(f"{said.trouble}: {said.first_line}") from None
    told = [f"{verdict}: {what}" for verdict, what in named if verdict != "fit"]
    _expect("unfit" not in dict(named), "; ".join(told))
    return Finding("; ".join([f"{len(named)} subjects looked at", *told]))


def start(stage: Stage) -> Finding:
    """The ranks open their devices, add up once, and end with 0."""
    with stage.supervised(steps=1) as job:
        first = job.heard_next(START_SECONDS, STARTED)
        code = job.ended(END_SECONDS)
    _expect(code == 0, f"every rank added up, but the exit code is {code}")
    took = float(first["start_seconds"])
    return Finding(
        f"{stage.ranks} ranks added up {took:.1f} s after their start", {"all_reduce": took}
    )


def killed_rank(stage: Stage) -> Finding:
    """A rank gets SIGKILL: it is named, and all ranks add up again."""
    with stage.supervised(*AGAIN) as job:
        job.heard_next(START_SECONDS, STARTED)
        return _restarted(job, stage.victim)


def sigterm(stage: Stage) -> Finding:
    """The supervisor gets SIGTERM: everything has ended within the grace."""
    with stage.supervised() as job:
        job.heard_next(START_SECONDS, STARTED)
        began = time.monotonic()
        code = job.stopped()
        took = round(time.monotonic() - began, 3)
    _expect(code == STOPPED, f"expected exit code {STOPPED}, found {code}")
    _expect(took <= GRACE_SECONDS, f"it took {took:.1f} s, longer than the grace")
    return Finding(
        f"all had ended after {took:.1f} s (grace {GRACE_SECONDS:g} s), exit code {code}",
        {"ended": took},
    )


def hang(stage: Stage) -> Finding:
    """A rank stands still: that is noticed, stacks are taken, and all ranks add up again."""
    limits = (f"--hang-timeout={HANG_SECONDS}", f"--startup-timeout={START_SECONDS}")
    with stage.supervised(*AGAIN, *limits) as job:
        job.heard_next(START_SECONDS, STARTED)
        began = time.time()
        os.kill(job.rank_pid(stage.victim), signal.SIGSTOP)
        noticed = job.heard_next(HANG_SECONDS + 10.0, "hang.noticed")
        stacks = job.heard_next(STACKS_SECONDS, "stacks.taken")
        again = job.heard_next(START_SECONDS, STARTED)
    files = len(stacks["files"])
    _expect(files >= stage.ranks, f"expected {stage.ranks} files with stacks, found {files}")
    times = {"noticed": seconds_to(noticed, began), "all_reduce": seconds_to(again, began)}
    return Finding(
        f"rank {stage.victim} stood still: noticed after {times['noticed']:.1f} s "
        f"({text(stacks, 'summary')}), the next all-reduce came after {times['all_reduce']:.1f} s",
        times,
    )


def warm_restart(stage: Stage) -> Finding:
    """A rank gets SIGKILL while standbys wait: these become the ranks."""
    imports = [f"--warm-import={name}" for name in stage.imports]
    with stage.supervised(*AGAIN, "--warm", *imports) as job:
        job.heard_next(START_SECONDS, STARTED)
        _await_standbys(job)
        found = _restarted(job, stage.victim)
        _expect(bool(job.heard[-1]["warm"]), "not every rank had been a standby")
    cold = "" if stage.cold is None else f"; cold it came after {stage.cold:.1f} s"
    return Finding(f"{found.sentence}{cold}", found.figures)


def bound_cpus(stage: Stage) -> Finding:
    """Each rank runs on CPUs of its own, as the kernel says of all of its threads."""
    with stage.supervised("--bind-cpus=auto") as job:
        job.heard_next(START_SECONDS, STARTED)
        begun = [one for one in job.heard if one["event"] == "process.started"]
        ranks = {one["rank"]: one for one in begun if one["rank"] is not None}
        if any(one["cpus"] is None for one in ranks.values()):
            said = [text(one, "msg") for one in job.heard if one["event"] == "diagnostic"]
            raise NotPossible("; ".join(said) or "no rank was bound, and nothing says why")
        found = {rank: _cpus_of_threads(int(ranks[rank]["child_pid"])) for rank in sorted(ranks)}
    told = "; ".join(f"rank {rank}: {', '.join(sorted(one))}" for rank, one in found.items())
    for rank, lists in found.items():
        _expect(
            lists == {ranks[rank]["cpus"]}, f"rank {rank} got {ranks[rank]['cpus']}, but {told}"
        )
    sets = [read_cpu_list(str(one["cpus"])) for one in ranks.values()]
    _expect(not any(one & other for one, other in combinations(sets, 2)), f"CPUs twice: {told}")
    return Finding(told)


START = "start"
STEPS: Mapping[str, Callable[[Stage], Finding]] = {
    "doctor": doctor,
    START: start,
    "killed rank": killed_rank,
    "SIGTERM": sigterm,
    "hang": hang,
    "warm restart": warm_restart,
    "CPU binding": bound_cpus,
}
COLD = "killed rank"
"""The step whose restart a warm one is compared with."""


def _restarted(job: Supervised, victim: int) -> Finding:
    """Kill a rank; what follows, up to the next all-reduce."""
    began = time.time()
    os.kill(job.rank_pid(victim), signal.SIGKILL)
    ended = job.heard_next(END_SECONDS, "generation.ended")
    named = ended["first_failed_rank"]
    _expect(named == victim, f"rank {victim} was killed, but rank {named} was named")
    begins = job.heard_next(END_SECONDS, "generation.started")
    again = job.heard_next(START_SECONDS, STARTED)
    moments = {"ended": ended, "started": begins, "all_reduce": again}
    times = {name: seconds_to(event, began) for name, event in moments.items()}
    return Finding(
        f"rank {victim} was named; all had ended after {times['ended']:.1f} s, started again after "
        f"{times['started']:.1f} s, the next all-reduce came after {times['all_reduce']:.1f} s",
        times,
    )


def _await_standbys(job: Supervised) -> None:
    """Until they are ready; raises NotPossible if they will not be, or not in time."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            told = job.heard_next(end - time.monotonic(), "standbys.ready", "diagnostic")
        except StepFailed as why:
            if time.monotonic() < end:
                raise
            slow = "standbys make their imports at the lowest priority, and the CPUs are busy"
            raise NotPossible(f"{slow}: {why}") from why
        if told["event"] == "standbys.ready":
            return
        if told.get("source") == "--warm":
            raise NotPossible(text(told, "msg"))


def _cpus_of_threads(pid: int) -> set[str]:
    """The lists of CPUs that its threads may run on, proc(5)."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            for line in (task / "status").read_text().splitlines():
                if line.startswith("Cpus_allowed_list:"):
                    found.add(line.partition(":")[2].strip())
    return found


def _expect(holds: bool, sentence: str) -> None:
    if not holds:
        raise StepFailed(sentence)
