"""Whatever ranks write, reading their steps neither stalls the supervisor nor invents one."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.control.asking import ask_job
from tests.running import Running, python, wait_until

MEGATRON = "| consumed samples: 16 | elapsed time per iteration (ms): 20.0 | lm loss: 2.3E+00 |"
TICKS = """
import os, sys, time
rank = int(os.environ["RANK"])
def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
number = 0
while rank == 1:
    number += 1
    write(b"tick %d\\n" % number)
    time.sleep(0.02)
"""
"""The beginning of rank 0; rank 1 writes until it is stopped."""
ANSWER_SECONDS = 30.0
"""On an idle machine it takes some milliseconds; a pattern that backtracks would take minutes."""
OPTIONS = ("--standalone", "2", "--progress-interval", "1", "--console-ranks", "none")


def is_longer(log: Path, size: int) -> bool:
    return log.stat().st_size > size


def answers_and_pumps(job: Running, seconds: float) -> None:
    """For so long: each answer comes in time, and the log of rank 1 goes on between answers."""
    log, end = job.log(1), time.monotonic() + seconds
    while time.monotonic() < end:
        before, began = log.stat().st_size, time.monotonic()
        assert ask_job(job, "ping")["pid"] == job.pid
        assert ask_job(job, "status")["status"]["phase"] == "running"
        assert time.monotonic() - began < ANSWER_SECONDS
        wait_until(partial(is_longer, log, before))
        assert time.monotonic() - began < ANSWER_SECONDS


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")


def progress(job: Running) -> dict[str, Any]:
    (path,) = job.log_dir.glob("*-supervisor-*.json")
    known: dict[str, Any] = json.loads(path.read_text(), parse_constant=refuse)["progress"]
    return known


LONG_LINE = f"""{TICKS}
open(sys.argv[1], "w").close()
piece = b" iteration 7/9 {MEGATRON} step: 8 loss: 1  9%|#4  | 9/9 [00:07<00:47,  7.57it/s]" * 500
write(b"nothing")
for _ in range(300_000_000 // len(piece)):
    write(piece)
open(sys.argv[2], "w").close()
for step in range(101, 116):
    write(b"\\n iteration %8d/     120 {MEGATRON}\\n" % step)
    time.sleep(0.05)
"""


def test_a_line_of_300_megabytes_holds_up_nobody_and_is_no_step(supervised, tmp_path):
    begun, done = tmp_path / "begun", tmp_path / "done"
    job = supervised(*OPTIONS, "--log-keep", "0", *python(LONG_LINE), str(begun), str(done))
    wait_until(begun.exists)
    wait_until(job.log(1).exists)
    while not done.exists():
        answers_and_pumps(job, 0.1)
    assert job.wait_for("process.exited", rank=0)["status"] == 0
    ask_job(job, "stop")
    job.end()
    assert job.wait_for("training.started")["step"] == 101
    assert (progress(job)["step"], progress(job)["steps"]) == (115, 120)


BACKTRACKS = f"""{TICKS}
end = time.monotonic() + 4
while time.monotonic() < end:
    write((b"a" * int(sys.argv[1]) + b"b\\n") * 50_000)
    time.sleep(0.01)
for step in range(1, 16):
    write(b" iteration %8d/     120 {MEGATRON}\\n" % step)
    time.sleep(0.05)
"""


@pytest.mark.parametrize("letters", [20, 4000])
def test_a_pattern_that_backtracks_holds_up_nobody(supervised, letters):
    pattern = ("--progress-pattern", r"(?P<step>(a+)+$)")
    job = supervised(*OPTIONS, "--log-keep", "0", *pattern, *python(BACKTRACKS), str(letters))
    wait_until(lambda: job.log(0).exists() and job.log(0).stat().st_size > 1_000_000)
    answers_and_pumps(job, 3.0)
    assert job.wait_for("process.exited", rank=0)["status"] == 0
    ask_job(job, "stop")
    job.end()
    (told,) = [event["msg"] for event in job.all("diagnostic")]
    if letters == 4000:
        assert "took more than 0.05 s for one line and is no longer used" in told
    else:  # each line is quick enough
        assert "took more than 0.05 s for the lines that were read at once" in told
    assert progress(job)["step"] == 15


ODD = f"""
import os, socket, time
def write(text):
    os.write(1, text.encode("utf-8", "surrogateescape"))
    time.sleep(0.7)  # longer than from one look to the next
def step(number, total=60):
    return f" iteration {{number}}/{{total}} {MEGATRON}"
write(step(10**30, 10**31) + "\\n\\x1b[32m" + step(1) + "\\x1b[0m\\n")
write("step: nan loss: nan\\nstep: inf  loss: 1.0\\nstep: -5  loss: 1.0\\n"
      "第 ３０ 步，训练中：损失 2.3，步数 40/60\\n" + step("４９") + "\\n" + step("٥٠") + "\\n")
write("\\0\\0" + step(2).replace(" |", "\\0 |") + "\\n\\0\\0\\0")
write("\\n" + step(3) + "\\r" + step(4) + "\\r\\r" + step(5) + "\\r")
write(step(5).replace("20.0", "nan") + "\\n\\udcff\\udcfe" + step(6) + "\\udcff\\n"
      + step(10**30, 60) + "\\n" + step(7, 10**30) + "\\n")
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
    to.connect(os.environ["NOTIFY_SOCKET"].replace("@", "\\0", 1))
    for message in (f"X_STEP={{10**30}}", "X_STEP=nan", "X_SECONDS=nan", "X_STEP=1e3", "X_STEP=-1"):
        to.send(message.encode())
time.sleep(0.1)
"""


def test_odd_bytes_hide_no_step_and_make_none(supervised):
    job = supervised("--standalone", "1", "--progress-interval", "0.01", *python(ODD))
    assert job.end() == 0
    told = [event["step"] for event in job.all("training.progress")]
    assert job.wait_for("training.started")["step"] == 1
    assert told == sorted(told)
    assert {2, 5} <= set(told) <= {1, 2, 3, 4, 5, 6}
    known = progress(job)
    assert (known["step"], known["steps"], known["format"]) == (6, 60, "megatron")
