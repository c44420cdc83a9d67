"""Whom the guardian ends by session, and which guardians the next start waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_supervisor.processes.guardian_link import NAME, earlier_guardians
from ascend_supervisor.processes.ownership import Mark
from ascend_supervisor.processes.pid import Pid
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


def started(program: Path, mark: str) -> subprocess.Popen[bytes]:
    """Python under the name of ``program``, with ``mark`` as its last word."""
    program.symlink_to(sys.executable)
    words = (str(program), "-c", "print('up', flush=True); import time; time.sleep(600)", mark)
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.stdout.close()
    return process


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
