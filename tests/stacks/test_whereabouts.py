"""Who waits where, in one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.stacks.seen import (
    Frame,
    KernelThread,
    Looked,
    PythonThread,
    SeenProcess,
    Subject,
)
from ascend_supervisor.stacks.whereabouts import (
    MOST_CHARACTERS,
    Whereabouts,
    place_of,
    sentence,
    whereabouts,
)

SITE = "/usr/local/lib/python3.11/site-packages"
C10D = f"{SITE}/torch/distributed/distributed_c10d.py"
LOGGER = f"{SITE}/torch/distributed/c10d_logger.py"
TRAIN = Frame("train", "/code/train.py", 88)
TOP = Frame("<module>", "/code/train.py", 120)
ALL_REDUCE = (Frame("all_reduce", C10D, 2806), Frame("wrapper", LOGGER, 81), TRAIN, TOP)


def ranks(**places: Whereabouts) -> dict[str, Whereabouts]:
    return {name.replace("_", " "): place for name, place in places.items()}


WAITS = Whereabouts("S", "all_reduce (train.py:88)")
SPINS = Whereabouts("R", "all_reduce (train.py:88)")
LOADS = Whereabouts("R", "next_batch (data.py:41)")


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ([], ""),
        ([WAITS], "rank 0 waits in all_reduce (train.py:88)"),
        ([SPINS], "rank 0 is in all_reduce (train.py:88)"),
        ([WAITS, WAITS], "all 2 ranks wait in all_reduce (train.py:88)"),
        ([SPINS, WAITS], "all 2 ranks are in all_reduce (train.py:88)"),
        (
            [WAITS, WAITS, WAITS, LOADS],
            "3 of 4 ranks wait in all_reduce (train.py:88); rank 3 is in next_batch (data.py:41)",
        ),
        (
            [Whereabouts("T"), *3 * [Whereabouts("S", "futex_do_wait")]],
            "3 of 4 ranks wait in futex_do_wait; rank 0 is stopped (state T)",
        ),
        (
            [Whereabouts("T", "main (train.py:5)"), Whereabouts("T", "main (train.py:5)")],
            "all 2 ranks are stopped (state T) in main (train.py:5)",
        ),
        (
            [WAITS, WAITS, Whereabouts("D", "hisi_ioctl")],
            (
                "2 of 3 ranks wait in all_reduce (train.py:88); "
                "rank 2 is in uninterruptible sleep (state D) in hisi_ioctl"
            ),
        ),
        ([Whereabouts("D")], "rank 0 is in uninterruptible sleep (state D)"),
        ([Whereabouts("R"), Whereabouts("S")], "rank 0 is running; rank 1 is asleep (state S)"),
        ([Whereabouts("Z"), WAITS], "rank 0 has ended; rank 1 waits in all_reduce (train.py:88)"),
        ([Whereabouts(""), Whereabouts("")], "all 2 ranks could not be looked at"),
        (
            [Whereabouts("S", str(number)) for number in range(7)],
            (
                "rank 0 waits in 0; rank 1 waits in 1; rank 2 waits in 2; rank 3 waits in 3; "
                "and 3 others elsewhere"
            ),
        ),
    ],
)
def test_equal_places_are_told_together_the_largest_group_first(places, told):
    assert sentence({f"rank {rank}": place for rank, place in enumerate(places)}) == told


def test_what_would_be_too_long_is_counted_with_the_others():
    places = {f"rank {rank}": Whereabouts("S", f"{rank}" + 120 * "x") for rank in range(5)}
    text = sentence(places)
    assert len(text) <= MOST_CHARACTERS
    assert text.endswith("; and 3 others elsewhere")


def kernel(
    pid: int, state: str = "S", wchan: str = "", system_call: str = "", stack: str = ""
) -> KernelThread:
    return KernelThread(pid, "python", state, wchan, system_call, stack)


def process(pid: int, parent: int, main: KernelThread, *frames: Frame) -> SeenProcess:
    python = (PythonThread(frames, "MainThread", pid),) if frames else ()
    return SeenProcess(pid, 1, parent, f"{pid}", (main,), python)


def looked(*processes: SeenProcess, rank: int | None = 0, **more) -> Looked:
    subject = Subject(f"rank {rank}", rank, 10, Activity(0.0), "log", **more)
    return Looked(subject, list(processes))


FUTEX = kernel(10, "S", "futex_do_wait", "futex")


@pytest.mark.parametrize(
    ("frames", "where"),
    [
        (ALL_REDUCE, "all_reduce (train.py:88)"),
        (ALL_REDUCE[1:], "train (train.py:88)"),
        ((TRAIN, TOP), "train (train.py:88)"),
        ((TOP,), "train.py:120"),
        ((Frame("wait", "/usr/lib/python3.11/threading.py", 320), TOP), "wait (train.py:120)"),
        ((Frame("wait", "/usr/lib/python3.11/threading.py", 320),), "wait (threading.py:320)"),
        ((Frame("f", "<frozen runpy>", 5), TRAIN), "f (train.py:88)"),
        ((Frame("f", "<string>"),), "f (<string>)"),
        ((Frame("f\x1b[2J", "/code/a\nb.py", 1),), "f\\x1b[2J (a\\nb.py:1)"),
        ((), "futex_do_wait"),
    ],
)
def test_a_place_is_the_innermost_call_and_the_users_line(frames, where):
    assert place_of(looked(process(10, 1, FUTEX, *frames))) == Whereabouts("S", where)


def test_of_several_threads_the_main_thread_counts():
    found = process(10, 1, FUTEX)
    found.python = (
        PythonThread((Frame("run", "/code/log.py", 3),), "logger", 11),
        PythonThread(ALL_REDUCE, None, 10),
    )
    assert place_of(looked(found)).where == "all_reduce (train.py:88)"


@pytest.mark.parametrize(
    "main",
    [kernel(10, "S", "do_wait"), kernel(10, "S", "", "wait4"), kernel(10, "S", "", "waitid")],
)
def test_a_shell_that_waits_for_its_child_is_passed_over(main):
    child, loader = kernel(11, "S", "futex_do_wait"), kernel(12, "S", "pipe_read")
    processes = (process(10, 1, main), process(11, 10, child), process(12, 11, loader))
    assert place_of(looked(*processes)) == Whereabouts("S", "futex_do_wait")


def test_a_process_that_does_not_wait_for_its_children_is_told_itself():
    processes = (process(10, 1, FUTEX), process(11, 10, kernel(11, "S", "pipe_read")))
    assert place_of(looked(*processes)) == Whereabouts("S", "futex_do_wait")


@pytest.mark.parametrize(
    ("main", "place"),
    [
        (kernel(10, "S", "", "futex"), Whereabouts("S", "futex")),
        (kernel(10, "S"), Whereabouts("S")),
        (
            kernel(10, "S", "", "futex", "[<0>] futex_do_wait+0x1\n[<0>] x"),
            Whereabouts("S", "futex_do_wait"),
        ),
        (kernel(10, "R", "", ""), Whereabouts("R")),
        (kernel(10, "T", "do_signal_stop"), Whereabouts("T")),
        (kernel(10, "D", "hisi_ioctl", "ioctl"), Whereabouts("D", "hisi_ioctl")),
    ],
)
def test_without_python_it_is_where_the_kernel_says(main, place):
    assert place_of(looked(process(10, 1, main))) == place


def test_of_a_stopped_rank_the_python_stack_is_told_too():
    found = looked(process(10, 1, kernel(10, "T", "do_signal_stop"), *ALL_REDUCE))
    assert place_of(found) == Whereabouts("T", "all_reduce (train.py:88)")


def test_of_a_stuck_rank_both_places_are_told():
    found = looked(process(10, 1, kernel(10, "D", "hisi_ioctl"), *ALL_REDUCE))
    assert place_of(found) == Whereabouts("D", "hisi_ioctl, called from all_reduce (train.py:88)")


def test_what_has_ended_or_was_not_seen_is_told_as_such():
    ended = looked()
    ended.has_ended = True
    assert place_of(ended) == Whereabouts("Z")
    assert place_of(looked()) == Whereabouts("")


def test_processes_that_serve_ranks_are_not_told_beside_ranks():
    launcher = looked(process(10, 1, FUTEX), rank=None)
    worker = looked(process(10, 1, FUTEX), rank=3)
    assert whereabouts([launcher, worker]) == "rank 3 waits in futex_do_wait"
    server = looked(process(10, 1, FUTEX), rank=None, significant=False)
    assert whereabouts([launcher, server]) == "rank None waits in futex_do_wait"


@given(
    strategies.lists(
        strategies.builds(
            Whereabouts,
            strategies.sampled_from(["S", "R", "D", "T", "Z", "I", ""]),
            strategies.text(),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_it_is_never_too_long(places):
    text = sentence({f"rank {rank}": place for rank, place in enumerate(places)})
    assert 0 < len(text) <= MOST_CHARACTERS


@given(strategies.text(), strategies.text())
def test_names_of_strangers_are_made_printable(name, file):
    found = looked(process(10, 1, FUTEX, Frame(name, file, 7)))
    assert whereabouts([found]).isprintable()
