"""One log of many ranks: each line belongs to its rank, and what is no loss is the cause."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.evidence.blame import blame, explained
from ascend_supervisor.evidence.last_words import words_of
from ascend_supervisor.launchers.once import CommandTestimony
from ascend_supervisor.outcome import ExitStatus, Failure, Worker

CLOSED = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
    "[127.0.0.1]:34971"
)


def traceback(last: str) -> list[str]:
    return ["Traceback (most recent call last):", '  File "train.py", line 9, in <module>', last]


BAD, LOST = traceback("ValueError: bad batch 17"), traceback(CLOSED)
REPORT = traceback("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")


def command(lines, **more) -> Failure:
    status = more.pop("status", ExitStatus(1))
    return Failure(
        *("the command", None, 0, status, 1.0), last_lines=tuple(lines), is_shared=True, **more
    )


MARKS = {
    "torch": ("[rank0]: ", "[rank1]: ", "rank 1: "),
    "torchrun --tee": ("[default0]:", "[default1]:", ""),
    "torchrun --tee and torch": ("[default0]:[rank0]: ", "[default1]:[rank1]: ", "rank 1: "),
    "mpirun --tag-output": ("[1,0]<stderr>:", "[1,1]<stderr>:", "rank 1: "),
    "horovodrun": ("[1,0]<stdout>: ", "[1,1]<stderr>: ", "rank 1: "),
    "mpiexec -prepend-rank": ("[0] ", "[1] ", "rank 1: "),
    "srun --label": ("0: ", "1: ", "rank 1: "),
    "pdsh": ("worker-0: ", "worker-1: ", ""),
    "pdsh and torch": ("worker-0: [rank0]: ", "worker-1: [rank1]: ", "rank 1: "),
    "ray": ("\x1b[36m(TrainWorker pid=11, ip=10.0.0.3)\x1b[0m ",
            "\x1b[36m(TrainWorker pid=12, ip=10.0.0.4)\x1b[0m ", ""),
    "a logger": ("(Worker pid=1) ERROR 03-25 06:14:02 [x.py:880] ",
                 "(Worker pid=2) ERROR 03-25 06:14:02 [x.py:880] ", ""),
}  # fmt: skip


def marked(mark: str, lines: list[str]) -> list[str]:
    return [mark + line for line in lines]


@pytest.mark.parametrize("order", ["before", "after", "between"])
@pytest.mark.parametrize("name", MARKS)
def test_the_exception_that_is_no_loss_is_the_cause(name, order):
    zero, one, whose = MARKS[name]
    lost, bad = marked(zero, LOST), marked(one, BAD)
    together = {
        "before": bad + lost,
        "after": lost + bad,
        "between": [line for pair in zip(lost, bad, strict=True) for line in pair],
    }[order]
    told = explained(command(together + REPORT))
    assert (told.meaning, told.said) == (None, f"{whose}ValueError: bad batch 17")
    assert blame(told) is Blame.OWN


@pytest.mark.parametrize("name", MARKS)
def test_where_all_have_lost_a_peer_it_is_a_consequence(name):
    zero, one, _ = MARKS[name]
    told = explained(command(marked(zero, LOST) + marked(one, LOST) + REPORT))
    assert blame(told) is Blame.CONSEQUENCE


@pytest.mark.parametrize("name", MARKS)
def test_the_frames_of_an_exception_are_those_of_its_writer(name):
    _, one, _ = MARKS[name]
    raised = words_of(command(marked(one, BAD))).raised
    assert raised is not None
    assert raised.place == "train.py"


def test_without_marks_the_exception_that_is_no_loss_is_the_cause_too():
    told = explained(command(BAD + LOST + REPORT))
    assert (blame(told), told.said) == (Blame.OWN, "ValueError: bad batch 17")


SUMMARY = """\
W1125 02:54:11.934000 29107 torch/distributed/elastic/multiprocessing/api.py:1010] Sending process \
29107 closing signal SIGTERM
E1125 02:54:12.934000 29107 torch/distributed/elastic/multiprocessing/api.py:984] failed \
(exitcode: {code}) local_rank: 1 (pid: 13) of binary: python
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-25_02:54:12
  host      : vm
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 13)
  error_file: <N/A>
============================================================
"""
DEEPSPEED = (
    "[2023-07-10 04:26:05,876] [INFO] [launch.py:318:sigkill_handler] Killing subprocess 94984\n"
    "[2023-07-10 04:26:35,999] [ERROR] [launch.py:324:sigkill_handler] ['/usr/bin/python3', '-u', "
    "'train.py', '--local_rank=1', '--deepspeed', 'ds.json'] exits with return code = {code}"
)
MPIRUN = {
    -11: "----------------------------------------------------------\nmpirun noticed that process "
    "rank 1 with PID 13 on node vm exited on signal 11 (Segmentation fault).",
    1: "----------------------------------------------------------\n  Process name: [[1,1],1]\n  "
    "Exit code:    1",
}


@pytest.mark.parametrize("code", [1, -11])
@pytest.mark.parametrize(
    "summary",
    [
        SUMMARY.format,
        DEEPSPEED.format,
        lambda code: MPIRUN[code].replace("1,1],1]\n  E", "1,1],1]\nE"),
    ],
    ids=["torchrun", "deepspeed", "mpirun"],
)
def test_a_launchers_summary_is_read_whoever_started_it(summary, code):
    lines = [*marked("[rank0]: ", LOST), *summary(code=code).splitlines()]
    found = CommandTestimony().culprit(lines, [], {})
    assert found is not None
    worker = Worker(1, ExitStatus.of(code))
    assert (found.rank, found.status) == (worker.rank, worker.status)
    told = explained(command(found.last_lines, worker=worker))
    assert (told.said, told.meaning, blame(told)) == (str(worker), None, Blame.UNKNOWN)


def test_torchruns_choice_yields_to_the_words_of_another_rank():
    """Its time stamps have whole seconds: it may name the rank that only lost the other."""
    lines = marked("[rank1]: ", BAD) + marked("[rank0]: ", LOST)
    failure = command(lines)
    told = explained(Failure("rank 0", 0, 0, ExitStatus(1), 1.0, last_lines=failure.last_lines,
                             is_shared=True))  # fmt: skip
    assert (told.name, told.rank, told.said) == ("rank 1", 1, "ValueError: bad batch 17")
    assert blame(told) is Blame.OWN


@given(st.lists(st.sampled_from(sorted(MARKS)), max_size=3), st.lists(st.text(max_size=40)))
def test_marks_of_all_kinds_make_no_loss_ones_own(names, text):
    lines = [line for name in names for line in marked(MARKS[name][0], LOST)]
    assert blame(command([*text, *lines])) is not Blame.OWN
