"""A rank that does what a script says, and writes down what it does with its time.

$PLANS is a file of JSON, what to do in each generation (``Plan`` of tests/jobs/scripted.py). The
rank prints Megatron's line for each step. The file $DIARY gets a line of JSON for each thing that
happens, with its moment in seconds of the monotonic clock.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

LINE = " iteration {:8d}/   10000 | consumed samples: 16 | elapsed time per iteration (ms): 9.0 |\n"


def born() -> float:
    """When the kernel started this process, to a hundredth of a second."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    return ticks / os.sysconf("SC_CLK_TCK") - uptime + time.monotonic()


class Rank:
    def __init__(self, plans: Path, diary: Path) -> None:
        self.generation = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        self.plan = json.loads(plans.read_text())[self.generation]
        self.diary = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, what: str, at: float | None = None, step: int = 0) -> None:
        moment = time.monotonic() if at is None else at
        entry = {"generation": self.generation, "what": what, "at": moment, "step": step}
        os.write(self.diary, json.dumps(entry).encode() + b"\n")

    def leave(self, status: int) -> None:
        if self.plan["withdraws"]:
            table = Path(self.plan["withdraws"])
            new = table.with_suffix(".new")
            new.write_text('{"status": "initializing"}')
            new.replace(table)
        self.note("end")
        os._exit(status)

    def save(self, *_: object) -> None:
        """The rank is told to end; the end of a hang is the end of what it lost."""
        self.note("hung" if self.plan["end"] == "hang" else "told")
        time.sleep(self.plan["saving"])
        self.leave(143)

    def train(self) -> None:
        plan = self.plan
        signal.signal(signal.SIGTERM, self.save)
        self.note("born", born())
        time.sleep(plan["start"])
        for step in range(plan["first"], plan["last"] + 1):
            time.sleep(plan["step_seconds"])
            self.note("step", step=step)
            os.write(1, LINE.format(step).encode())
        time.sleep(plan["step_seconds"] / 2)
        self.end(plan["end"])

    def end(self, how: str) -> None:
        if how == "stop":
            self.note("stop")
            os.kill(os.getppid(), signal.SIGTERM)
        if how in ("hang", "stop", "other"):
            time.sleep(600)
        self.leave(3 if how == "crash" else 0)


if __name__ == "__main__":
    Rank(Path(os.environ["PLANS"]), Path(os.environ["DIARY"])).train()
