"""Who is told to end now, and who after others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.processes.descriptors import (
    KEEP_SHARED_MEMORY,
    PipeEnds,
    all_pipes,
    holds_pipe,
    only_waits,
    standard_pipes,
)
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import dispositions
from ascend_supervisor.processes.stop_order import (
    MOST_DEEP,
    MOST_ORDERED,
    READ_REST_SECONDS,
    WAITING_SECONDS,
    LiveProcess,
    StopOrder,
)

HEAD_START = 10.0


def one(number: int, parent: int = 0, *, says: str = "", reads: str = "", **more) -> LiveProcess:
    """Pipes are letters."""
    return LiveProcess(Pid(number, 1), parent, says=frozenset(says), reads=frozenset(reads), **more)


def order(*members: LiveProcess) -> tuple[StopOrder, list[int]]:
    found = StopOrder(HEAD_START)
    return found, numbers(found.due(members, 0.0))


def numbers(pids: list[Pid]) -> list[int]:
    return [pid.number for pid in pids]


SHELL = one(1, program="bash")
TRAINS = one(2, 1, program="python3", handles=True, says="a")
TEE = one(3, 1, program="tee", reads="a")


def test_a_reader_is_told_after_the_writers_and_when_it_has_read_the_rest():
    found, first = order(SHELL, TRAINS, TEE)
    assert first == [1, 2]
    assert found.waits_for == {TRAINS.pid}
    assert found.due((TRAINS, TEE), 5.0) == []
    assert found.due((TEE,), 6.0) == []
    assert found.next_at == 6.0 + READ_REST_SECONDS
    assert found.due((TEE,), found.next_at) == [TEE.pid]


def test_a_reader_of_a_reader_is_told_after_it():
    tee = one(3, 1, reads="a", says="b")
    cat = one(4, 1, reads="b")
    found, first = order(SHELL, TRAINS, tee, cat)
    assert first == [1, 2]
    assert found.due((tee, cat), 1.0) == []
    assert found.due((cat,), 1.1) == []
    assert found.due((cat,), 2.5) == [cat.pid]


def test_a_reader_with_a_handler_is_told_at_once_where_its_writers_have_none():
    yes = one(3, 1, says="b")
    trains = one(2, 1, handles=True, reads="b")
    assert order(SHELL, yes, trains)[1] == [1, 3, 2]


def test_a_logger_with_a_handler_is_told_after_a_rank_that_saves():
    logger = one(3, 1, handles=True, reads="a")
    found, first = order(SHELL, TRAINS, logger)
    assert first == [1, 2]
    assert found.due((logger,), 1.0) == [logger.pid]


def test_a_wrapper_that_reads_what_it_has_started_is_told_after_it_unless_it_has_a_handler():
    trains = one(2, 1, handles=True, says="a")
    assert order(one(1, reads="a"), trains)[1] == [2]
    assert order(one(1, reads="a", handles=True), trains)[1] == [1]


def test_a_shell_that_reads_a_rank_does_not_go_on_with_its_script():
    shell = one(1, program="bash", reads="a")
    found, first = order(shell, TRAINS)
    assert first == [2]
    assert found.due((shell,), 1.0) == [shell.pid]


def test_what_is_below_a_handler_waits_for_its_end_or_for_the_head_start():
    head, below = one(1, handles=True), one(2, 1)
    found, first = order(head, below)
    assert first == [1]
    assert found.due((head, below), HEAD_START - 0.1) == []
    assert found.due((head, below), HEAD_START) == [below.pid]
    found, _ = order(head, below)
    assert found.due((below,), 0.1) == [below.pid]


def test_what_is_below_a_shell_with_a_trap_is_told_at_once():
    assert order(one(1, program="bash", handles=True), one(2, 1))[1] == [1, 2]


def test_timeout_would_tell_all_at_once():
    found, first = order(one(1, program="timeout", handles=True), TRAINS, TEE)
    assert first == [2]
    assert found.due((one(1, program="timeout", handles=True),), 1.0) == [Pid(1, 1)]


def test_what_keeps_shared_memory_is_told_some_time_after_the_end_of_what_has_started_it():
    manager = one(3, 2, program="torch_shm_manager")
    found, first = order(SHELL, TRAINS, manager)
    assert first == [1, 2]
    assert found.due((TRAINS, manager), HEAD_START + 1) == []
    assert found.due((manager,), 20.0) == []
    assert found.next_at == 20.0 + KEEP_SHARED_MEMORY["torch_shm_manager"]
    assert found.due((manager,), found.next_at) == [manager.pid]


def test_those_that_read_each_other_are_told_at_once():
    both = one(1, says="a", reads="b", handles=True), one(2, says="b", reads="a", ignores=True)
    assert order(*both)[1] == [1, 2]


MEMBERS = st.lists(
    st.builds(
        one,
        st.integers(1, 8),
        st.integers(0, 8),
        says=st.text("abc", max_size=2),
        reads=st.text("abc", max_size=2),
        program=st.sampled_from(("bash", "timeout", "python3", "torch_shm_manager")),
        handles=st.booleans(),
        ignores=st.booleans(),
    ),
    unique_by=lambda member: member.pid,
)


@given(MEMBERS)
def test_nobody_waits_for_ever_where_all_that_were_told_end(members):
    found, now = StopOrder(HEAD_START), 0.0
    left = list(members)
    while left:
        told = set(found.due(left, now))
        left = [member for member in left if member.pid not in told]
        assert told or left == [] or found.next_at > now
        now += HEAD_START
        assert now < HEAD_START * 20


def test_the_pipes_of_a_process_are_known():
    read_end, write_end = os.pipe()
    child = subprocess.Popen(
        (sys.executable, "-c", "import sys; sys.stdin.read()"),
        stdin=read_end,
        stdout=write_end,
        stderr=subprocess.DEVNULL,
        pass_fds=(read_end, write_end),
    )
    os.close(read_end)
    try:
        pipe = frozenset({str(Path(f"/proc/self/fd/{write_end}").readlink())})
        assert standard_pipes(child.pid) == PipeEnds(reads=pipe, says=pipe)
        assert all_pipes(child.pid) == PipeEnds(reads=pipe, says=pipe, writes=pipe)
        assert all_pipes(child.pid, time.monotonic()) == PipeEnds()
    finally:
        child.kill()
        child.wait()
        os.close(write_end)


def test_what_waits_for_the_end_of_others_may_read_a_fifo(tmp_path):
    """As in ``train.py > pipe & tee log < pipe``."""
    os.mkfifo(tmp_path / "pipe")
    fifo = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for stdin, expected in ((fifo, True), (subprocess.DEVNULL, False)):
        child = subprocess.Popen(("sleep", "60"), stdin=stdin)
        try:
            assert only_waits(child.pid) is expected
            assert not only_waits(child.pid, time.monotonic())
        finally:
            child.kill()
            child.wait()
    os.close(fifo)


def test_a_pipe_elsewhere_than_at_the_standard_descriptors_is_searched_for_a_while():
    said, held = os.pipe(), os.pipe()
    child = subprocess.Popen(
        ("sleep", "600"), stdin=subprocess.DEVNULL, stdout=said[1], pass_fds=held
    )
    try:
        at_stdout, elsewhere = (
            frozenset({str(Path(f"/proc/self/fd/{one[1]}").readlink())}) for one in (said, held)
        )
        assert holds_pipe(child.pid, at_stdout)
        assert holds_pipe(child.pid, elsewhere)
        assert not holds_pipe(child.pid, frozenset())
        assert holds_pipe(child.pid, at_stdout, time.monotonic())
        assert not holds_pipe(child.pid, elsewhere, time.monotonic())
    finally:
        child.kill()
        child.wait()
        for end in (*said, *held):
            os.close(end)


def test_what_a_process_does_with_a_signal_is_known():
    code = (
        "import signal; signal.signal(15, lambda *_: 0); signal.signal(10, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {12}); print(flush=True); signal.pause()"
    )
    child = subprocess.Popen((sys.executable, "-c", code), stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        takes = dispositions(child.pid)
        assert takes.catches(15)
        assert takes.ignores(10)
        assert [takes.handles(number) for number in (15, 12, 10, 1)] == [True, True, False, False]
    finally:
        child.kill()
        child.communicate()


def test_what_is_below_a_wrapper_that_only_waits_is_told_after_a_second():
    wrapper = one(1, program="python3", handles=True, waits=True)
    trains = one(2, 1, program="python3", handles=True)
    found, first = order(wrapper, trains)
    assert first == [1]
    assert found.next_at == WAITING_SECONDS
    assert found.due((wrapper, trains), WAITING_SECONDS) == [trains.pid]


def test_what_waits_for_a_child_only_later_has_its_whole_head_start():
    saves = one(1, program="python3", handles=True)
    found, first = order(saves)
    assert first == [1]
    upload = one(2, 1, program="cp")
    waits = one(1, program="python3", handles=True, waits=True)
    assert found.due((waits, upload), WAITING_SECONDS) == []
    assert found.due((waits, upload), HEAD_START) == [upload.pid]


def test_a_family_too_large_or_too_deep_is_told_at_once():
    heads = [one(number, number - 1, handles=True) for number in range(1, MOST_DEEP + 3)]
    assert len(order(*heads)[1]) == len(heads)
    many = [one(number, 1, handles=True) for number in range(2, MOST_ORDERED + 2)]
    assert len(order(one(1, handles=True), *many)[1]) == len(many) + 1
