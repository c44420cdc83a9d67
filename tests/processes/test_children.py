"""One owner of every waitpid."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.processes.children import Child, Children, library_changes
from ascend_supervisor.processes.kernel import parent_death_prefix
from ascend_supervisor.processes.pid import DeathOrder
from ascend_supervisor.processes.proc import descendants, is_zombie


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    owner = Children()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, owner.reap)
    yield owner
    loop.remove_signal_handler(signal.SIGCHLD)


def start(children: Children, *argv: str, **environ: str) -> Child:
    return children.spawn(
        argv, environ={"PATH": os.environ["PATH"], **environ}, cwd="/", output=subprocess.DEVNULL
    )


async def test_children_that_die_in_the_same_moment_keep_their_own_statuses(children, tmp_path):
    """Two waiters lose some of these; one child at a time would never show it."""
    source = (
        "import os, time\n"
        "while not os.path.exists('go'): time.sleep(0.001)\n"
        "os._exit(int(os.environ['CODE']))"
    )
    for turn in range(20):
        place = tmp_path / str(turn)
        place.mkdir()
        started = [
            children.spawn(
                (sys.executable, "-S", "-c", source),
                environ={"CODE": str(code)},
                cwd=str(place),
                output=subprocess.DEVNULL,
            )
            for code in range(8)
        ]
        (place / "go").touch()
        with anyio.fail_after(20):
            statuses = [await child.ended() for child in started]
        assert statuses == list(range(8))
    assert not [pid for pid in descendants(os.getpid()) if is_zombie(pid)]


async def test_who_died_first_is_told_first(children):
    """Five of them, in another order than that of their start, all between two looks."""
    if not has_pidfds():
        pytest.skip("no pidfd_open here (Linux 5.3)")
    started = [start(children, "sleep", "600") for _ in range(5)]
    told = []

    async def tell(child):
        await child.ended()
        told.append(child)

    async with anyio.create_task_group() as tasks:
        for child in started:
            tasks.start_soon(tell, child)
        await anyio.lowlevel.checkpoint()
        dying = [started[index] for index in (3, 0, 4, 2, 1)]
        for child in dying:
            os.kill(child.pid, signal.SIGKILL)
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    assert told == dying


def no_pidfd(pid: int) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.mark.parametrize("pidfd_open", [None, no_pidfd], ids=["old Python", "old kernel"])
async def test_without_pidfds_every_death_is_told_all_the_same(pidfd_open):
    owner = Children(order=DeathOrder(pidfd_open))
    started = [start(owner, "true") for _ in range(5)]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(owner.keep_reaping)
        with anyio.fail_after(20):
            assert [await child.ended() for child in started] == [0] * 5
        tasks.cancel_scope.cancel()


async def test_a_child_that_cannot_be_watched_is_no_failure_to_start_it():
    """As where fs.epoll.max_user_watches is used up: the kernel refuses to watch /dev/null, too."""
    opened = []

    def unwatchable(_: int) -> int:
        opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        return opened[-1]

    owner = Children(order=DeathOrder(unwatchable))
    child = start(owner, "sh", "-c", "exit 3")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(owner.keep_reaping)
        with anyio.fail_after(20):
            assert await child.ended() == 3
        tasks.cancel_scope.cancel()
    (descriptor,) = opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def has_pidfds() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


async def test_a_signal_is_told_apart_from_a_status(children):
    child = start(children, "sleep", "600")
    os.kill(child.pid, signal.SIGKILL)
    with anyio.fail_after(20):
        assert await child.ended() == -signal.SIGKILL


TRACED = """
import ctypes, os, signal, sys, time
assert ctypes.CDLL(None).ptrace(0, 0, None, None) == 0  # PTRACE_TRACEME
"""
HEARS = """
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGUSR2})
signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
print("up", flush=True)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1, signal.SIGUSR2})
while True:
    time.sleep(0.05)
"""


def start_traced(children: Children, source: str) -> tuple[Child, int]:
    """It and the read end of its output; it is traced by us."""
    read_end, write_end = os.pipe()
    argv = (sys.executable, "-S", "-c", TRACED + source)
    child = children.spawn(argv, environ={}, cwd="/", output=write_end)
    os.close(write_end)
    return child, read_end


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGSTOP); os._exit(7)", 7),
        ("signal.raise_signal(signal.SIGSTOP); os._exit(7)", 7),
        ("os.execv('/bin/sh', ['sh', '-c', 'exit 7'])", 7),
        ("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
        ("os.abort()", -signal.SIGABRT),
        (
            "signal.signal(signal.SIGALRM, lambda *_: os._exit(7)); signal.raise_signal(14)",
            7,
        ),
    ],
    ids=["SIGSTOP of its own", "raised", "exec", "SIGTERM", "abort", "a handler"],
)
async def test_a_child_that_made_us_its_tracer_goes_on_as_if_it_had_not(children, source, status):
    child, read_end = start_traced(children, source)
    with anyio.fail_after(20):
        assert await child.ended() == status
    os.close(read_end)


async def test_a_signal_of_others_reaches_a_traced_child(children):
    child, read_end = start_traced(children, HEARS)
    assert os.read(read_end, 3) == b"up\n"
    os.close(read_end)
    os.kill(child.pid, signal.SIGUSR1)
    with anyio.fail_after(20):
        assert await child.ended() == 7


async def test_a_traced_child_that_others_stop_stops_until_they_continue_it(children):
    child, read_end = start_traced(children, HEARS)
    assert os.read(read_end, 3) == b"up\n"
    os.close(read_end)
    os.kill(child.pid, signal.SIGSTOP)
    with anyio.fail_after(20):
        while state_of(child.pid) != ("T", "0"):
            await anyio.sleep(0.005)
        os.kill(child.pid, signal.SIGUSR1)
        os.kill(child.pid, signal.SIGCONT)
        assert await child.ended() == 7


def state_of(pid: int) -> tuple[str, str]:
    """Its state and its tracer, as /proc/PID/status has them."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    facts = dict(line.split(":\t", 1) for line in lines)
    return facts["State"][0], facts["TracerPid"]


async def test_a_thread_that_made_us_its_tracer_is_let_go(children):
    """Its stops and its end are told with its own number, which is no child's."""
    source = """
import threading

def run():
    assert ctypes.CDLL(None).ptrace(0, 0, None, None) == 0
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

signal.signal(signal.SIGUSR1, lambda *_: None)
thread = threading.Thread(target=run)
thread.start()
thread.join()
os._exit(7)
"""
    child, read_end = start_traced(children, source)
    with anyio.fail_after(20):
        assert await child.ended() == 7
    os.close(read_end)


async def test_an_end_is_known_although_a_grandchild_holds_the_output(children):
    read_end, write_end = os.pipe()
    child = children.spawn(
        ("sh", "-c", "sleep 600 & exit 3"), environ={}, cwd="/", output=write_end
    )
    os.close(write_end)
    with anyio.fail_after(20):
        assert await child.ended() == 3
    os.killpg(child.pid, signal.SIGKILL)
    os.close(read_end)


async def test_the_sweep_makes_up_for_a_signal_that_was_lost():
    owner = Children()
    child = start(owner, "true")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(owner.keep_reaping)
            assert await child.ended() == 0
            tasks.cancel_scope.cancel()


async def test_a_process_has_a_session_of_its_own_and_default_signals(children):
    read_end, write_end = os.pipe()
    previous = signal.signal(signal.SIGUSR1, lambda *_: None)
    child = children.spawn(
        ("cat", "/proc/self/status", "/proc/self/stat"),
        environ={"PATH": os.environ["PATH"]},
        cwd="/",
        output=write_end,
    )
    os.close(write_end)
    with anyio.fail_after(20):
        await child.ended()
    signal.signal(signal.SIGUSR1, previous)
    status, _, stat = os.read(read_end, 1 << 16).decode().rpartition("\n" + str(child.pid))
    os.close(read_end)
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    # Signals 32 and 33 are the C library's own; whoever started us may have them ignored.
    assert int(masks["SigIgn"], 16) & ~(0b11 << 31) == 0
    assert int(masks["SigBlk"], 16) == 0
    assert stat.rpartition(")")[2].split()[3] == str(child.pid)


async def test_what_cannot_be_started_raises_and_leaves_nothing(children):
    with pytest.raises(FileNotFoundError):
        start(children, "/no/such/program")
    assert descendants(os.getpid()) == []


def test_the_parent_death_prefix_runs_a_command_as_it_stands():
    prefix = parent_death_prefix()
    if not prefix:
        pytest.skip("no setpriv that knows --pdeathsig")
    done = subprocess.run([*prefix, "sh", "-c", "exit 7"], check=False)
    assert done.returncode == 7


def test_only_what_changes_libraries_is_set_again_before_a_command():
    ours = {"LD_LIBRARY_PATH": "/ours", "LD_BIND_NOW": "1", "LD_DEBUG": "files", "A": "1"}
    theirs = {"LD_LIBRARY_PATH": "/theirs", "LD_BIND_NOW": "1", "GLIBC_TUNABLES": "x", "A": "2"}
    assert library_changes(ours, theirs) == {
        "GLIBC_TUNABLES": "x",
        "LD_DEBUG": None,
        "LD_LIBRARY_PATH": "/theirs",
    }
