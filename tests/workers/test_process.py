"""Who of a process and its helpers gets which signal, and who is waited for."""

from __future__ import annotations

import signal
from functools import partial

import anyio

from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.outcome import Completed, Fault
from tests.running import wait_until
from tests.workers.test_generation import Stage, up_then

FAULT = Fault("the chip is reset", UNAVAILABLE)
HELPED = (
    "import signal, subprocess, sys, time\n"
    "heard = []\n"
    "signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))\n"
    "helper = subprocess.Popen(('sleep', '600'))\n"
    "print('up', flush=True)\n"
)


async def test_a_signal_of_the_users_goes_to_the_rank_and_not_to_its_helpers(stage: Stage):
    """A helper has no handler: it would die of it."""
    source = HELPED + (
        "while not heard: time.sleep(0.01)\ntime.sleep(0.1)\nsys.exit(helper.poll() is not None)\n"
    )

    async def send() -> Fault:
        await stage.up(0)
        stage.interrupts.hear(signal.SIGUSR1)
        await anyio.sleep_forever()
        raise AssertionError

    assert await stage.run([stage.spec(0, source)], send) == Completed()


async def test_the_end_is_told_to_helpers_too_and_they_are_waited_for(stage: Stage):
    """A rank that ends at once leaves a helper that still writes, which has the grace."""
    helper = (
        "import signal, time\n"
        "told = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: told.append(1))\n"
        "print('up', flush=True)\n"
        "while not told: time.sleep(0.01)\n"
        "time.sleep(0.2)\n"
        "print('the helper has saved', flush=True)\n"
    )
    source = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen((sys.executable, '-c', {helper!r}))\n"
        "time.sleep(600)"
    )
    outcome = await stage.run([stage.spec(0, source)], partial(up_then, stage, FAULT, 0))
    assert outcome == FAULT
    assert stage.exits[0].signal == "SIGTERM"
    wait_until(lambda: "\nthe helper has saved\n" in (stage.root / "rank0.txt").read_text())


async def test_a_rank_that_is_stopped_hears_that_it_is_to_end(stage: Stage):
    source = "import os, signal; print('up', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    outcome = await stage.run(
        [stage.spec(0, f"{source}\nimport time; time.sleep(600)")],
        partial(up_then, stage, FAULT, 0),
        grace=600,
    )
    assert outcome == FAULT
    assert stage.exits[0].signal == "SIGTERM"
