"""What faulthandler prints, read back."""

from __future__ import annotations

import faulthandler
import threading
from pathlib import Path

from ascend_supervisor.stacks.faulthandler_text import threads_of
from ascend_supervisor.stacks.seen import Frame

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


def test_it_is_what_this_python_prints(tmp_path: Path):
    go = threading.Event()
    other = threading.Thread(target=go.wait)
    other.start()
    with (tmp_path / "stacks").open("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        found = threads_of(file.read().splitlines())
        file.truncate(0)
        faulthandler.dump_traceback(file, all_threads=False)
        file.seek(0)
        alone = threads_of(file.read().replace("\0", "").splitlines())
    go.set()
    other.join()
    assert len(found) >= 2
    (main,) = (thread for thread in found if thread.thread_name == "MainThread")
    assert main.frames[0].name == "test_it_is_what_this_python_prints"
    assert [thread.frames[0].name for thread in alone] == [main.frames[0].name]
