"""Whom the guardian ends by session, and which guardians the next start waits for."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.guardian_link import NAME, earlier_guardians
from ascend_supervisor.processes.ownership import Mark
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.programs import guardian as guardian_program
from ascend_supervisor.programs.guardian import Sessions
from tests.running import wait_until


def test_who_is_left_in_the_session_of_a_leader_that_has_ended_is_ours():
    leader = subprocess.Popen(
        ("sh", "-c", "sleep 600 & echo $!; read line"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert leader.stdin is not None
    assert leader.stdout is not None
    left = Pid.of(int(leader.stdout.readline()))
    me = Pid.of(leader.pid)
    assert left is not None
    assert me is not None
    sessions = Sessions()
    sessions.told([f"own {me.number} {me.start}"])
    leader.stdin.close()
    os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    sessions.told([f"ended {me.number}"])
    assert sessions.members() == {(left.number, left.start)}
    leader.wait()
    assert sessions.members() == {(left.number, left.start)}
    assert left.send(signal.SIGKILL)
    wait_until(lambda: not left.lives)
    assert sessions.members() == set()
    leader.stdout.close()


@pytest.fixture
def guardian() -> Iterator[subprocess.Popen[bytes]]:
    """The program, as it is started, for the mark OWNER=test."""
    words = (sys.executable, "-I", "-S", guardian_program.__file__, "5", "OWNER=test")
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        yield process
        process.stdin.close()


def rank(guardian: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """A process that it knows."""
    process = subprocess.Popen(("sleep", "600"), start_new_session=True)
    me = Pid.of(process.pid)
    assert me is not None
    tell(guardian, f"own {me.number} {me.start}")
    return process


def tell(guardian: subprocess.Popen[bytes], line: str) -> None:
    assert guardian.stdin is not None
    guardian.stdin.write(f"{line}\n".encode())
    guardian.stdin.flush()


def boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def test_at_the_fence_it_kills_and_goes_on(guardian):
    first = rank(guardian)
    tell(guardian, f"fence {boot_time() + 0.2}")
    assert first.wait(30) == -signal.SIGKILL
    second = rank(guardian)
    tell(guardian, f"fence {boot_time() + 0.2}")
    assert second.wait(30) == -signal.SIGKILL
    assert guardian.poll() is None


@pytest.mark.long
@pytest.mark.parametrize("later", ["600.0", "inf"])
def test_a_fence_that_has_moved_kills_nobody(guardian, later):
    """Even if the guardian was stopped meanwhile, and sees first that the old one has passed."""
    mine = rank(guardian)
    early = boot_time() + 3
    tell(guardian, f"fence {early}")
    wait_until(lambda: has_read(guardian))
    guardian.send_signal(signal.SIGSTOP)
    tell(guardian, f"fence {boot_time() + float(later)}")
    wait_until(lambda: boot_time() > early)
    guardian.send_signal(signal.SIGCONT)
    wait_until(lambda: has_read(guardian))
    assert mine.poll() is None
    tell(guardian, "done")
    assert mine.wait(30) == -signal.SIGKILL


def has_read(guardian: subprocess.Popen[bytes]) -> bool:
    """Whether it has read all that it was told."""
    assert guardian.stdin is not None
    unread = fcntl.ioctl(guardian.stdin, termios.FIONREAD, bytes(4))
    return not any(unread)


def started(program: Path, mark: str) -> subprocess.Popen[bytes]:
    """Python under the name of ``program``, with ``mark`` as its last word."""
    program.symlink_to(sys.executable)
    words = (str(program), "-c", "print('up', flush=True); import time; time.sleep(600)", mark)
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.stdout.close()
    return process


def stopped(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


def guardians_left(mark: Mark, seconds: float) -> tuple[str, ...]:
    return anyio.run(earlier_guardians, mark, seconds, lambda _: None)


def test_an_earlier_guardian_that_was_stopped_goes_on(tmp_path: Path):
    place = str(tmp_path / "state.json")
    words = (sys.executable, "-I", "-S", guardian_program.__file__, "5", f"OWNER=1.1@{place}")
    with subprocess.Popen(words, stdin=subprocess.PIPE) as guardian:
        named = Path(f"/proc/{guardian.pid}/comm")
        wait_until(lambda: named.read_text().strip() == NAME)
        stopped(guardian)
        assert guardian.stdin is not None
        guardian.stdin.close()
        assert guardians_left(Mark.ours("OWNER", place), 20.0) == ()
        assert guardian.wait(20) == 0


def test_what_is_stopped_and_no_guardian_of_ours_stays_so(tmp_path: Path):
    """Its supervisor lives, or its place is another one."""
    place = str(tmp_path / "state.json")
    mark = Mark.ours("OWNER", place)
    for number, owner in enumerate((mark.value, f"1.1@{place}.other")):
        (tmp_path / str(number)).mkdir()
        other = started(tmp_path / str(number) / NAME, f"OWNER={owner}")
        stopped(other)
        assert guardians_left(mark, 0.0) == ()
        stat = proc.stat(other.pid)
        assert stat is not None
        assert stat.state == "T"
        other.kill()
        other.wait()


@pytest.mark.parametrize("name", ["setsid", NAME])
async def test_an_earlier_guardian_is_waited_for_from_its_first_moment(tmp_path: Path, name: str):
    """It is setsid first, and has its own name last."""
    place = str(tmp_path / "state.json")
    guardian = started(tmp_path / name, f"OWNER=1.1@{place}")
    (left,) = await earlier_guardians(Mark.ours("OWNER", place), 0.0, lambda _: None)
    assert str(guardian.pid) in left
    guardian.kill()
    guardian.wait()
    assert await earlier_guardians(Mark.ours("OWNER", place), 0.0, lambda _: None) == ()


OPENS_AND_CLOSES = """\
import os
os.dup2(os.pipe()[0], 9)
os.closerange(3, 9)
print("up", flush=True)
while True:
    for _ in range(4):
        os.open("/dev/null", os.O_RDONLY)
    os.closerange(3, 9)
"""


def test_who_opens_and_closes_files_meanwhile_may_still_only_wait():
    """Python's resource tracker does, while it is starting."""
    words = (sys.executable, "-c", OPENS_AND_CLOSES)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"up\n"
            assert all(guardian_program.may_wait(process.pid) for _ in range(2000))
        finally:
            process.kill()
