"""The text of one file."""

from __future__ import annotations

from hypothesis import given, strategies

from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.stacks.seen import (
    Frame,
    KernelThread,
    Looked,
    PythonThread,
    SeenProcess,
    Subject,
)
from ascend_supervisor.stacks.whereabouts import MOST_OF_A_FILE, page

SUBJECT = Subject("rank 3", 3, 10, Activity(0.0), "/log/3.txt")
FRAMES = (Frame("all_reduce", "/site/c10d.py", 2806), Frame("<module>", "train.py"))
STACK = "[<0>] futex_do_wait+0x1\n[<0>] x"
PROCESS = SeenProcess(
    10,
    1,
    2,
    "10 (state S in futex_do_wait): python train.py",
    (
        KernelThread(
            10, "python", "S", "futex_do_wait", "futex", "[<0>] futex_do_wait+0x1\n[<0>] x"
        ),
    ),
    (PythonThread(FRAMES, "MainThread", 10, active=False, owns_gil=True),),
    ["stack cannot be read: Operation not permitted"],
)
TEXT = """\
Why
rank 3, its log: /log/3.txt
(a note)

Process 10 (state S in futex_do_wait): python train.py
  (stack cannot be read: Operation not permitted)
  Python thread 10 "MainThread" (idle, holds the GIL), innermost call first:
    all_reduce (/site/c10d.py:2806)
    <module> (train.py)
  Thread 10 python: state S, in the kernel's futex_do_wait, called by futex
    [<0>] futex_do_wait+0x1
    [<0>] x
"""


def test_it_holds_all_that_was_seen():
    assert page(Looked(SUBJECT, [PROCESS], ["a note"]), "Why") == TEXT


def test_a_process_that_has_ended_or_was_not_read_is_told_as_such():
    assert "has ended" in page(Looked(SUBJECT, has_ended=True), "Why")
    assert "Nothing could be read in time" in page(Looked(SUBJECT), "Why")


def test_what_it_has_written_on_a_signal_is_part_of_it():
    assert "\n| epoch\\x1b 3\n" in page(Looked(SUBJECT, output=("epoch\x1b 3",)), "Why")


@given(strategies.text(), strategies.text())
def test_names_of_strangers_begin_no_line_of_their_own(name, file):
    thread = PythonThread((Frame(name, file, 1),), name, 10)
    process = SeenProcess(10, 1, 2, "10", (KernelThread(10, name, "S", stack="one"),), (thread,))
    assert len(page(Looked(SUBJECT, [process]), "Why").splitlines()) == 8


def test_a_very_long_one_is_cut():
    thread = PythonThread(4096 * (Frame(1000 * "x", "train.py", 1),), "MainThread", 10)
    process = SeenProcess(10, 1, 2, "10", (), (thread,))
    text = page(Looked(SUBJECT, [process]), "Why")
    assert MOST_OF_A_FILE < len(text) < MOST_OF_A_FILE + 100
    assert text.endswith("... cut here, because the file would be too long\n")
