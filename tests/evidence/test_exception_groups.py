"""Of an exception group the exceptions in it are the cause, in the words that real programs print.

The groups of Python 3.11 and newer, and of the backport for Python 3.10, are printed alike.
"""

from __future__ import annotations

import sys

import pytest

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.evidence.blame import blame, explained
from ascend_supervisor.evidence.last_words import words_of
from tests.evidence.programs import LOST, output
from tests.evidence.test_asides import failure
from tests.evidence.test_shared_output import MARKS, command, marked

BUILT_IN = pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
TASKS = """\
import {library}
async def work(): {end}
async def inner():
    async with {group} as group: group.{start}
async def main():
    async with {group} as group: group.{start_inner}
{run}
"""
ANYIO = {"library": "anyio", "group": "anyio.create_task_group()", "start": "start_soon(work)",
         "start_inner": "start_soon(inner)", "run": "anyio.run(main)"}  # fmt: skip
ASYNCIO = {"library": "asyncio", "group": "asyncio.TaskGroup()", "start": "create_task(work())",
           "start_inner": "create_task(inner())", "run": "asyncio.run(main())"}  # fmt: skip
NO_FRAMES = "raise ExceptionGroup('2 of 9 shards', [ValueError('nan'), TypeError('x')])"
CAUSED = (
    "def load():\n"
    "    try: {}['gone']\n"
    "    except KeyError as error: raise RuntimeError('no shard') from error\n"
    "try: load()\n"
    "except RuntimeError as error: "
)


@BUILT_IN
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (TASKS.format(end="{}['gone']", **ANYIO), "KeyError: 'gone'"),
        (TASKS.format(end="{}['gone']", **ASYNCIO), "KeyError: 'gone'"),
        (NO_FRAMES, "ValueError: nan"),
        ("raise ExceptionGroup('', [ExceptionGroup('in', [TypeError('nan')])])", "TypeError: nan"),
        ("raise ExceptionGroup('two\\nlines', [ValueError('nan\\nsecond: x')])", "ValueError: nan"),
        ("class Many(ExceptionGroup): pass\nraise Many('', [ValueError('nan')])",
         "ValueError: nan"),
        ("raise ExceptionGroup('', [ValueError(number) for number in range(30)])", "ValueError: 0"),
        ("raise BaseExceptionGroup('', [KeyboardInterrupt(), ValueError('nan')])",
         "ValueError: nan"),
        (("error = ValueError('nan'); error.add_note('a note: x')\n"
          "raise ExceptionGroup('', [error])"), "ValueError: nan"),
        ("raise ExceptionGroup('', [RuntimeError('NPU out of memory. Tried')])",
         "RuntimeError: NPU out of memory. Tried"),
        (f"try: {NO_FRAMES}\nexcept* ValueError: raise", "ValueError: nan"),
        (f"try: {NO_FRAMES}\nexcept* ValueError: raise KeyError('later')", "ValueError: nan"),
        (f"try: {NO_FRAMES}\nexcept* Exception as e: raise KeyError('later') from e",
         "ValueError: nan"),
        (f"try: {NO_FRAMES}\nexcept Exception as e: raise OSError('it failed') from e",
         "ValueError: nan"),
        (f"{CAUSED}raise ExceptionGroup('many', [error])", "KeyError: 'gone'"),
        (f"{CAUSED}raise ExceptionGroup('many', [error]) from None", "KeyError: 'gone'"),
        (f"{CAUSED}raise ExceptionGroup('', [TypeError('x'), error])", "KeyError: 'gone'"),
        (f"{CAUSED}raise ExceptionGroup('', [OSError('x'), ExceptionGroup('', [error])])",
         "KeyError: 'gone'"),
        (("try:\n  try: raise ExceptionGroup('', [ValueError('nan')])\n"
          "  except ExceptionGroup as error: raise RuntimeError('no shard') from error\n"
          "except RuntimeError as error: raise ExceptionGroup('', [error])"), "ValueError: nan"),
    ],
)  # fmt: skip
def test_the_first_exception_in_a_group_is_the_cause(source, said):
    told = explained(failure(output(source, 1)))
    assert (blame(told), told.said) == (Blame.OWN, said)


@BUILT_IN
def test_a_group_that_was_never_raised_is_read_where_it_was_printed():
    source = f"import sys, traceback\n{NO_FRAMES.replace('raise ', 'group = ')}\n"
    lines = output(f"{source}traceback.print_exception(group); sys.exit(1)", 1)
    assert explained(failure(lines)).said == "ValueError: nan"


@BUILT_IN
def test_a_group_in_a_thread_is_an_aside():
    source = f"import threading\ndef work(): {NO_FRAMES}\nthreading.Thread(target=work).start()"
    lines = output(f"{source}\nraise SystemExit(1)")
    told = explained(failure(lines))
    assert blame(told) is Blame.UNKNOWN
    assert told.said == "in a child, a thread or at its end, ValueError: nan"


@BUILT_IN
@pytest.mark.parametrize("first", ["", "ValueError('nan'), "])
def test_a_lost_peer_in_a_group_is_never_the_ranks_own(first):
    told = explained(failure(output(f"raise ExceptionGroup('', [{first}OSError({LOST!r})])", 1)))
    expected = Blame.UNKNOWN if first else Blame.CONSEQUENCE
    assert blame(told) is expected


def deep(error: str, depth: int) -> str:
    return f"ExceptionGroup('', [{deep(error, depth - 1)}])" if depth else error


@BUILT_IN
@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (deep("ValueError('nan')", 10), Blame.OWN, "ValueError: nan"),
        (deep("ValueError('nan')", 11), Blame.UNKNOWN, "ExceptionGroup:  (1 sub-exception)"),
        (f"ExceptionGroup('', [{deep('OSError(1)', 11)}, ValueError('nan')])", Blame.UNKNOWN,
         "ValueError: nan"),
        (deep(f"ExceptionGroup('', [{deep('OSError(1)', 5)}, ValueError('nan')])", 8),
         Blame.UNKNOWN, "ValueError: nan"),
        (f"ExceptionGroup('', [ValueError('nan'), {deep('OSError(1)', 11)}])", Blame.OWN,
         "ValueError: nan"),
        (f"ExceptionGroup('', [{deep('ValueError(1)', 3)}, TypeError('x')])", Blame.OWN,
         "ValueError: 1"),
    ],
)  # fmt: skip
def test_what_is_nested_too_deep_to_be_printed_may_be_the_cause(error, expected, said):
    """Python prints 10 levels."""
    told = explained(failure(output(f"raise {error}", 1)))
    assert (blame(told), told.said) == (expected, said)


BACKPORT = """\
  + Exception Group Traceback (most recent call last):
  |   File "/code/train.py", line 12, in <module>
  |     raise ExceptionGroup("eg", errors)
  | exceptiongroup.ExceptionGroup: eg (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | exceptiongroup.ExceptionGroup: in (1 sub-exception)
    +-+---------------- 1 ----------------
      | Traceback (most recent call last):
      |   File "/code/train.py", line 7, in work
      |     {}['gone']
      | KeyError: 'gone'
      +------------------------------------
    +---------------- 2 ----------------
    | ValueError: nan
    +------------------------------------
"""
COLOURED = """\
  + \x1b[0mException Group Traceback (most recent call last):
  |   File \x1b[35m"/code/train.py"\x1b[0m, line \x1b[35m1\x1b[0m, in \x1b[35m<module>\x1b[0m
  |     \x1b[1;31mraise ExceptionGroup('eg', [KeyError('gone')])\x1b[0m
  | \x1b[1;35mExceptionGroup\x1b[0m: \x1b[35meg (1 sub-exception)\x1b[0m
  +-+---------------- 1 ----------------
    | \x1b[1;35mKeyError\x1b[0m: \x1b[35m'gone'\x1b[0m
    +------------------------------------
"""
CAUSE_IN_THE_GROUP = """\
Traceback (most recent call last):
  File "/code/train.py", line 4, in <module>
    try: load()
         ~~~~^^
  File "/code/train.py", line 3, in load
    except KeyError as error: raise RuntimeError('no shard') from error
                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
RuntimeError: no shard

During handling of the above exception, another exception occurred:

  + Exception Group Traceback (most recent call last):
  |   File "/code/train.py", line 5, in <module>
  |     except RuntimeError as error: raise ExceptionGroup('many', [TypeError('x'), error])
  |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  | ExceptionGroup: many (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | TypeError: x
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/code/train.py", line 2, in load
    |     try: {}['gone']
    |          ~~^^^^^^^^
    | KeyError: 'gone'
    |\x20
    | The above exception was the direct cause of the following exception:
    |\x20
    | Traceback (most recent call last):
    |   File "/code/train.py", line 4, in <module>
    |     try: load()
    |          ~~~~^^
    |   File "/code/train.py", line 3, in load
    |     except KeyError as error: raise RuntimeError('no shard') from error
    |                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    | RuntimeError: no shard
    +------------------------------------
"""
"""Python 3.13 and the backport print a cause there, and not again outside of the group."""
IN_A_THREAD = CAUSE_IN_THE_GROUP.replace("in <module>", "in run").replace(
    "Traceback", "Exception in thread Thread-1 (run):\nTraceback", 1
)


@pytest.mark.parametrize(
    "text",
    [BACKPORT, COLOURED, CAUSE_IN_THE_GROUP],
    ids=["the backport", "colours", "Python 3.13"],
)
def test_groups_of_other_pythons_are_read(text):
    told = explained(failure(text.splitlines()))
    assert (blame(told), told.said) == (Blame.OWN, "KeyError: 'gone'")


def test_all_of_a_group_with_a_history_in_a_thread_is_an_aside():
    told = failure([*IN_A_THREAD.splitlines(), *output("raise SystemExit(1)")])
    assert blame(told) is Blame.UNKNOWN
    assert not any("KeyError" in line for line in words_of(told).lines)


@BUILT_IN
@pytest.mark.parametrize("name", MARKS)
def test_groups_in_one_log_of_many_ranks_are_told_apart(name):
    zero, one, whose = MARKS[name]
    lost = output(TASKS.format(end=f"raise OSError({LOST!r})", **ANYIO), 1)
    told = explained(command([*marked(zero, [*lost]), *marked(one, [*output(NO_FRAMES, 1)])]))
    assert (told.meaning, told.said) == (None, f"{whose}ValueError: nan")
    assert blame(told) is Blame.OWN
