"""What /proc says of real processes: descendants, zombies, files, and what is gone."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import holds_file
from ascend_supervisor.programs import guardian, mpirun_head
from tests.running import END_MAIN_THREAD, wait_until

DEADLINE = 20.0

CHILDREN = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleep)
source = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:]).pid, flush=True)"
source += "; time.sleep(600)"
middle = subprocess.Popen([sys.executable, "-c", source, *sleep], stdout=subprocess.PIPE)
grandchild = int(middle.stdout.readline())
print(child.pid, middle.pid, grandchild, flush=True)
time.sleep(600)
"""
THREAD = """
import subprocess, sys, threading, time
def run():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(child.pid, flush=True)
    child.wait()
threading.Thread(target=run).start()
time.sleep(600)
"""
WAIT = "print('ready', flush=True); import time; time.sleep(600)"

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python processes, each in a group of its own, of which nothing outlives the test."""
    started: list[subprocess.Popen[bytes]] = []

    def python(source: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", source, *arguments]
        started.append(
            subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True, **options)
        )
        return started[-1]

    yield python
    for process in started:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE)
        assert process.stdout is not None
        process.stdout.close()


def said(process: subprocess.Popen[bytes]) -> list[str]:
    """The words of its next line."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], DEADLINE)
    assert ready, "nothing was said in time"
    return process.stdout.readline().decode().split()


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it, and wait until it is a zombie, which it remains."""
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def gone(start: Start) -> int:
    """The pid of a process that was, and is no more."""
    process = start("")
    process.wait(DEADLINE)
    return process.pid


def test_descendants_are_children_and_grandchildren(start):
    process = start(CHILDREN)
    expected = sorted(int(word) for word in said(process))
    assert sorted(proc.descendants(process.pid)) == expected


def test_children_of_another_thread_are_children_too(start):
    process = start(THREAD)
    expected = [int(word) for word in said(process)]
    assert proc.descendants(process.pid) == expected


def test_our_own_descendants_hold_what_we_start(start):
    process = start(WAIT)
    said(process)
    assert process.pid in proc.descendants(os.getpid())
    assert process.pid in set(proc.pids())


def test_a_zombie_is_one_and_is_still_a_child(start):
    process = start(WAIT)
    said(process)
    assert not proc.is_zombie(process.pid)
    end(process)
    assert proc.is_zombie(process.pid)
    assert process.pid in proc.descendants(os.getpid())
    assert proc.description(process.pid) == f"{process.pid} (state Z): no command line"


def headless(start: Start, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """A process whose main thread has ended, while another one goes on."""
    source = f"""
import sys, threading, time
files = [open(name) for name in sys.argv[1:]]
threading.Thread(target=time.sleep, args=(600,)).start()
print("up", flush=True)
{END_MAIN_THREAD}
"""
    process = start(source, *arguments, **options)
    said(process)
    wait_until(lambda: thread_states(process.pid) == ["S", "Z"])
    return process


def thread_states(pid: int) -> list[str]:
    stats = [path.read_text() for path in Path("/proc", str(pid)).glob("task/*/stat")]
    return sorted(stat.rpartition(")")[2].split()[0] for stat in stats)


def test_a_process_whose_main_thread_has_ended_lives_and_shows_what_it_holds(start, tmp_path):
    device = tmp_path / "davinci0"
    device.touch()
    process = headless(start, str(device), env={**os.environ, "MARK": "x"})
    pid = process.pid
    assert not proc.is_zombie(pid)
    found = proc.stat(pid)
    assert found is not None
    assert (found.state, found.parent, found.session) == ("S", os.getpid(), pid)
    assert proc.environ(pid)[b"MARK"] == b"x"
    assert proc.started_with(b"MARK", [pid, 999_999_999]) == [pid]
    assert proc.words(pid)[0] == sys.executable
    assert holds_file(pid, frozenset({str(device)}))
    assert not holds_file(pid, frozenset({"/nowhere"}))
    # A thread that is about to sleep is in state S already, and waits nowhere yet.
    waits = re.compile(rf"{pid} \(state S in [\w.]+\): {sys.executable} -c .*")
    wait_until(lambda: waits.fullmatch(proc.description(pid)))
    assert proc.in_our_pid_namespace(pid)
    assert pid in {process for (process, _), _ in guardian.living()}
    assert pid in {process for process, _ in guardian.marked((b"5", b"MARK=x"))}
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: proc.description(pid).startswith(f"{pid} (state T"))
    end(process)
    assert proc.is_zombie(pid)
    assert pid not in {process for (process, _), _ in guardian.living()}
    assert not holds_file(pid, frozenset({str(device)}))


def test_a_rank_of_mpirun_whose_main_thread_has_ended_is_one(start):
    process = headless(start, env={**os.environ, "OMPI_COMM_WORLD_RANK": "0"})
    assert mpirun_head.is_rank(str(process.pid))
    end(process)
    assert not mpirun_head.is_rank(str(process.pid))
    process.wait(DEADLINE)
    assert not mpirun_head.is_rank(str(process.pid))


def test_a_start_time_stays_and_rises_with_the_next_process(start):
    first = start(WAIT)
    said(first)
    second = start(WAIT)
    said(second)
    times = [proc.start_time(pid) or 0 for pid in (os.getpid(), first.pid, second.pid)]
    assert times == sorted(times)
    assert times[0] > 0
    end(first)
    assert proc.start_time(first.pid) == times[1]


def test_parent_group_and_session_are_told(start):
    process = start(WAIT)
    said(process)
    found = proc.stat(process.pid)
    assert found is not None
    assert found.parent == proc.parent(process.pid) == os.getpid()
    assert found.group == found.session == process.pid


def test_the_environment_is_the_one_it_was_started_with(start):
    environ = {b"MARK": b"a=b\nc", b"EMPTY": b"", b"NOT_UTF_8": b"\xff"}
    process = start(WAIT, env={**os.environb, **environ})
    said(process)
    assert environ.items() <= proc.environ(process.pid).items()
    end(process)
    assert proc.environ(process.pid) == {}


def test_a_file_is_held_while_it_is_open(start, tmp_path):
    device, other = tmp_path / "davinci0", tmp_path / "davinci1"
    device.touch()
    source = (
        "import sys; file = open(sys.argv[1]); print(flush=True)\n"
        "sys.stdin.read(); file.close(); print(flush=True)\n"
    )
    process = start(source + WAIT, str(device), stdin=subprocess.PIPE)
    said(process)
    assert holds_file(process.pid, frozenset({str(other), str(device)}))
    assert not holds_file(process.pid, frozenset({str(other)}))
    assert not holds_file(process.pid, frozenset())
    assert process.stdin is not None
    process.stdin.close()
    said(process)
    assert not holds_file(process.pid, frozenset({str(device)}))


def test_a_description_names_pid_state_and_command(start):
    process = start(WAIT, "an argument")
    said(process)
    text = proc.description(process.pid)
    assert text.startswith(f"{process.pid} (state ")
    assert f"): {sys.executable} -c print('ready'" in text
    assert len(text) < 300


def test_a_description_keeps_secrets(start):
    process = start(WAIT, "--token=abcdef", "--password", "ghijkl")
    said(process)
    text = proc.description(process.pid)
    assert text.endswith(" --token=*** --password ***")


@pytest.mark.parametrize("secret", ["https://me:ghijkl{}@host/", "hf_ghijkl{}"])
def test_a_secret_that_is_cut_in_two_is_kept(start, secret):
    """Each word ends after what is shown of the command line, and its secret begins before."""
    beside = len(f"{sys.executable} -c {WAIT} ") + len("https://me:ghijkl")
    process = start(WAIT, "x" * (195 - beside), secret.format("m" * 200))
    said(process)
    assert "ghi" not in proc.description(process.pid)


def test_a_description_is_one_line_that_can_be_printed(start):
    process = start(f"'two'\n{WAIT}", "\x1b[2J", "\udcff", "x" * 100_000)
    said(process)
    text = proc.description(process.pid)
    assert text.isprintable()
    assert len(text) < 300


def test_a_process_whose_memory_cannot_be_read_is_asked_once_and_left(tmp_path):
    """As one that is stuck in a driver: nobody writes to the pipes in place of its files."""
    folder = tmp_path / "10"
    folder.mkdir()
    (folder / "stat").write_text("10 (a) D 1 10" + " 0" * 40)
    (folder / "wchan").write_text("devdrv_wait")
    os.mkfifo(folder / "environ")
    os.mkfifo(folder / "cmdline")
    before = threading.active_count()
    for _ in range(20):
        assert proc.environ(10, tmp_path) == {}
        expected = "10 (state D in devdrv_wait): its command line cannot be read now"
        assert proc.description(10, tmp_path) == expected
    assert threading.active_count() <= before + 2
    (folder / "environ").open("wb").close()  # now both reads come to an end
    (folder / "cmdline").open("wb").close()
    for name, content in (("environ", b"A=b\0"), ("cmdline", b"train\0--fast\0")):
        (folder / name).unlink()
        (folder / name).write_bytes(content)
    end = time.monotonic() + DEADLINE
    while proc.environ(10, tmp_path) != {b"A": b"b"}:  # the earlier read is over soon
        assert time.monotonic() < end
        time.sleep(0.005)
    while not proc.description(10, tmp_path).endswith(": train --fast"):
        assert time.monotonic() < end
        time.sleep(0.005)


def test_among_many_processes_one_that_does_not_answer_hides_no_other(tmp_path):
    for number in range(10, 20):
        (tmp_path / str(number)).mkdir()
        content = b"A=b\0OWNER=x\0" if number % 2 else b"OWNERS=x\0A=OWNER=x\0"
        (tmp_path / str(number) / "environ").write_bytes(content)
        (tmp_path / str(number) / "cmdline").write_bytes(b"train\0%d\0" % number)
    for number in (13, 17):  # they are asked for again and again, and never answer
        (tmp_path / str(number) / "environ").unlink()
        os.mkfifo(tmp_path / str(number) / "environ")
    for _ in range(3):
        found = proc.started_with(b"OWNER", [*range(10, 20), 99], tmp_path)
        assert found == [11, 15, 19]
    lines = proc.command_lines([12, 99, 13], tmp_path)
    assert lines == [["train", "12"], [], ["train", "13"]]


def test_who_is_asked_for_its_memory_costs_no_thread_each():
    before = threading.active_count()
    for _ in range(200):
        assert proc.environ(os.getpid())
    assert threading.active_count() <= before + 1


def test_a_process_that_is_gone_has_nothing(gone):
    assert proc.descendants(gone) == []
    assert proc.start_time(gone) is proc.parent(gone) is None
    assert proc.stat(gone) is None
    assert not proc.is_zombie(gone)
    assert proc.environ(gone) == {}
    assert not holds_file(gone, frozenset({"/dev/null"}))
    assert not proc.in_our_pid_namespace(gone)
    assert proc.description(gone) == f"{gone} (gone)"


def test_we_are_in_our_own_pid_namespace(start):
    process = start(WAIT)
    said(process)
    assert proc.in_our_pid_namespace(os.getpid())
    assert proc.in_our_pid_namespace(process.pid)


NAMES = ["a b", "a) Z 1 2", "(", ")", "训练", "a训练训练训练", "\udcff"]


@pytest.mark.parametrize("name", NAMES)
def test_a_process_may_have_any_name(start, tmp_path, name):
    program = tmp_path / name
    program.symlink_to(sys.executable)
    process = start(WAIT, executable=str(program))
    said(process)
    assert proc.parent(process.pid) == os.getpid()
    assert not proc.is_zombie(process.pid)


def test_a_kernel_without_lists_of_children_is_searched(tmp_path):
    for pid, parent in ((10, 1), (11, 10), (12, 11), (13, 1)):
        (tmp_path / str(pid) / "task" / str(pid)).mkdir(parents=True)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) S {parent} {pid}" + " 0" * 40)
    assert proc.descendants(10, tmp_path) == [11, 12]


def test_only_processes_have_pids(tmp_path):
    for name in ("1", "42", "self", "sys", "4x", "x4"):
        Path(tmp_path, name).mkdir()
    assert sorted(proc.pids(tmp_path)) == [1, 42]
