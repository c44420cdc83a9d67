"""Programs that are asked, and that may hang, print for ever, fail, or leave others behind."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ascend_supervisor.processes.program_output import ProgramOutput, output_of
from tests.running import wait_until


def python(source: str) -> tuple[str, ...]:
    return (sys.executable, "-c", source)


def test_what_a_program_prints_is_there_with_its_errors():
    said = output_of(("sh", "-c", "echo out; echo err >&2"), 10, 1000)
    assert said == ProgramOutput(b"out\nerr\n")


def test_a_program_that_fails_says_so():
    said = output_of(("sh", "-c", "echo no; exit 3"), 10, 1000)
    assert said == ProgramOutput(b"no\n", "it exited with status 3")
    assert output_of(("sh", "-c", "kill -9 $$"), 10, 9).trouble == "it was killed by signal 9"


def test_a_program_that_does_not_exist_says_so(tmp_path):
    trouble = "it cannot be started: No such file or directory"
    assert output_of((str(tmp_path / "absent"),), 10, 1000) == ProgramOutput(b"", trouble)


def test_a_program_that_hangs_is_killed_with_what_it_started(tmp_path):
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 600 & echo $$ $! > {pids}; echo begun; wait; sleep 600"
    began = time.monotonic()
    said = output_of(("sh", "-c", script), 3, 1000)
    assert time.monotonic() - began < 30
    trouble = "it was killed: it has not ended within 3 s"
    assert said == ProgramOutput(b"begun\n", trouble, is_late=True)
    left = [Path("/proc", pid) for pid in pids.read_text().split()]
    wait_until(lambda: not any(map(_runs, left)))


def _runs(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_daemon_that_holds_the_output_is_not_waited_for():
    began = time.monotonic()
    said = output_of(("sh", "-c", "echo here; setsid sleep 600 & exit 0"), 3, 1000)
    assert (said.text, said.is_late) == (b"here\n", True)
    assert time.monotonic() - began < 30


def test_a_program_that_prints_for_ever_is_cut():
    said = output_of(("yes",), 10, 100_000)
    assert (len(said.text), said.is_late) == (100_000, False)
    assert said.trouble == "it was killed: it prints more than is kept"


def test_a_program_gets_the_environment_and_the_directory(tmp_path):
    environ = {"PATH": os.environ["PATH"], "WORD": "yes"}
    said = output_of(("sh", "-c", "echo $WORD; pwd"), 10, 1000, environ, str(tmp_path))
    assert said.text.split() == [b"yes", os.fsencode(tmp_path)]


def interrupting(begun: Callable[[], object]) -> int:
    """So many bytes: who asks whether they are more than none is interrupted, as by Ctrl-C."""

    class Bytes(int):
        def __gt__(self, other: object) -> bool:
            begun()
            raise KeyboardInterrupt

    return Bytes(9)


def test_a_program_is_killed_where_an_exception_ends_the_wait(tmp_path):
    held = tmp_path / "held"
    os.mkfifo(held)
    with os.fdopen(os.open(held, os.O_RDONLY | os.O_NONBLOCK)) as pipe:
        runs = ("sh", "-c", "exec 3> $0; echo begun >&3; sleep 600", str(held))
        begun = partial(wait_until, lambda: select.select([pipe], [], [], 0)[0])
        with pytest.raises(KeyboardInterrupt):
            output_of(runs, 600, interrupting(begun))
        os.set_blocking(pipe.fileno(), True)
        assert pipe.read() == "begun\n"  # its end: nobody has it open any more
