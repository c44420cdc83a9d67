"""What faulthandler prints, read back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ascend_supervisor.stacks.seen import Frame
from ascend_supervisor.stacks.signalled import threads_of

TEXT = """epoch 3
Thread 0x00007f52d17fa6c0 (most recent call first):
  File "/code/log.py", line 12 in run

Current thread 0x00007f530157a740 [python] (most recent call first):
  File "/code/train.py", line 88 in all_reduce
  File "/code/train.py", line ??? in <module>
epoch 4
"""


def test_the_thread_that_handled_the_signal_is_the_main_thread():
    other, main = threads_of(TEXT.splitlines())
    assert (other.thread_name, main.thread_name) == (None, "MainThread")
    assert other.frames == (Frame("run", "/code/log.py", 12),)
    assert main.frames == (
        Frame("all_reduce", "/code/train.py", 88),
        Frame("<module>", "/code/train.py", 0),
    )


def test_a_stack_whose_head_was_cut_off_is_not_told():
    assert threads_of(TEXT.splitlines()[2:3]) == ()


DUMPS = """
import faulthandler, sys, threading
def waits():
    go.wait()
def dumps():
    for path, of_all in zip(sys.argv[1:], (True, False)):
        with open(path, "w") as file:
            faulthandler.dump_traceback(file, all_threads=of_all)
go = threading.Event()
threading.Thread(target=waits).start()
dumps()
go.set()
"""
"""In a process of its own: a test runner may have more than the 100 threads that are printed."""


def test_it_is_what_this_python_prints(tmp_path: Path):
    of_all, of_one = tmp_path / "all", tmp_path / "one"
    subprocess.run([sys.executable, "-c", DUMPS, of_all, of_one], check=True)
    found = threads_of(of_all.read_text().splitlines())
    alone = threads_of(of_one.read_text().splitlines())
    assert len(found) >= 2
    (main,) = (thread for thread in found if thread.thread_name == "MainThread")
    assert main.frames[0].name == "dumps"
    assert [thread.frames[0].name for thread in alone] == [main.frames[0].name]
