"""What a process says itself of its end, in the words that real programs print."""

from __future__ import annotations

import pytest

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.evidence.blame import Other, among_workers, blame, compared, explained
from ascend_supervisor.evidence.statement import unheeded
from ascend_supervisor.outcome import ExitStatus, Failure
from tests.evidence.programs import ASIDES, ending_with, output
from tests.evidence.test_shared_output import command


def failure(lines, code: int = 1, rank: int = 0, **more) -> Failure:
    status = ExitStatus.of(code)
    return Failure(f"rank {rank}", rank, 0, status, 1.0, last_lines=tuple(lines), **more)


ARGPARSE = (
    "import argparse\nparser = argparse.ArgumentParser(prog='train.py')\n"
    "parser.add_argument('--lr', type=float)\nparser.parse_args({words!r})"
)
PAPERMILL = """\
class PapermillExecutionError(Exception):
    def __str__(self):
        rule = 75 * '-'
        return f"\\n{rule}\\nException encountered at 'In [2]':\\n{rule}\\nValueError: bad cell\\n"
raise PapermillExecutionError()
"""
CLICK = "Usage: train.py [OPTIONS]\nTry 'train.py --help' for help.\n\nError: No such option: --bs"
RICH_CLICK = (
    "Usage: train.py [OPTIONS]\nTry 'train.py --help' for help.\n"
    "╭─ Error ─────────────────────────╮\n│ No such option: --bs            │\n"
    "╰─────────────────────────────────╯"
)


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        (output(ARGPARSE.format(words=["--bs", "2"]), 2), 2,
         "train.py: error: unrecognized arguments: --bs 2"),
        (output(ARGPARSE.format(words=["--lr", "x"]), 2), 2,
         "train.py: error: argument --lr: invalid float value: 'x'"),
        (CLICK.split("\n"), 2, "Error: No such option: --bs"),
        (RICH_CLICK.split("\n"), 2, "No such option: --bs"),
        (("usage: x", "x: error: bad", "CANN is unloaded", ""), 2, "x: error: bad"),
        (("fatal error: no such file",), 1, "fatal error: no such file"),
        (output("print('step 1'); raise SystemExit('no data in /data')", 1), 1,
         "its last line is: no data in /data"),
        (output(PAPERMILL, 1), 1, "ValueError: bad cell"),
        (output("raise RuntimeError('\\n\\nthe reason is here')", 1), 1,
         "RuntimeError: the reason is here"),
        (output("raise AssertionError", 1), 1, "AssertionError"),
        (output("raise ValueError('')", 1), 1, "ValueError"),
        (("ray.exceptions.RayTaskError(ValueError): ray::train() (pid=7, ip=10.0.0.3)",), 1,
         ("its last line is: ray.exceptions.RayTaskError(ValueError): ray::train() (pid=7, "
         "ip=10.0.0.3)")),
        (("Traceback (most recent call last):", '  File "a.py", line 2, in <module>',
          "ray.exceptions.RayTaskError(ValueError): ray::train() (pid=7, ip=10.0.0.3)",
          '  File "b.py", line 3, in train', "ValueError: nan"), 1, "ValueError: nan"),
        ((), 1, None),
        (("step 1",), -9, None),
    ],
)  # fmt: skip
def test_the_line_that_says_why_is_found(lines, code, said):
    told = explained(failure(lines, code))
    assert told.said == said


@pytest.mark.parametrize(
    ("source", "code", "ends"),
    [
        ("import ctypes\ndef step(): ctypes.string_at(0)\nstep()", -11, "in string_at"),
        ("import os\ndef step(): os.abort()\nstep()", -6, "line 3, in step"),
        ("import os, signal\ndef step(): os.kill(os.getpid(), signal.SIGBUS)\nstep()", -7,
         "line 3, in step"),
    ],
)  # fmt: skip
def test_the_frame_is_told_in_which_a_signal_came(source, code, ends):
    told = explained(failure(output(f"import faulthandler; faulthandler.enable()\n{source}"), code))
    assert told.said is not None
    assert told.said.endswith(ends)


def test_an_abort_after_an_exception_is_a_consequence_of_it():
    """torch aborts, while Python shuts down, where a process group was not destroyed."""
    lines = (*output("raise ValueError('nan')"), "terminate called without an active exception",
             "Fatal Python error: Aborted", "", "<no Python frame>")  # fmt: skip
    told = explained(failure(lines, -6))
    assert (told.said, blame(told)) == ("ValueError: nan", Blame.UNKNOWN)


def test_stacks_do_not_hide_what_was_said_before():
    stacks = [
        "Fatal Python error: Aborted",
        "",
        "Thread 0x00007f1b529d9b80 (most recent call first):",
    ]
    stacks += [f'  File "worker.py", line {number} in run' for number in range(100)]
    lines = ["[rank0]:[E1] Watchdog caught collective operation timeout: WorkHCCL", *stacks]
    assert blame(failure(lines, -6)) is Blame.CONSEQUENCE


TRACEBACK = output("raise ValueError('nan at device 1')")
IMPORT = output("import no_such_module")


@pytest.mark.parametrize(
    ("others", "alike"),
    [
        ([(1, IMPORT, 1), (2, IMPORT, 1)], "all 3 ranks"),
        ([(1, IMPORT, 1), (2, IMPORT, -15)], "all 3 ranks"),
        ([(1, IMPORT, 1), (2, (), -15)], "2 of 3 ranks"),
        ([(1, TRACEBACK, 1), (2, (), -15)], ""),
        ([(1, IMPORT, 0)], ""),
        ([(1, IMPORT, 2)], ""),
        ([], ""),
    ],
)
def test_ranks_that_fail_alike_are_counted(others, alike):
    told = [Other(rank, ExitStatus.of(code), tuple(lines)) for rank, lines, code in others]
    assert compared(failure(IMPORT), told, of_job=True).alike == alike
    here = f"{alike} here" if alike else ""
    assert compared(failure(IMPORT), told, of_job=False).alike == here


@pytest.mark.parametrize(
    ("first", "other", "code", "is_unasked", "is_alike"),
    [
        ("no such data: /data/3", "no such data: /data/4", 1, True, True),
        ("no data", "no data", 1, False, False),
        ("no data", "no memory", 1, True, False),
        ("no data", "", 1, True, False),
        ("no data", "no data", 3, True, False),
        ("no data", "no data", -15, True, False),
        ("no data", "ValueError: no data", 1, True, False),
        ("", "", 1, True, False),
        ("no data", "no data", 0, True, False),
    ],
)
def test_last_words_are_alike_if_nobody_was_told_to_stop(first, other, code, is_unasked, is_alike):
    told = [Other(1, ExitStatus.of(code), tuple(other.splitlines()), is_unasked)]
    found = compared(failure(first.splitlines()), told, of_job=True)
    assert found.alike == ("all 2 ranks" if is_alike else "")


WATCHDOG = (
    "[rank{0}]:[E614 11:14:03.086 ProcessGroupHCCL.cpp:1319] [Rank {0}] Watchdog caught collective "
    "operation timeout: WorkHCCL(SeqNum=880, OpType=BROADCAST, Timeout(ms)=1800000)"
)
SILENT = (
    "a consequence: it waited in vain for another rank; look at rank 2, the only one here whose "
    "watchdog did not fire"
)


def test_the_rank_whose_watchdog_did_not_fire_is_named():
    others = [
        Other(1, ExitStatus.of(-6), (WATCHDOG.format(1),)),
        Other(2, ExitStatus.of(-15), ("step 4",)),
        Other(3, ExitStatus.of(-6), (WATCHDOG.format(3),)),
    ]
    first = explained(failure([WATCHDOG.format(0)], -6))
    assert compared(first, others, of_job=False).meaning == SILENT
    assert compared(first, others[:1], of_job=False).meaning == first.meaning
    two = [*others, Other(4, ExitStatus.of(-15), ())]
    assert compared(first, two, of_job=False).meaning == first.meaning


def test_the_silent_rank_is_named_where_all_write_to_one_output():
    lines = [WATCHDOG.format(rank) for rank in (0, 1, 3)]
    told = explained(failure(lines, -6, is_shared=True))
    assert among_workers(told, {0, 1, 2, 3}).meaning == SILENT
    assert among_workers(told, {0, 1, 2, 3, 4}).meaning == told.meaning
    assert among_workers(told, {0, 1, 3}).meaning == told.meaning


UNMARKED = WATCHDOG.split(" ", 1)[1]
ON_TEE = "[default{0}]:[E614 11:14:03.086 ProcessGroupNCCL.cpp:475] " + UNMARKED.split("] ", 1)[1]
BEHIND_A_BAR = " 1%|▏         | 24/1752 [01:08<1:22:56,  2.88s/it]" + WATCHDOG


@pytest.mark.parametrize("line", [WATCHDOG, UNMARKED, ON_TEE, BEHIND_A_BAR])
def test_a_watchdog_names_its_rank_in_one_output(line):
    told = explained(command([line.format(rank) for rank in (0, 1, 3)]))
    assert among_workers(told, {0, 1, 2, 3}).meaning == SILENT
    assert among_workers(told, {0, 1, 2, 3, 4}).meaning == told.meaning


@pytest.mark.parametrize("line", [WATCHDOG, BEHIND_A_BAR])
@pytest.mark.parametrize(
    ("fired", "more", "said"),
    [
        ((0, 1, 3), [], "rank 2, the only one of ranks 0 to 3"),
        ((1, 2, 3), [], "rank 0, the only one of ranks 0 to 3"),
        ((8, 9, 11), [], "rank 10, the only one of ranks 8 to 11"),
        ((0, 1, 2), ["[rank3]: saving"], "rank 3, the only one of ranks 0 to 3"),
        ((0, 1, 2, 3), [], None),
        ((0, 3), [], None),
        ((0,), ["[rank1]: saving"], None),
        ((0, 1, 3), [UNMARKED.format(7)], None),
    ],
)
def test_where_no_ranks_are_known_the_marks_tell_which_is_silent(line, fired, more, said):
    told = explained(command([*more, *(line.format(rank) for rank in fired)]))
    where = f"look at {said} whose watchdog did not fire"
    found = among_workers(told, set())
    assert (where in str(found.meaning)) if said else (found.meaning == told.meaning)


def test_the_rank_in_a_process_group_is_none_of_the_job():
    told = explained(command([UNMARKED.format(rank) for rank in (0, 1, 3)]))
    assert among_workers(told, set()).meaning == told.meaning
    assert among_workers(told, {4, 5, 6, 7}).meaning == told.meaning


def test_a_death_in_the_output_of_a_success_is_found():
    assert unheeded((*TRACEBACK, "eval: 0.9")) == (
        "holds an uncaught exception, ValueError: nan at device 1"
    )
    shell = "train.sh: line 3: 1234 Segmentation fault      (core dumped) python train.py"
    assert unheeded(("step 1", shell)) == f"holds the words of a shell, {shell!r}"
    said = "train.py: error: no data set"
    assert unheeded((said, "", "\n")) == f"ends with {said!r}"
    assert unheeded((said, "eval: 0.9")) is unheeded(("error: 0.03",)) is None


@pytest.mark.parametrize("name", ASIDES)
def test_an_aside_in_the_output_of_a_success_is_no_death(name):
    assert unheeded(output(ending_with(ASIDES[name], "raise SystemExit(1)"))) is None
