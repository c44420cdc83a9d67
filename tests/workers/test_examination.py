"""What the words of a failure and CANN's own log of it tell together: one cause, in one place."""

from __future__ import annotations

from itertools import count

import pytest

from ascend_supervisor.outcome import ExitStatus, Failure
from ascend_supervisor.workers.examination import Circumstances, _in_words
from tests.cost import cost

KNOWN = Circumstances(heard=(), ranks={}, environ={}, age=1.0)
FRAMES = "Traceback (most recent call last):", '  File "train.py", line 1, in <module>'
ERROR = "[ERROR] HCCL(1,python):2026-11-26-10:00:00.000.001 [a.cc:1] [1]"
LINK = ERROR + "EI0006: Getting socket times out, remote rank:[5]"
LOOPBACK = "Gloo connectFullMesh failed with [/gloo/tcp/pair.cc:152] timed out connecting: "
LOOPBACK += "SO_ERROR: Connection refused, remote=[127.0.0.1]:40917"


def failure(*lines: str) -> Failure:
    return Failure("rank 3", 3, 0, ExitStatus(1), 1.0, last_lines=(*FRAMES, *lines))


@pytest.mark.parametrize(
    ("line", "plog", "id_"),
    [
        ("Parent directory /data/out does not exist.", (LINK,), "directory-missing"),
        (LOOPBACK, (), "gloo-loopback"),
    ],
)
def test_the_sentence_does_not_point_elsewhere_than_the_diagnosis(line, plog, id_):
    found = _in_words(failure(f"RuntimeError: {line}"), KNOWN, plog)
    assert found.diagnosis is not None
    assert (found.diagnosis.id, found.code, found.meaning) == (id_, None, None)
    assert found.said == f"RuntimeError: {line}"


def test_a_consequence_in_the_plog_is_told_by_both():
    found = _in_words(failure("RuntimeError: something failed"), KNOWN, (LINK,))
    assert found.diagnosis is not None
    assert found.diagnosis.id == found.code == "EI0006"
    assert "a consequence: look at rank 5" in (found.meaning or "")
    assert found.diagnosis.remedy == "look at rank 5"


def test_all_of_it_takes_50_ms_of_cpu_at_most():
    healthy = [f"step {step}: loss 2.{step}, 3.1 s, grad norm 0.{step}" for step in range(1400)]
    plog = [ERROR + f"[Send]task {number} was not sent" for number in range(500)]
    numbers = count()

    def examine() -> None:
        """One that nobody has looked at before."""
        _in_words(failure(*healthy, *FRAMES, f"ValueError: {next(numbers)}"), KNOWN, plog)

    assert cost(examine) < 0.05
