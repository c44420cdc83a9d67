"""Whose process is it, where orphans may be strangers: below a supervisor that had children."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from ascend_supervisor.processes.kernel import become_subreaper
from ascend_supervisor.processes.ownership import Known, Mark, Ownership
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import environ, parent
from tests.processes import fake_proc
from tests.running import wait_until

ORPHAN = """
import os, subprocess, sys
orphan = subprocess.Popen(["sleep", "600"], start_new_session=sys.argv[1] == "away", env=ENVIRON)
print(orphan.pid, flush=True)
sys.stdin.read()
"""
OWNER = "OWNER"
MARK = Mark.ours(OWNER, "/here")

Rank = subprocess.Popen[str]


class Family:
    """Ranks whose children are orphaned when they end; nobody outlives the test."""

    def __init__(self) -> None:
        self.pids: list[Pid] = []
        self.ranks: list[Rank] = []

    def rank(self, where: str, environment: str = "{}") -> tuple[Rank, Pid, Pid]:
        """A rank in a session of its own, with a child in its session or ``away`` from it."""
        rank = subprocess.Popen(
            (sys.executable, "-c", ORPHAN.replace("ENVIRON", environment), where),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.ranks.append(rank)
        assert rank.stdout is not None
        child = Pid.of(int(rank.stdout.readline()))
        me = Pid.of(rank.pid)
        assert me is not None
        assert child is not None
        self.pids.append(child)
        return rank, me, child

    def end(self, rank: Rank) -> None:
        """Then its child is ours to wait for. It may hold the pipe: no end of file is awaited."""
        for stream in (rank.stdin, rank.stdout):
            assert stream is not None
            stream.close()
        rank.wait(20)

    def close(self) -> None:
        for rank in self.ranks:
            self.end(rank)
        for pid in self.pids:
            assert pid.send(9)
            os.waitpid(pid.number, 0)


@pytest.fixture
def family() -> Iterator[Family]:
    become_subreaper()
    found = Family()
    yield found
    found.close()


def below_us() -> frozenset[Pid]:
    """What other tests have left to this process, since it takes in orphans."""
    return Ownership.from_now_on(MARK).before


@pytest.fixture
def ownership() -> Iterator[Ownership]:
    """That of a supervisor that had a child."""
    strays = below_us()
    before = subprocess.Popen(("sh", "-c", "sleep 600 & echo; wait"), stdout=subprocess.PIPE)
    assert before.stdout is not None
    before.stdout.readline()
    found = Ownership.from_now_on(MARK)
    family = found.before - strays
    assert len(family) == 2
    yield found
    before.kill()
    before.wait()
    before.stdout.close()
    for pid in family:  # the other one is our child now
        if pid.number != before.pid:
            assert pid.send(9)
            os.waitpid(pid.number, 0)


Knows = Callable[[Rank, Pid, Pid], Known]

SHOWN: dict[str, tuple[str, str, Knows, bool]] = {
    "nothing": ("away", "{}", lambda *_: Known(), False),
    "its rank, by nothing": ("away", "{}", lambda _, me, __: Known(frozenset({me})), False),
    "its rank's session": ("here", "{}", lambda _, me, __: Known(frozenset({me})), True),
    "that it was seen below its rank": (
        "away",
        "{}",
        lambda _, __, child: Known(frozenset({child})),
        True,
    ),
    "its rank's pipe": ("away", "{}", lambda rank, *_: Known(pipes=frozenset({pipe(rank)})), True),
    "our mark": ("away", f"{{{OWNER!r}: {MARK.value!r}}}", lambda *_: Known(), True),
    "another's mark": ("away", f"{{{OWNER!r}: {MARK.value + 'x'!r}}}", lambda *_: Known(), False),
}


def pipe(rank: Rank) -> str:
    assert rank.stdout is not None
    return f"pipe:[{os.fstat(rank.stdout.fileno()).st_ino}]"


@pytest.mark.parametrize("shown", SHOWN)
def test_an_orphan_has_to_show_that_it_is_ours(family, ownership, shown):
    where, environment, knows, is_ours = SHOWN[shown]
    rank, me, child = family.rank(where, environment)
    known = knows(rank, me, child)
    wait_until(lambda: OWNER not in environment or OWNER.encode() in environ(child.number))
    family.end(rank)
    assert parent(child.number) == os.getpid()
    assert ownership.ours(known) == ([child] if is_ours else [])


def test_what_hangs_below_a_rank_is_ours(family, ownership):
    _, me, child = family.rank("away")
    assert ownership.ours(Known(frozenset({me}))) == [me, child]


def test_a_number_that_was_given_to_another_is_another(family, ownership):
    _, me, __ = family.rank("here")
    predecessor = replace(me, start=me.start - 1)
    assert ownership.ours(Known(frozenset({predecessor}))) == []


def test_a_number_that_was_given_to_a_stranger_since_it_was_listed_is_not_ours(tmp_path):
    me = os.getpid()
    parents = {1: 0, me: 1, 7: me, 8: 1, 9: 0, 10: me, 11: 1}
    fake_proc.make(tmp_path, parents, {me: "7 8 9", 7: "10 11"})
    ours = Ownership(MARK, before=frozenset()).ours(Known(), tmp_path)
    assert sorted(pid.number for pid in ours) == [7, 10]  # 10 was adopted by us


def test_processes_that_do_not_answer_cost_a_second_together(tmp_path):
    """Nobody writes to the pipes in place of their environments."""
    me, strangers = os.getpid(), range(1_000_001, 1_000_061)
    listed = {me: " ".join(map(str, strangers))}
    fake_proc.make(tmp_path, {1: 0, me: 1, **dict.fromkeys(strangers, me)}, listed)
    for stranger in strangers:
        os.mkfifo(tmp_path / str(stranger) / "environ")
    ownership = Ownership(MARK, before=frozenset({Pid(1, 0)}))
    began = time.monotonic()
    assert ownership.ours(Known(), tmp_path) == []
    assert time.monotonic() - began < len(strangers) / 2


def test_who_had_no_child_inherits_only_from_its_own(family):
    strays = below_us()
    rank, _, child = family.rank("away")
    family.end(rank)
    ours = Ownership(MARK, before=frozenset()).ours(Known())
    assert frozenset(ours) - strays == {child}


CHAIN = 'n=$1; [ $n -gt 0 ] || { echo deep; exec sleep 600; }; sh -c "$0" "$0" $((n - 1)) & wait'


def test_a_tree_may_be_deeper_than_a_stack():
    deep = 60
    top = subprocess.Popen(("sh", "-c", CHAIN, CHAIN, str(deep)), stdout=subprocess.PIPE)
    assert top.stdout is not None
    assert top.stdout.readline() == b"deep\n"
    strays = below_us() - {pid for pid in below_us() if pid.number == top.pid}
    usual = sys.getrecursionlimit()
    frames = len(inspect.stack())
    sys.setrecursionlimit(frames + deep)
    try:
        found = Ownership(MARK, before=frozenset()).ours(Known())
    finally:
        sys.setrecursionlimit(usual)
        for pid in reversed(found):
            if pid in strays or pid.number == top.pid:
                pid.send(9)
        top.wait()
        top.stdout.close()
    assert len(found) > deep
