"""Which commands are Python programs that can wait as a standby, and where their options end."""

from __future__ import annotations

import pytest

from ascend_supervisor.settings.command_words import PythonProgram, profiler_of, python_program


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("python train.py --lr 1", 1),
        ("/opt/py/bin/python3.11 train.py -m x", 1),
        ("python3 -u -W ignore -X dev train.py -i", 6),
        ("python -Wignore -OO -m package.train -x", 3),
        ("python --check-hash-based-pycs always train.py", 3),
        ("python -Xi train.py", 2),
    ],
)
def test_the_options_of_python_end_where_its_program_begins(command, options):
    words = tuple(command.split())
    assert python_program(words) == PythonProgram(words[:options], words[options:])


@pytest.mark.parametrize(
    "command",
    [
        *("train.py", "bash train.sh", "env python train.py", "torchrun train.py"),
        *(
            "python",
            "python -",
            "python -c pass",
            "python -V",
            "python -mtrain",
            "python -um train",
        ),
        *("python -i train.py", "python -ui train.py", "python -x train.py"),
    ],
)
def test_what_python_does_not_just_run_waits_nowhere(command):
    assert python_program(command.split()) is None


@pytest.mark.parametrize(
    ("command", "profiler"),
    [
        ("python -m coverage run train.py", "python -m coverage"),
        ("python -u /venv/bin/coverage run train.py", "coverage"),
        ("python -m cProfile -o out train.py", "python -m cProfile"),
        ("python -m train coverage", None),
        ("python train.py -m coverage", None),
    ],
)
def test_a_profiler_is_told_from_a_program_that_python_runs(command, profiler):
    program = python_program(command.split())
    assert program is not None
    assert profiler_of(program) == profiler
