"""What a launcher or a rank prints as a number may be longer than any of ours: then it is none.

An event holds numbers of 64 bits: a longer one would end the supervisor.
"""

from __future__ import annotations

import pytest

from ascend_supervisor.launchers import mindspore, mpirun, msrun, torchrun
from ascend_supervisor.process_spec import rank_in

LONG = "9" * 30
PATTERNS = {
    "torchrun's rank": (torchrun._RANK, "  rank      : {} (local_rank: 1)"),
    "torchrun's local rank": (torchrun._RANK, "  rank      : 1 (local_rank: {})"),
    "torchrun's status": (torchrun._EXIT, "  exitcode  : {} (pid: 4711)"),
    "mpirun's rank": (mpirun._SIGNALLED, "process rank {} with PID 1 on node a exited on signal 9"),
    "mpirun's signal": (
        mpirun._SIGNALLED,
        "process rank 1 with PID 1 on node a exited on signal {}",
    ),
    "mpirun's other rank": (mpirun._EXITED, "Process name: [[1,1],{}]\n  Exit code:    3"),
    "mpirun's status": (mpirun._EXITED, "Process name: [[1,1],2]\n  Exit code:    {}"),
    "msrun's status": (msrun._NAMED, "Worker process 7 exit with exception. Error code: {}."),
    "msrun's log": (msrun._LOG, "worker_{}.log"),
    "a node": (mindspore._MISSED, "The node: {} is timed out."),
}


@pytest.mark.parametrize(("pattern", "text"), PATTERNS.values(), ids=PATTERNS.keys())
def test_a_number_of_thirty_digits_is_none(pattern, text):
    assert pattern.search(text.format(9))
    assert not pattern.search(text.format(LONG))


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({b"RANK": b"5"}, 5),
        ({b"RANK_ID": b"3", b"RANK": b"5"}, 3),
        ({b"RANK": LONG.encode()}, None),
        ({b"RANK": b"-1"}, None),
        ({}, None),
    ],
)
def test_the_rank_of_an_environment(environ, rank):
    assert rank_in(environ) == rank
