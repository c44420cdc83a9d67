"""Whose traceback it is: what children, threads and destructors raise ends no rank.

The words are those that real programs print.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.evidence.blame import blame, explained
from ascend_supervisor.outcome import ExitStatus, Failure
from tests.evidence.programs import (
    ASIDES,
    AT_THE_END,
    RAISES_LOSS,
    TRACEBACK_FAR_BACK,
    ending_with,
    output,
)

PROGRAMS = {**ASIDES, **AT_THE_END}


def failure(lines, **more) -> Failure:
    status = more.pop("status", ExitStatus(1))
    last = tuple(lines)
    return Failure("rank 1", 1, 0, status, runtime_seconds=1.0, last_lines=last, **more)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_rank_that_lost_its_peer_is_not_blamed_for_an_aside(name):
    told = failure(output(ending_with(PROGRAMS[name], RAISES_LOSS), 1))
    assert blame(told) is Blame.CONSEQUENCE
    found = explained(told).meaning
    assert found is not None
    assert found.endswith("look at the ranks on 10.64.77.53")


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_aside_alone_is_shown_and_blames_nobody(name):
    lines = output(ending_with(PROGRAMS[name], "raise SystemExit(1)"), 1)
    told = explained(failure(lines))
    assert (blame(failure(lines)), blame(told), told.meaning) == (
        Blame.UNKNOWN,
        Blame.UNKNOWN,
        None,
    )
    assert told.said is not None
    assert told.said.startswith(("in a child, a thread or at its end, ", "its last line is: "))


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_aside_does_not_take_the_place_of_the_ranks_own_exception(name):
    told = explained(failure(output(ending_with(PROGRAMS[name], "raise ValueError('nan')"), 1)))
    assert (blame(told), told.said) == (Blame.OWN, "ValueError: nan")


OUTPUTS = st.lists(
    st.sampled_from(sorted(PROGRAMS)).map(
        lambda name: output(ending_with(PROGRAMS[name], "raise SystemExit(1)"))
    )
    | st.lists(st.text(max_size=60), max_size=4).map(tuple),
    max_size=4,
)
LOSSES = st.just(output(RAISES_LOSS)) | st.just(())


@pytest.mark.thorough
@given(OUTPUTS, LOSSES, OUTPUTS, st.sampled_from([1, 2, 7, -6, -9]))
def test_no_mixture_of_asides_makes_a_failure_its_own(before, loss, after, code):
    lines = [line for part in (*before, loss, *after) for line in part]
    told = failure(lines, status=ExitStatus.of(code))
    assert blame(told) is not Blame.OWN
    assert blame(explained(told)) is not Blame.OWN


EXCEPTION_OF_A_GROUP = """\
import asyncio
async def work(): {}['gone']
async def main():
    async with asyncio.TaskGroup() as group: group.create_task(work())
asyncio.run(main())
"""
POOL = """\
import concurrent.futures
def work(): {}['gone']
if __name__ == '__main__':
    with concurrent.futures.ProcessPoolExecutor(1) as pool: pool.submit(work).result()
"""
POOL_OF_MULTIPROCESSING = """\
import multiprocessing
def work(_): {}['gone']
if __name__ == '__main__':
    with multiprocessing.Pool(1) as pool: pool.map(work, [1])
"""


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(EXCEPTION_OF_A_GROUP, marks=pytest.mark.filterwarnings("default")),
        POOL,
        POOL_OF_MULTIPROCESSING,
        "try: {}['gone']\nexcept KeyError as error: raise RuntimeError('no shard') from error",
        "import runpy; runpy.run_path.__call__; {}['gone']",
        "import asyncio\nasync def main(): {}['gone']\nasyncio.run(main())",
        "try: {}['gone']\nfinally: print('closed')",
    ],
    ids=["group", "pool", "multiprocessing pool", "cause", "plain", "asyncio", "finally"],
)
def test_what_a_child_or_a_task_hands_to_the_rank_is_the_ranks_own(source):
    if "TaskGroup" in source and not hasattr(__import__("asyncio"), "TaskGroup"):
        pytest.skip("task groups came with Python 3.11")
    told = explained(failure(output(source, 1)))
    assert (blame(told), told.said) == (Blame.OWN, "KeyError: 'gone'")


HANDLED = (
    "import sys, traceback\n"
    "def load():\n"
    "    try: {}['gone']\n"
    "    except KeyError: traceback.print_exc()\n"
    "load()\n"
)


@pytest.mark.parametrize(
    ("line", "said"),
    [("'step', n, 'loss', 2.5", "its last line is: step 49 loss 2.5"), ("n", "KeyError: 'gone'")],
    ids=["steps", "lines"],
)
def test_an_exception_that_was_handled_long_before_blames_nobody(line, said):
    """It is quoted where nothing shows that the training went on after it."""
    told = failure(output(f"{HANDLED}for n in range(50): print({line})\nsys.exit(1)", 1))
    assert blame(told) is Blame.UNKNOWN
    assert explained(told).said == said


def test_an_exception_that_a_framework_prints_at_the_end_is_the_ranks_own():
    source = f"{HANDLED}print('set FULL_ERROR=1 for a complete stack trace'); sys.exit(1)"
    assert blame(failure(output(source, 1))) is Blame.OWN


def test_the_words_of_a_lost_peer_after_an_exception_count():
    source = (
        "import sys, traceback\ntry: {}['gone']\nexcept KeyError: traceback.print_exc()\n"
        "print('step 3'); print('lost: [c10d] recvBytes failed: Connection reset by peer')\n"
        "sys.exit(1)"
    )
    assert blame(failure(output(source, 1))) is not Blame.OWN


@pytest.mark.parametrize(("lines", "width"), [(100, 80), (100, 400), (400, 100), (600, 1)])
def test_an_exception_is_found_before_much_other_output(lines, width):
    text = output(TRACEBACK_FAR_BACK.format(lines=lines, width=width), 1)
    told = explained(failure(text))
    assert (blame(told), told.said) == (Blame.OWN, "ValueError: nan")


RED = "\x1b[31m\x1b[1m"


@pytest.mark.parametrize(
    "drawn",
    [
        (f"{RED}Traceback\x1b[0m (most recent call last):", '  File "a.py", line 1, in <module>',
         f"{RED}ValueError\x1b[0m: \x1b[35mnan\x1b[0m"),
        ("╭───── Traceback (most recent call last) ─────╮", "│ /code/a.py:3 in <module> │",
         "╰──────────────────────╯", "ValueError: nan"),
        ("[2025-11-19 11:14:59] ERROR run.py: Traceback (most recent call last):",
         '[2025-11-19 11:14:59] ERROR run.py:   File "a.py", line 1, in <module>',
         "[2025-11-19 11:14:59] ERROR run.py: ValueError: nan"),
    ],
    ids=["colours", "rich", "a prefix"],
)  # fmt: skip
def test_colours_and_prefixes_hide_no_exception(drawn):
    lines = (*drawn, *(f"worker: line {number}" for number in range(100)))
    told = explained(failure(lines))
    assert (blame(told), told.said) == (Blame.OWN, "ValueError: nan")
