"""Our times over those of honcho and of a bare asyncio loop, pair by pair: scripts/bench ratios."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from other_programs import install

RANKS = 8

RANK = r"""
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void tell_now(void) {
    struct timespec now;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    int size = snprintf(text, sizeof text, "%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    if (write(1, text, size) < 0) _exit(9);
}

static int files(const char *path) {
    DIR *folder = opendir(path);
    int count = -2;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

int main(int argc, char **argv) {
    char path[4096];
    sigset_t term;
    int heard;
    if (argc == 1 || strcmp(getenv("TORCHELASTIC_RESTART_COUNT"), "0")) {
        tell_now();
        sleep(1);
        return 0;
    }
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    snprintf(path, sizeof path, "%s/%s", argv[1], getenv("RANK"));
    fclose(fopen(path, "w"));
    if (strcmp(getenv("RANK"), "0")) { sigwait(&term, &heard); tell_now(); return 0; }
    while (files(argv[1]) < atoi(argv[2])) usleep(10000);
    usleep(500000);
    tell_now();
    _exit(1);
}
"""
"""A rank in C: an interpreter's own milliseconds would hide ours."""

NOW = re.compile(rb"\b\d{19}\b")
"""What a rank tells: nanoseconds since 1970."""
NO_DELAY = ("--restarts", "1", "--restart-delay", "0", "--release-delay", "0")

LOOP = r"""
import asyncio, os, signal, sys

async def copy(stream):
    while chunk := await stream.read(65536):
        os.write(1, chunk)

async def generation(number, ranks, command):
    processes = [
        await asyncio.create_subprocess_exec(
            *command,
            env={"RANK": str(rank), "TORCHELASTIC_RESTART_COUNT": str(number)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        for rank in range(ranks)
    ]
    copies = [asyncio.create_task(copy(process.stdout)) for process in processes]
    running = {asyncio.create_task(process.wait()) for process in processes}
    failed = False
    while running:
        ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        if any(task.result() for task in ended) and not failed:
            failed = True
            for process in processes:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGTERM)
    await asyncio.gather(*copies)
    return failed

async def main(ranks, command):
    if await generation(0, ranks, command):
        await generation(1, ranks, command)

asyncio.run(main(int(sys.argv[1]), sys.argv[2:]))
"""
"""The least that starts ranks, copies what they say, ends all after a failure and starts again."""


def rank(root: Path) -> str:
    """The compiled rank; without arguments it tells the time, and ends a second later."""
    program = root / "rank"
    subprocess.run(["cc", "-O2", "-x", "c", "-o", program, "-"], input=RANK.encode(), check=True)
    return str(program)


def moments(command: list[str], root: Path) -> list[float]:
    """Milliseconds from the start of ``command`` to each moment that a rank tells, in order."""
    environ = {
        "PATH": os.environ["PATH"],
        "MA_MOUNT_PATH": str(root),
        "MA_VJ_NAME": "ma-job-bench",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    (root / "log").mkdir()
    began = time.time_ns()
    ended = subprocess.run(command, cwd=root, env=environ, stdout=subprocess.PIPE, check=False)
    return sorted((int(moment) - began) / 1e6 for moment in NOW.findall(ended.stdout))


def last_start(command: list[str]) -> float:
    """Milliseconds to the first instruction of the last rank."""
    with tempfile.TemporaryDirectory() as root:
        return moments(command, Path(root))[RANKS - 1]


def death(command: list[str], program: str) -> tuple[float, float]:
    """Milliseconds from a rank's death to SIGTERM at the last of the others, and to the next start.

    That is the first instruction of the last rank of the next generation.
    """
    with tempfile.TemporaryDirectory() as root:
        (ups := Path(root, "ups")).mkdir()
        found = moments([*command, program, str(ups), str(RANKS)], Path(root))
    return found[RANKS - 1] - found[0], found[2 * RANKS - 1] - found[0]


def measure(program: str, honcho: list[str]) -> dict[str, tuple[float, float]]:
    """One of each, ours and the other's in turn."""
    ours = [sys.executable, "-m", "ascend_supervisor", "--standalone", str(RANKS)]
    loop = [sys.executable, "-c", LOOP, str(RANKS)]
    start = last_start([*ours, "--", program])
    our_term, our_next = death([*ours, *NO_DELAY, "--"], program)
    term, following = death(loop, program)
    pairs = {
        "start_over_bare_loop": (start, last_start([*loop, program])),
        "death_to_term_over_bare_loop": (our_term, term),
        "death_to_next_generation_over_bare_loop": (our_next, following),
    }
    if honcho:
        pairs["start_over_honcho"] = (start, last_start(honcho))
    return pairs


def print_ratios(runs: int) -> None:
    """Medians of ``runs`` rounds; the first round, which is not counted, fills the caches."""
    with tempfile.TemporaryDirectory() as root:
        program = rank(Path(root))
        procfile = Path(root, "Procfile")
        procfile.write_text(f"rank: exec {program}\n")
        path = install("honcho", "honcho")
        honcho = [str(path), "start", "-f", str(procfile), "-c", f"rank={RANKS}"]
        rounds = [measure(program, honcho if path.exists() else []) for _ in range(runs + 1)][1:]
    print(f"{'ratio':40} {'median':>7} {'lowest':>7} {'highest':>7} {'ours ms':>9} {'other ms':>9}")
    for name in rounds[0]:
        pairs = [pairs[name] for pairs in rounds]
        ratios = [ours / other for ours, other in pairs]
        row = f"{statistics.median(ratios):7.2f} {min(ratios):7.2f} {max(ratios):7.2f}"
        medians = " ".join(f"{statistics.median(times):9.1f}" for times in zip(*pairs, strict=True))
        print(f"{name:40} {row} {medians}")
