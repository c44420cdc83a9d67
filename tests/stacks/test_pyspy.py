"""py-spy, the real one and stubs in its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.stacks.pyspy import PySpy, PySpyFailed, installed
from ascend_supervisor.stacks.seen import Frame, PythonThread
from tests.running import DEADLINE_SECONDS, begins_in_python
from tests.stacks.hanging import (
    HEADLESS,
    LOOPS,
    SLEEPS,
    STOPPED,
    STUCK,
    main_thread_has_ended,
    state,
    until,
)

IN_A_FUNCTION = (
    "import os, time\ndef next_batch(): os.write(1, b'up\\n'); time.sleep(600)\nnext_batch()"
)
ATTACHES = f"""{begins_in_python()}
import ctypes, os, sys, time
pid = int(sys.argv[-1])
ctypes.CDLL(None).ptrace(16, pid, None, None)  # PTRACE_ATTACH
os.waitpid(pid, 0x40000000)
open(sys.argv[0] + ".attached", "w").close()
time.sleep(600)
"""

Stub = Callable[..., PySpy]


@pytest.fixture
def stub(children: Children, tmp_path: Path) -> Stub:
    """``stub(script, seconds)``: a program in the place of py-spy."""

    def make(script: str, seconds: float = DEADLINE_SECONDS) -> PySpy:
        path = tmp_path / "py-spy"
        path.write_text(script)
        path.chmod(0o755)
        return PySpy(str(path), children, dict(os.environ), seconds)

    return make


@pytest.fixture
async def spy(children: Children, start) -> PySpy:
    """The real one, if it works here."""
    found = installed(os.environ)
    if found is None:
        pytest.skip("py-spy is not installed")
    spy = PySpy(found, children, dict(os.environ), DEADLINE_SECONDS)
    try:
        await spy.paused(pid(await start(SLEEPS)))
    except PySpyFailed as failed:
        pytest.skip(f"py-spy cannot be used here: {failed}")
    return spy


def pid(child) -> Pid:
    found = Pid.of(child.pid)
    assert found is not None
    return found


async def goes_on(pid: Pid) -> None:
    """Wait until it is seen running; a test of a process that LOOPS."""
    await until(lambda: state(pid.number) == "R")
    before = time_used(pid)
    await until(lambda: time_used(pid) > before)


def time_used(pid: Pid) -> int:
    """Its processor time in clock ticks, proc(5)."""
    return int(Path(f"/proc/{pid.number}/stat").read_text().rpartition(")")[2].split()[11])


async def test_it_tells_the_calls_of_each_thread(spy, start):
    child = await start(IN_A_FUNCTION)
    (main,) = await spy.paused(pid(child))
    assert main.os_thread_id == child.pid
    assert main.frames == (Frame("next_batch", "<string>", 2), Frame("<module>", "<string>", 3))
    (unpaused,) = await spy.unpaused(pid(child))
    assert unpaused.frames == main.frames
    assert state(child.pid) == "S"


async def test_a_process_that_it_has_paused_goes_on(spy, start):
    child = pid(await start(LOOPS))
    await spy.paused(child)
    await goes_on(child)


@pytest.mark.parametrize(("source", "expected"), [(STOPPED, "T"), (STUCK, "D")])
async def test_a_process_that_cannot_be_paused_is_read_as_it_is(spy, start, source, expected):
    child = await start(source)
    await until(lambda: state(child.pid) == expected)
    (main,) = await spy.unpaused(pid(child))
    assert main.frames[-1].name == "<module>"
    assert state(child.pid) == expected


async def test_a_process_whose_main_thread_has_ended_is_read_by_another_one(spy, start):
    child = await start(HEADLESS)
    await until(lambda: main_thread_has_ended(child.pid))
    (thread,) = {int(task.name) for task in Path(f"/proc/{child.pid}/task").iterdir()} - {child.pid}
    threads = await spy.unpaused(pid(child), thread)
    assert "all_reduce" in {one.frames[0].name for one in threads if one.frames}


async def test_a_process_stays_not_stopped_when_it_is_killed_while_it_is_attached(stub, start):
    child = pid(await start(LOOPS))
    hangs = stub(ATTACHES, seconds=1)
    with pytest.raises(PySpyFailed, match="it did not end in time, and was killed"):
        await hangs.paused(child)
    assert Path(f"{hangs.program}.attached").exists()
    await goes_on(child)


async def test_a_process_stays_not_stopped_when_the_look_is_cut_short(stub, start):
    child = pid(await start(LOOPS))
    hangs = stub(ATTACHES)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hangs.paused, child)
        await until(Path(f"{hangs.program}.attached").exists)
        assert state(child.number) == "t"
        tasks.cancel_scope.cancel()
    await goes_on(child)


async def test_a_process_that_it_has_left_stopped_is_continued(stub, start):
    child = pid(await start(LOOPS))
    leaves = stub('#!/bin/sh\nfor last; do :; done; kill -STOP "$last"; echo "[]"\n')
    assert await leaves.paused(child) == ()
    await goes_on(child)


JSON = '[{"pid": 1, "frames": [{"name": "f", "filename": "a.py", "line": 7, "locals": null}]}]'


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 3", "it ended with status 3"),
        ("echo words >&2; exit 1", "words"),
        (
            "echo 'Error: Failed' >&2; echo 'Reason: no \033[2J' >&2; exit 1",
            "Error: Failed",
        ),
        (
            "echo 'Error: Permission Denied' >&2; exit 1",
            "Error: Permission Denied; the container needs the capability SYS_PTRACE for it",
        ),
        ("echo rubbish", "its output is not as expected: JSON is malformed"),
        ("", "its output is not as expected: Input data was truncated"),
        ("echo '[{}]'", "its output is not as expected: Object missing required field"),
        ("head -c 100000 /dev/zero | tr '\\0' '['", "its output is not as expected"),
        ('printf \'[{"frames": [{"name": "\\377"\'', "its output is not as expected"),
        ("head -c 5000000 /dev/zero", "it has printed more than 4 MiB"),
        ("kill -9 $$", "it ended with status -9"),
    ],
)
async def test_what_it_does_wrong_is_told_in_one_sentence(stub, start, script, told):
    child = pid(await start(SLEEPS))
    with pytest.raises(PySpyFailed) as failed:
        await stub(f"#!/bin/sh\n{script}\n").unpaused(child)
    assert str(failed.value).startswith(told)
    assert str(failed.value).isprintable()


async def test_its_warnings_are_not_its_output(stub, start):
    child = pid(await start(SLEEPS))
    noisy = stub(f"#!/bin/sh\necho '[WARN] odd' >&2\necho '{JSON}'\n")
    assert await noisy.unpaused(child) == (PythonThread((Frame("f", "a.py", 7),)),)


async def test_what_it_has_started_does_not_outlive_it(stub, start, tmp_path):
    child = pid(await start(SLEEPS))
    hangs = stub(f"#!/bin/sh\nsleep 600 & echo $! >{tmp_path}/below; wait\n", seconds=1)
    with pytest.raises(PySpyFailed):
        await hangs.unpaused(child)
    below = int((tmp_path / "below").read_text())
    await until(lambda: not Path(f"/proc/{below}").exists() or state(below) in "ZX")


async def test_a_writer_that_never_stops_is_stopped(stub, start):
    child = pid(await start(SLEEPS))
    with pytest.raises(PySpyFailed, match="did not end in time"):
        await stub("#!/bin/sh\nexec cat /dev/zero\n", seconds=0.5).unpaused(child)


async def test_a_program_that_cannot_be_executed_is_told(children, start):
    child = pid(await start(SLEEPS))
    with pytest.raises(PySpyFailed, match="it cannot be started: No such file or directory"):
        await PySpy("/nowhere/py-spy", children, {}).unpaused(child)


def test_it_is_found_on_path_or_beside_this_python(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "py-spy").write_text("#!/bin/sh\n")
        (tmp_path / name / "py-spy").chmod(0o755)
    first, second = tmp_path / "first", tmp_path / "second"
    assert installed({"PATH": f"{first}"}, second) == f"{first}/py-spy"
    assert installed({"PATH": "/nowhere"}, second) == f"{second}/py-spy"
    assert installed({"PATH": "/nowhere"}, tmp_path) is None
