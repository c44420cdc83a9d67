"""Whom the guardian ends by session: the program's own part, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess

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
