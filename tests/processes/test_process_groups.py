"""A group is ours while one of those who were seen in it is there; its number alone is nobody's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from ascend_supervisor.processes.kernel import become_subreaper
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.process_groups import ProcessGroups, leading_children
from tests.processes import fake_proc

LEADER = """
import subprocess, sys
helper = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
print(helper.pid, flush=True)
sys.stdin.read()
"""


class Group:
    """A leader, our child, and its helper; both are in a session and group of their own."""

    def __init__(self) -> None:
        self.leader = subprocess.Popen(
            (sys.executable, "-S", "-c", LEADER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.leader.stdout is not None
        self.helper = seen(int(self.leader.stdout.readline()))
        self.pid = seen(self.leader.pid)

    def end_leader(self) -> None:
        """Then its helper is our child."""
        self.leader.communicate()

    def close(self) -> None:
        self.leader.kill()
        self.leader.communicate()
        if self.helper.send(signal.SIGKILL):
            os.waitpid(self.helper.number, 0)


def seen(number: int) -> Pid:
    pid = Pid.of(number)
    assert pid is not None
    return pid


@pytest.fixture
def group() -> Iterator[Group]:
    become_subreaper()
    made = Group()
    yield made
    made.close()


def ended_by(pid: Pid) -> int:
    """The signal that ended a child of ours."""
    return os.WTERMSIG(os.waitpid(pid.number, 0)[1])


def test_what_a_leader_leaves_behind_is_signalled_until_it_is_gone(group):
    groups = ProcessGroups()
    group.end_leader()
    groups.add_left_behind(group.pid.number)
    assert not groups.are_empty
    groups.send(signal.SIGTERM)
    assert ended_by(group.helper) == signal.SIGTERM
    assert groups.are_empty


def test_a_group_that_was_left_empty_is_none(group):
    groups = ProcessGroups()
    group.end_leader()
    assert group.helper.send(signal.SIGKILL)
    assert ended_by(group.helper) == signal.SIGKILL
    groups.add_left_behind(group.pid.number)
    assert groups.are_empty


def test_a_number_that_was_given_to_another_leader_is_not_what_was_left_behind(group):
    groups = ProcessGroups()
    groups.add_left_behind(group.pid.number)  # of a child that had it before
    groups.send(signal.SIGKILL)
    assert groups.are_empty
    assert group.pid.lives
    assert group.helper.lives


def test_a_group_is_signalled_with_all_who_have_joined_its_leader(group):
    groups = ProcessGroups()
    groups.add([group.pid])
    groups.send(signal.SIGTERM)
    assert group.leader.wait(20) == -signal.SIGTERM
    assert ended_by(group.helper) == signal.SIGTERM
    assert groups.are_empty


def test_who_has_joined_keeps_the_group_when_its_leader_is_gone(group):
    groups = ProcessGroups()
    groups.add([group.pid])
    groups.send(signal.SIGCONT)
    group.end_leader()
    assert not groups.are_empty
    groups.send(signal.SIGTERM)
    assert ended_by(group.helper) == signal.SIGTERM
    assert groups.are_empty


def test_the_group_of_another_with_its_number_is_not_signalled(group):
    groups = ProcessGroups()
    groups.add([replace(group.pid, start=group.pid.start - 1)])
    groups.send(signal.SIGKILL)
    assert groups.are_empty
    assert group.pid.lives
    assert group.helper.lives


def test_a_launchers_worker_whose_number_a_stranger_has_by_now_is_not_taken_in(tmp_path):
    fake_proc.make(tmp_path, {1: 0, 7: 1, 8: 7, 9: 1}, {7: "8 9"})
    assert [pid.number for pid in leading_children(7, tmp_path)] == [8]
