"""A real hang: one of three ranks of a PyTorch training is stopped inside a collective."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

from tests.e2e.test_torch_ddp import pytestmark
from tests.e2e.training import begun, digests, ended, train
from tests.running import Running

__all__ = ["pytestmark"]

VICTIM = 2
LIMITS = ("--startup-timeout", "200", "--hang-timeout", "20")
"""Seconds; importing torch takes long and says nothing, a step takes a hundredth of a second."""


def test_a_hung_training_is_restarted_and_shows_who_waited(supervised, tmp_path):
    stopped = (str(VICTIM), "6", str(int(signal.SIGSTOP)))
    job = train(supervised, tmp_path, *stopped, ranks=3, options=LIMITS)
    assert ended(job) == 0
    assert len(set(digests(job, 1))) == 1
    assert begun(job, 1) == ["generation 1 of 3 ranks begins at step 4"] * 3
    assert [event["next"] for event in job.all("generation.ended")] == ["restart", "stop"]

    (hang,) = job.all("hang.noticed")  # none of the training that came to its end
    assert (hang["source"], hang["limit_seconds"]) == ("silence", 20)
    assert sorted(hang["ranks"]) == [0, 1, 2]
    lines = dict(zip(hang["ranks"], hang["last_lines"], strict=True))
    assert lines[VICTIM] == "SIGSTOP in step 6"
    assert_that_stacks_show_who_waits(job)
    assert not job.survivors()


def assert_that_stacks_show_who_waits(job: Running) -> None:
    (seen,) = job.all("stacks.taken")
    assert seen["files"] == [f"rank-{rank}.txt" for rank in range(3)]
    written = [Path(seen["directory"], name).read_text() for name in seen["files"]]
    if shutil.which("py-spy"):
        assert all("train_ddp.py" in text for text in written)
        assert re.search(r"2 of 3 ranks wait in \w+ \(train_ddp\.py:\d+\)", seen["summary"])
    assert f"rank {VICTIM} is stopped" in seen["summary"]
    assert seen["summary"] in job.all("generation.ended")[0]["cause"]
