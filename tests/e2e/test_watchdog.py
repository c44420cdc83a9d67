"""A watchdog over ranks that real launchers start: their messages are theirs, one by one."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pytest

from tests.e2e import __file__ as here
from tests.running import Running

NOTIFYING = Path(here).with_name("notifying.py")
LIMITS = ("--watchdog", "6", "--startup-timeout", "200")


@pytest.mark.e2e
@pytest.mark.timeout(400)
def test_the_worker_of_torchrun_that_does_not_notify_any_more_is_named(supervised):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: .venv/bin/pip install --group e2e")
    assert_that_rank_1_hangs(supervised, "torchrun")


@pytest.mark.e2e_mindspore
@pytest.mark.timeout(400)
def test_the_worker_of_msrun_that_does_not_notify_any_more_is_named(supervised):
    if not Path(sys.executable).with_name("msrun").exists():
        pytest.skip("MindSpore is not installed")
    assert_that_rank_1_hangs(supervised, "msrun")


def assert_that_rank_1_hangs(supervised, method: str) -> None:
    port = 20000 + random.randrange(10000)  # noqa: S311  (no secret)
    words = ("--method", method, "--master-port", str(port), *LIMITS)
    job: Running = supervised(
        *("--standalone", "2", *words, "--", sys.executable, str(NOTIFYING), "1"), deadline=300.0
    )
    assert job.end() == 124
    (hang,) = job.all("hang.noticed")
    assert (hang["source"], hang["ranks"]) == ("watchdog", [1])
    assert job.events[-1]["root_cause"].startswith("rank 1 has not sent WATCHDOG=1 for 6 s")
    assert not job.survivors()
