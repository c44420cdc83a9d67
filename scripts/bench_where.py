"""Where the time from a rank's death to the next first step goes: scripts/bench where.

Rank 0 notes whose the time is: of the package that it imports, or of the phase that its script is
in. For that, each import passes through a sitecustomize of the job's own.
"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

from bench_diary import AFTER, DEATH
from bench_steps import JOBS, run

Seconds = dict[str, float]
WAYS = "cold", "warm"
LEAST = 0.02
"""Packages whose imports take a smaller part of the cold way stand together in one row."""
SUPERVISOR, FIRST = "supervisor", "interpreter, top of the script"
IMPORT, OTHERS = "import ", "other imports"
SWITCHES = f"""
import _thread, atexit, builtins, os, time
plain, main = builtins.__import__, _thread.get_ident()
switches = [(0.0, {FIRST!r})]

def switch(to):
    before = switches[-1][1]
    if to != before:
        switches.append((time.monotonic(), to))
    return before

def timed(name, globals=None, locals=None, fromlist=(), level=0):
    if level or _thread.get_ident() != main:
        return plain(name, globals, locals, fromlist, level)
    before = switch({IMPORT!r} + name.partition(".")[0])
    try:
        return plain(name, globals, locals, fromlist, level)
    finally:
        switch(before)

def write():
    import json
    if os.environ.get("RANK") == "0":
        with open(os.environ["SWITCHES"], "w") as file:
            json.dump(switches, file)

builtins.__import__ = timed
atexit.register(write)
"""


def print_where(runs: int) -> None:
    """For each job the run of the median duration, cold and warm."""
    for job, script in JOBS.items():
        found = []
        for way in WAYS:
            seen = sorted((measured(way, script) for _ in range(runs)), key=together)
            found.append(seen[runs // 2])
        print(f"{job + ', seconds':34}" + "".join(f"{way:>8}" for way in WAYS))
        for name in rows(*found):
            print(f"{name:34}" + "".join(f"{one.get(name, 0.0):8.2f}" for one in found))
        print(f"{'together':34}" + "".join(f"{together(one):8.2f}" for one in found), flush=True)


def together(seconds: Seconds) -> float:
    return sum(seconds.values())


def rows(*found: Seconds) -> list[str]:
    """In the order of the time; imports that take little are added to OTHERS."""
    least = LEAST * together(found[0])
    small = {
        name
        for name in set[str]().union(*found)
        if name.startswith(IMPORT) and all(one.get(name, 0.0) < least for one in found)
    }
    for one in found:
        one[OTHERS] = math.fsum(one.pop(name, 0.0) for name in small)
    return list(dict.fromkeys(name for one in found for name in one))


def measured(way: str, script: str) -> Seconds:
    """Seconds of each, from the death to the first step."""
    with tempfile.TemporaryDirectory() as root:
        Path(root, "sitecustomize.py").write_text(SWITCHES)
        written = Path(root, "switches")
        done = run(way, script, root, {"PYTHONPATH": root, "SWITCHES": str(written)})
        switches = json.loads(written.read_text())
    death, step = done.times[DEATH], done.times[AFTER]
    seconds = {SUPERVISOR: done.started - death}
    ends = [moment for moment, _ in switches[1:]]
    for (moment, name), end in zip(switches, [*ends, step], strict=True):
        spent = min(end, step) - max(moment, done.started)
        if spent > 0:
            seconds[name] = seconds.get(name, 0.0) + spent
    return seconds
