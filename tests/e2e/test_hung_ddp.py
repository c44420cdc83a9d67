"""A real hang: one of four ranks of a PyTorch training is stopped inside a collective."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

from ascend_supervisor.errors import HANG
from tests.e2e.test_torch_ddp import begun, digests, ended, pytestmark, train

__all__ = ["pytestmark"]

VICTIM = 2
LIMITS = ("--startup-timeout", "200", "--hang-timeout", "20")
"""Seconds; importing torch takes long and says nothing, a step takes a hundredth of a second."""


def test_a_hung_training_is_restarted_and_ends_bit_identical(supervised, tmp_path):
    alone = train(supervised, tmp_path / "undisturbed", options=LIMITS)
    assert ended(alone) == 0
    assert not alone.all("hang.noticed")

    stopped = (str(VICTIM), "6", str(int(signal.SIGSTOP)))
    job = train(supervised, tmp_path / "disturbed", *stopped, options=LIMITS)
    assert ended(job) == 0
    assert digests(job, 1) == digests(alone, 0)
    assert begun(job, 1) == ["generation 1 of 4 ranks begins at step 4"] * 4
    assert [event["next"] for event in job.all("generation.ended")] == ["restart", "stop"]

    (hang,) = job.all("hang.noticed")
    assert (hang["source"], hang["limit_seconds"]) == ("silence", 20)
    assert sorted(hang["ranks"]) == [0, 1, 2, 3]
    lines = dict(zip(hang["ranks"], hang["last_lines"], strict=True))
    assert lines[VICTIM] == "SIGSTOP in step 6"
    assert not job.survivors()


def test_the_stacks_of_a_hang_show_who_waits_and_who_was_stopped(supervised, tmp_path):
    stopped = (str(VICTIM), "6", str(int(signal.SIGSTOP)))
    job = train(supervised, tmp_path, *stopped, options=(*LIMITS, "--restarts", "0"))
    assert ended(job) == HANG

    (seen,) = job.all("stacks.taken")
    assert seen["files"] == [f"rank-{rank}.txt" for rank in range(4)]
    written = [Path(seen["directory"], name).read_text() for name in seen["files"]]
    if shutil.which("py-spy"):
        assert all("train_ddp.py" in text for text in written)
        assert re.search(r"3 of 4 ranks wait in \w+ \(train_ddp\.py:\d+\)", seen["summary"])
    assert f"rank {VICTIM} is stopped" in seen["summary"]
    assert seen["summary"] in job.all("supervisor.exited")[0]["root_cause"]
    assert not job.survivors()
