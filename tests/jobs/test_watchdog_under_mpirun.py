"""A watchdog over ranks that the real mpirun starts."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.control.asking import ask_job
from tests.e2e import __file__ as frameworks
from tests.running import wait_until

NOTIFYING = Path(frameworks).with_name("notifying.py")
LIMITS = ("--watchdog", "4", "--startup-timeout", "100")


def test_ranks_of_mpirun_that_do_not_notify_any_more_hang(supervised):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is missing (Debian's package openmpi-bin)")
    words = ("--method", "mpirun", *LIMITS, "--", sys.executable, str(NOTIFYING), "0", "1")
    job = supervised("--standalone", "2", *words)
    wait_until(lambda: ask_job(job, "ready")["ready"])
    rows = {row["rank"]: row["notify_status"] for row in ask_job(job, "status")["ranks"]}
    assert rows.keys() == {None}  # nobody knows which processes are ranks
    assert job.end() == 124
    (hang,) = job.all("hang.noticed")
    assert (hang["source"], sorted(hang["ranks"])) == ("watchdog", [0, 1])
    assert hang["silent_seconds"] < 60
    assert not job.survivors()
