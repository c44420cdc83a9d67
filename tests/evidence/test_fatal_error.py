"""The frame in which a fatal signal came is told, whatever stands before and between its lines.

The words are those that real programs print.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.evidence.blame import explained
from ascend_supervisor.outcome import ExitStatus, Worker
from tests.evidence.programs import output
from tests.evidence.test_asides import failure
from tests.evidence.test_shared_output import MARKS, command, marked

CRASH = "import ctypes, faulthandler; faulthandler.enable()\ndef step(): ctypes.string_at(0)\n"
ALONE = CRASH + "step()"
AMONG_THREADS = (
    f"{CRASH}import threading, time\n"
    "def wait(): time.sleep(600)\n"
    "for _ in range(3): threading.Thread(target=wait, daemon=True).start()\n"
    "step()"
)
IN_A_THREAD = (
    f"{CRASH}import threading\n"
    "def load(): step()\n"
    "thread = threading.Thread(target=load); thread.start(); thread.join()"
)
AFTER_A_CHILD = (
    f"{CRASH}import os, subprocess, sys\n"
    "other = 'import ctypes, faulthandler; faulthandler.enable()\\ndef load(): {}\\nload()'\n"
    "for end in ('ctypes.string_at(0)', 'import os; os.abort()'):\n"
    "    subprocess.run([sys.executable, '-c', other.format(end)])\n"
    "step()"
)
PROGRAMS = {
    "alone": ALONE,
    "among threads": AMONG_THREADS,
    "in a thread": IN_A_THREAD,
    "after children": AFTER_A_CHILD,
}
STACKS_OF_ALL = [
    "Current thread 0x00007f1b529d9b80 (most recent call first):",
    '  File "/code/where.py", line 3 in dumped',
    "",
]
"""What a handler of SIGUSR1 prints with faulthandler.register."""
BAR = " 50%|█████     | 3/6 [00:03<00:03,  1.00s/it]"
SEGV = ExitStatus.of(-11)


def crashed(name: str) -> list[str]:
    return [*STACKS_OF_ALL, *output(PROGRAMS[name], -11)]


def says_the_frame(said: str | None) -> bool:
    return said is not None and "Segmentation fault, at " in said and ", in string_at" in said


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_that_of_the_last_crash(name):
    assert says_the_frame(explained(failure(crashed(name), status=SEGV)).said)


TEMPLATES = {
    **{name: (zero, one) for name, (zero, one, _) in MARKS.items()},
    "torchrun of old": ("[0]:", "[1]:"),
    "torchrun --log-prefix-template": ("[trainer0|0]:", "[trainer1|1]:"),
    "another template": ("local 0 of host-3> ", "local 1 of host-3> "),
}


@pytest.mark.parametrize("worker", [True, False], ids=["a launcher tells", "a shell tells"])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_it_is_found_behind_marks_and_between_lines_of_others(name, program, worker):
    zero, one = TEMPLATES[name]
    crash = marked(one, crashed(program))
    lines = [line for each in crash for line in (each, f"{zero}step 4", f"{BAR}")]
    more = {"worker": Worker(1, SEGV)} if worker else {"status": ExitStatus(139)}
    assert says_the_frame(explained(command(lines, **more)).said)


@pytest.mark.parametrize("mark", ["", "[default1]:", "[1,1]<stderr>:"])
def test_a_progress_bar_may_stand_before_each_line(mark):
    crash = [f"{mark}{BAR}{line}" if line else mark for line in crashed("alone")]
    assert says_the_frame(explained(command(crash, worker=Worker(1, SEGV))).said)


def test_the_crash_of_another_rank_or_process_is_not_quoted():
    crash = [*output(ALONE, -11)]
    other = command(marked("[1,0]<stderr>:", crash), worker=Worker(1, SEGV))
    assert explained(other).said == "rank 1 was killed by SIGSEGV"
    for code in (-9, -7):
        assert explained(failure(crash, status=ExitStatus.of(code))).said is None


@given(st.lists(st.sampled_from([*output(ALONE, -11), *STACKS_OF_ALL, BAR]) | st.text()))
def test_no_mixture_of_lines_is_an_error(lines):
    explained(failure(lines, status=SEGV))
