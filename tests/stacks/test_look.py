"""The last look at a generation, with real ranks."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

import anyio
import pytest
from msgspec.structs import replace

from ascend_supervisor.errors import HANG
from ascend_supervisor.events.hangs import StacksTaken
from ascend_supervisor.events.leftovers import OrphansKilled
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.job_files import place_of
from ascend_supervisor.life import Life, NothingSeen
from ascend_supervisor.outcome import Completed, Fault, Interrupted, Outcome
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes.proc import descendants
from ascend_supervisor.settings.readers import HangDump
from ascend_supervisor.stacks.look import Stacks
from ascend_supervisor.stacks.pyspy import installed
from ascend_supervisor.stacks.survey import NO_ANSWER
from ascend_supervisor.workers.faults import Ending
from tests.faults.facilities import hanging
from tests.stacks.hanging import (
    HEADLESS,
    LOCKED,
    LOOPS,
    READS,
    SLEEPS,
    STOPPED,
    STUCK,
    UP,
    call,
    main_thread_has_ended,
    state,
    until,
    wchan,
)
from tests.workers.test_generation import Stage

DENIED = "echo 'Error: Permission Denied' >&2; exit 1"
"""What a stub in the place of py-spy does, so that only /proc is left."""
LISTENS = (
    "import faulthandler, signal; faulthandler.register(signal.SIGUSR1, all_threads=True)\n" + UP
)

Ready = Callable[[], object]


def taker(
    stage: Stage,
    how: HangDump = "auto",
    stub: str = DENIED,
    log_dir: Path | None = None,
    searched: Path = Path("/nowhere"),
) -> Stacks:
    """Takes stacks with a ``stub`` as py-spy; ``searched`` is the first directory of PATH."""
    program = stage.root / "bin" / "py-spy"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{stub}\n")
    program.chmod(0o755)
    path = f"{searched}:{program.parent}:{os.environ['PATH']}"
    runtime = replace(stage.runtime, environ={**os.environ, "PATH": path})
    return Stacks(how, place(stage, log_dir), runtime, stage.interrupts)


def place(stage: Stage, log_dir: Path | None = None):
    return place_of(
        {"JOB_ID": "job"},
        "here",
        mounted_log_exists=False,
        here=PurePath(stage.root),
        log_dir=log_dir or PurePath("logs"),
    )


async def lived(
    stage: Stage, look, specs: Sequence[ProcessSpec], ready: Ready = lambda: True
) -> Outcome:
    """The outcome of these ranks, which hang, with a last look as soon as they are ``ready``."""

    async def hang() -> None:
        await stage.up(*(spec.rank for spec in specs if spec.rank is not None))
        await until(ready)

    stage.look = look
    return await stage.run(specs, after(hang), grace=0.1)


def after(act: Callable[[], Awaitable[None]]) -> Ending:
    """An ending that acts once, although it is asked again while the ranks are ended."""
    has_acted = anyio.Event()

    async def ending() -> Fault:
        if not has_acted.is_set():
            await act()
            has_acted.set()
        return Fault("no progress", HANG, last_look=True)

    return ending


async def hung(
    stage: Stage, look, specs: Sequence[ProcessSpec], ready: Ready = lambda: True
) -> str:
    """What the reason of the fault says of these ranks, before it says where the files are."""
    outcome = await lived(stage, look, specs, ready)
    assert isinstance(outcome, Fault), outcome
    assert outcome.reason == f"no progress; {taken(stage).sentence}"
    return taken(stage).summary


def rank(stage: Stage, rank: int) -> int:
    """Its pid."""
    return stage.lived.processes[rank].pid


def taken(stage: Stage) -> StacksTaken:
    (event,) = (event for event in stage.events if isinstance(event, StacksTaken))
    return event


def text(stage: Stage, rank: int = 0) -> str:
    return Path(taken(stage).directory, f"rank-{rank}.txt").read_text()


@pytest.mark.parametrize(
    ("source", "expected", "told"),
    [
        (SLEEPS, "S", "rank 0 waits in {wchan}"),
        (LOCKED, "S", "rank 0 waits in {wchan}"),
        (READS, "S", "rank 0 waits in {wchan}"),
        (LOOPS, "R", "rank 0 is running"),
        (STOPPED, "T", "rank 0 is stopped (state T)"),
        (STUCK, "D", "rank 0 is in uninterruptible sleep (state D) in {wchan}"),
    ],
)
async def test_where_only_proc_can_be_read_it_says_where_a_rank_is(stage, source, expected, told):
    where = ""

    def ready() -> bool:
        nonlocal where
        pid = rank(stage, 0)
        where = wchan(pid)
        is_read = source is not READS or call(pid) == "read"
        return state(pid) == expected and is_read and (where != "0") == (expected != "R")

    said = await hung(stage, taker(stage).look, [stage.spec(0, source)], ready)
    assert said == told.format(wchan=where)
    assert "py-spy: Error: Permission Denied; the container needs the capability" in text(stage)


async def test_all_ranks_are_told_in_one_sentence_and_a_file_for_each(stage):
    specs = [*(stage.spec(rank, LOCKED) for rank in range(3)), stage.spec(3, STOPPED)]

    def ready() -> bool:
        return state(rank(stage, 3)) == "T" and all(
            call(rank(stage, n)) == "futex" for n in range(3)
        )

    said = await hung(stage, taker(stage).look, specs, ready)
    assert said.startswith("3 of 4 ranks wait in futex")
    assert said.endswith("; rank 3 is stopped (state T)")
    event = taken(stage)
    assert event.summary == said
    assert event.directory == str(stage.root / "logs" / "job-hang-0")
    assert event.files == tuple(f"rank-{rank}.txt" for rank in range(4))
    assert event.sentence == f"{said}; 4 files in {event.directory}"
    assert "called by futex" in text(stage, 2)
    assert ": state T" in text(stage, 3)


async def test_behind_a_shell_the_process_that_it_waits_for_is_told(stage):
    argv = ("sh", "-c", 'python=$1; "$python" -c "$2"; true', "sh", sys.executable, STOPPED)

    def ready() -> bool:
        return all_stopped(stage, 1) and call(rank(stage, 0)) == "wait4"

    said = await hung(stage, taker(stage).look, [stage.spec(0, "", argv=argv)], ready)
    assert said == "rank 0 is stopped (state T)"
    assert text(stage).count("\nProcess ") == 2


def starting(number: int, then: str) -> str:
    """A program that starts so many stopped ranks, each in a session of its own."""
    return (
        "import os, subprocess, sys, time\n"
        f"for rank in range({number}):\n"
        "    environ = {**os.environ, 'RANK': str(rank), 'LOCAL_RANK': str(rank)}\n"
        f"    words = [sys.executable, '-c', {STOPPED!r}]\n"
        "    subprocess.Popen(words, env=environ, start_new_session=True)\n" + then
    )


def all_stopped(stage: Stage, number: int) -> bool:
    below = descendants(rank(stage, 0))
    return [state(pid) for pid in below] == number * ["T"]


async def test_the_workers_of_a_launcher_are_told_as_ranks(stage):
    launcher = replace(stage.spec(0, starting(3, SLEEPS), workers=3), rank=None, title="torchrun")
    ready = lambda: all_stopped(stage, 3) and len(stage.lived.processes[0].ranks_of_workers) == 3  # noqa: E731
    said = await hung(stage, taker(stage).look, [launcher], ready)
    assert said == "all 3 ranks are stopped (state T)"
    files = ("rank-0.txt", "rank-1.txt", "rank-2.txt", "torchrun.txt")
    assert taken(stage).files == files
    assert [text(stage, n).count("\nProcess ") for n in range(3)] == [1, 1, 1]


async def test_the_ranks_of_a_command_that_starts_them_are_told(stage):
    command = replace(
        stage.spec(0, starting(2, SLEEPS), leads_ranks=True), rank=None, title="run.sh"
    )
    said = await hung(stage, taker(stage).look, [command], lambda: all_stopped(stage, 2))
    assert said == "all 2 ranks are stopped (state T)"
    assert taken(stage).files == ("rank-0.txt", "rank-1.txt", "run.sh.txt")


async def test_a_rank_that_has_ended_is_told_as_such(stage):
    specs = [stage.spec(0, SLEEPS), stage.spec(1, UP)]
    said = await hung(stage, taker(stage).look, specs, lambda: 1 in stage.exits)
    assert "rank 1 has ended" in said
    assert "The process has ended." in text(stage, 1)


async def test_a_rank_whose_main_thread_has_ended_is_where_its_other_threads_are(stage):
    """The frames of its main thread, which py-spy still shows, say nothing of it."""
    dead = '{"name": "<module>", "filename": "/code/train.py", "line": 9}'
    frames = '[{"name": "all_reduce", "filename": "/code/train.py", "line": 88}]'
    stub = (
        'for last; do :; done; case "$*" in *--nonblocking*) ;; *) exit 1 ;; esac\n'
        f"""echo '[{{"thread_name": "MainThread", "os_thread_id": 1, "frames": [{dead}]}},'\n"""
        f"""echo '{{"thread_name": "Thread-1", "os_thread_id": '$last', "frames": {frames}}}]'"""
    )
    specs = [stage.spec(0, HEADLESS)]
    ready = lambda: main_thread_has_ended(rank(stage, 0))  # noqa: E731
    said = await hung(stage, taker(stage, stub=stub).look, specs, ready)
    assert said == "rank 0 waits in all_reduce (train.py:88)"


async def test_without_py_spy_a_rank_whose_main_thread_has_ended_has_not_ended(stage):
    specs = [stage.spec(0, HEADLESS)]
    ready = lambda: main_thread_has_ended(rank(stage, 0))  # noqa: E731
    said = await hung(stage, taker(stage).look, specs, ready)
    assert re.fullmatch(r"rank 0 waits in [\w.]+", said)


async def test_python_calls_of_a_stub_are_told(stage):
    frames = '[{"name": "all_reduce", "filename": "/code/train.py", "line": 88}]'
    stub = f"""echo '[{{"thread_name": "MainThread", "frames": {frames}}}]'"""
    said = await hung(stage, taker(stage, stub=stub).look, [stage.spec(0, LOCKED)])
    assert said.endswith("in all_reduce (train.py:88)")
    assert "    all_reduce (/code/train.py:88)\n" in text(stage)


async def test_secrets_of_command_lines_are_not_in_the_files(stage):
    argv = (sys.executable, "-c", SLEEPS, "--token=abcdef")
    await hung(stage, taker(stage).look, [stage.spec(0, "", argv=argv)])
    assert "--token=***" in text(stage)
    assert "abcdef" not in text(stage)


async def test_before_the_first_process_there_is_nothing_to_see(stage):
    life = Life(await stage.prepare([stage.spec(0, SLEEPS)]))
    seen = await taker(stage).take(life, "dump")
    assert seen == NothingSeen("no process has been started yet")


async def test_none_looks_at_nothing(stage):
    outcome = await lived(stage, taker(stage, "none").look, [stage.spec(0, SLEEPS)])
    assert outcome == Fault("no progress", HANG, last_look=True)
    assert not (stage.root / "logs").exists()


# What goes wrong meanwhile.


async def test_told_to_stop_it_ends_at_once_with_what_was_seen(stage):
    stub = f"touch {stage.root}/attached-$$; exec sleep 600"

    async with anyio.create_task_group() as tasks:

        async def stop() -> None:  # py-spy comes after /proc, at each rank
            await until(lambda: len(list(stage.root.glob("attached-*"))) == 2)
            stage.interrupts.hear(signal.SIGTERM)

        tasks.start_soon(stop)
        specs = [stage.spec(0, SLEEPS), stage.spec(1, STOPPED)]
        ready = lambda: state(rank(stage, 1)) == "T"  # noqa: E731
        outcome = await lived(stage, taker(stage, stub=stub).look, specs, ready)
    assert isinstance(outcome, Interrupted)
    assert "rank 1 is stopped (state T)" in taken(stage).summary
    assert taken(stage).duration_seconds < 5
    assert text(stage, 0).count("Process ") == 1
    assert "(py-spy was cut short)" in text(stage, 0)


def fill(path: Path) -> None:
    """Until its disk has no room for another byte."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


async def test_a_disk_that_does_not_answer_is_not_waited_for(stage):
    with hanging(stage.root, os.geteuid(), "disk") as (disk,):
        disk.freeze()
        look = taker(stage, log_dir=disk.target / "logs").look
        ready = lambda: state(rank(stage, 0)) == "T"  # noqa: E731
        said = await hung(stage, look, [stage.spec(0, STOPPED)], ready)
        assert said.endswith(": the disk has not answered within 2 s)")
        disk.thaw()


async def test_on_a_full_disk_the_sentence_comes_all_the_same(stage, small_disk):
    fill(small_disk / "filling")
    look = taker(stage, log_dir=small_disk).look
    said = await hung(stage, look, [stage.spec(0, STOPPED)], lambda: state(rank(stage, 0)) == "T")
    assert said.startswith(f"rank 0 is stopped (state T) (no file could be written to {small_disk}")
    assert said.endswith(": No space left on device)")
    assert taken(stage).files == ()
    assert taken(stage).sentence == said


async def test_where_there_can_be_no_log_directory_the_sentence_comes_all_the_same(stage):
    (stage.root / "file").write_text("")
    look = taker(stage, log_dir=stage.root / "file").look
    said = await hung(stage, look, [stage.spec(0, STOPPED)], lambda: state(rank(stage, 0)) == "T")
    assert said.startswith("rank 0 is stopped (state T) (no file could be written to ")


@pytest.mark.long
async def test_a_directory_of_path_that_does_not_answer_costs_one_thread(stage):
    """However often somebody asks for a dump; and what /proc says is there."""
    with hanging(stage.root, os.geteuid(), "tools") as (tools,):
        tools.freeze()
        stacks = taker(stage, searched=tools.target)

        async def ask() -> None:
            await stage.up(0)
            threads = []
            for _ in range(4):
                event = await stacks.take(stage.lived, "dump")
                assert isinstance(event, StacksTaken)
                page = Path(event.directory, "rank-0.txt").read_text()
                assert f"{NO_ANSWER}: the file system does not answer" in page
                threads.append(threading.active_count())
            assert tools.asked == 1
            assert threads[-1] <= threads[0]

        await stage.run([stage.spec(0, SLEEPS)], after(ask))
        tools.thaw()


# What an operator asks for.


async def test_an_operator_may_ask_at_any_time_and_nothing_is_ended(stage):
    stacks = taker(stage)
    specs = [stage.spec(rank, SLEEPS) for rank in range(2)]
    events = []

    async def ask() -> None:
        await stage.up(0, 1)
        events.extend([await stacks.take(stage.lived, "dump") for _ in range(2)])
        assert not stage.exits
        assert "T" not in {state(rank(stage, n)) for n in range(2)}

    await stage.run(specs, after(ask))
    told = [event for event in stage.events if isinstance(event, StacksTaken)]
    assert [Path(event.directory).name for event in told] == ["job-dump-0", "job-dump-0-2"]
    assert events == told


async def test_who_asks_during_a_look_gets_the_result_of_that(stage):
    stacks = taker(stage)
    events = []

    async def take() -> None:
        events.append(await stacks.take(stage.lived, "dump"))

    async def ask() -> None:
        await stage.up(0)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(take)

    await stage.run([stage.spec(0, SLEEPS)], after(ask))
    assert events == 3 * [taken(stage)]


ATTACHED = "sleep 600 & : >{attached}; exec sleep 600"


@pytest.mark.parametrize(
    ("occasion", "how", "has_pyspy", "is_said"),
    [
        ("dump", "auto", False, True),
        ("dump", "pyspy", False, True),
        ("dump", "auto", True, False),
        ("dump", signal.SIGUSR1, False, False),
        ("hang", "auto", False, False),
    ],
)
async def test_an_operator_is_told_once_what_python_stacks_need(
    stage, occasion, how, has_pyspy, is_said
):
    """Without py-spy, and only if stacks were not to come from a signal."""
    stub = stage.root / "bin" / "py-spy"
    stub.parent.mkdir()
    if has_pyspy:
        stub.write_text("#!/bin/sh\nexit 1\n")
        stub.chmod(0o755)
    runtime = replace(stage.runtime, environ={**os.environ, "PATH": "/nowhere"})
    stacks = Stacks(how, place(stage), runtime, stage.interrupts, beside=stub.parent)

    async def look(life) -> str:
        await stacks.take(life, occasion)
        return ""

    ranks = [stage.spec(number, LISTENS + "time.sleep(600)") for number in (0, 1)]
    await lived(stage, look, ranks)
    said = taken(stage).summary.count("(Python stacks need py-spy: pip install py-spy)")
    assert said == is_said


async def dumped_meanwhile(stage: Stage, spec: ProcessSpec, *endings: Ending, **more) -> Outcome:
    """The outcome of a generation that ends while py-spy, a stub, looks at it."""
    attached = stage.root / "attached"
    stacks = taker(stage, stub=ATTACHED.format(attached=attached))
    async with anyio.create_task_group() as tasks:

        async def dump() -> None:
            await until(lambda: "lived" in vars(stage) and stage.lived.processes)
            await stacks.take(stage.lived, "dump")

        tasks.start_soon(dump)
        outcome = await stage.run([spec], *endings, **more)
        tasks.cancel_scope.cancel()
    await until(lambda: not descendants(os.getpid()))
    return outcome


async def test_a_dump_is_nothing_that_the_ranks_have_left_behind(stage):
    async def attached() -> Fault:
        await until((stage.root / "attached").exists)
        return Fault("enough", HANG)

    await dumped_meanwhile(stage, stage.spec(0, SLEEPS), attached)
    assert not [event for event in stage.events if isinstance(event, OrphansKilled)]


async def test_a_dump_is_nothing_that_a_command_has_left_or_that_is_waited_for(stage):
    waits = f"import os, time\nwhile not os.path.exists({str(stage.root / 'attached')!r}): "
    command = replace(
        stage.spec(0, f"{waits}time.sleep(0.01)", leads_ranks=True), rank=None, title="run.sh"
    )
    outcome = await dumped_meanwhile(stage, command, grace=600.0)
    assert outcome == Completed("run.sh")
    assert not [e for e in stage.events if isinstance(e, (OrphansKilled, Diagnostic))]


# A signal that the user names.


async def test_a_rank_that_handles_the_signal_tells_its_stacks_itself(stage):
    source = LISTENS + "def next_batch(): time.sleep(600)\nnext_batch()"
    specs = [stage.spec(0, source), stage.spec(1, SLEEPS)]
    said = await hung(
        stage, taker(stage, signal.SIGUSR1).look, specs, lambda: state(rank(stage, 0)) == "S"
    )
    assert "rank 0 waits in next_batch (<string>:3)" in said
    assert '|   File "<string>", line 3 in next_batch' in text(stage, 0)
    assert "SIGUSR1 was not sent: it has no handler, and would die of it" in text(stage, 1)
    assert said.endswith(" (SIGUSR1 was not sent to 1 rank without a handler)")
    assert {event.signal for event in stage.exits.values()} == {"SIGTERM"}


async def test_behind_a_shell_the_first_process_with_a_handler_gets_the_signal(stage):
    source = LISTENS + "time.sleep(600)"
    argv = ("sh", "-c", 'python=$1; "$python" -c "$2"; true', "sh", sys.executable, source)
    await hung(stage, taker(stage, signal.SIGUSR1).look, [stage.spec(0, "", argv=argv)])
    assert "(most recent call first)" in text(stage)


async def test_a_process_that_serves_ranks_gets_no_signal(stage):
    server = replace(
        stage.spec(1, LISTENS + "time.sleep(600)"), rank=None, title="sshd", significant=False
    )
    ready = (stage.root / "rank1.txt").exists
    said = await hung(
        stage, taker(stage, signal.SIGUSR1).look, [stage.spec(0, SLEEPS), server], ready
    )
    assert said.startswith("rank 0 ")
    directory = Path(taken(stage).directory)
    assert taken(stage).files == ("rank-0.txt", "sshd.txt")
    assert "SIGUSR1 was" not in (directory / "sshd.txt").read_text()


# With the real py-spy.

TRAIN = f"""{UP}
lock = threading.Lock()
def all_reduce():
    lock.acquire()
lock.acquire()
all_reduce()
"""
DATA = f"""{UP}
def next_batch():
    os.kill(os.getpid(), 19)
    time.sleep(600)
next_batch()
"""


async def test_with_pyspy_it_says_which_line_each_rank_is_in(stage):
    if installed(os.environ) is None:
        pytest.skip("py-spy is not installed")
    train, data = stage.root / "train.py", stage.root / "data.py"
    train.write_text(TRAIN)
    data.write_text(DATA)
    specs = [stage.spec(n, "", argv=(sys.executable, str(train))) for n in range(3)]
    specs.append(stage.spec(3, "", argv=(sys.executable, str(data))))
    look = Stacks("auto", place(stage), stage.runtime, stage.interrupts).look

    def ready() -> bool:
        return state(rank(stage, 3)) == "T" and all(
            call(rank(stage, n)) == "futex" for n in range(3)
        )

    said = await hung(stage, look, specs, ready)
    if "SYS_PTRACE" in text(stage):
        pytest.skip("py-spy may not be used here")
    assert said == (
        "3 of 4 ranks wait in all_reduce (train.py:5); "
        "rank 3 is stopped (state T) in next_batch (data.py:4)"
    )
