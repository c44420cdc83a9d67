"""The last sentence of a server whose job has ended: its cause once, and why nothing follows."""

from __future__ import annotations

import pytest

from ascend_supervisor.coordination.agreement.acts import Exit
from ascend_supervisor.coordination.agreement.memory import PeerMemory
from ascend_supervisor.coordination.agreement.records import About, Cause, Epoch, Phase
from ascend_supervisor.coordination.peers.ends import ended_by
from ascend_supervisor.outcome import ExitStatus, Failure
from ascend_supervisor.supervisor import exit_by

FAILURE = Failure("rank 1", 1, 3, ExitStatus(7), 2.0)
FAULT = "the reset of the NPU of rank 0 has failed"
LOST = "server 1 was lost"


def last_sentence(
    code: int, cause: Cause | None, why: str, reason: str = "the job has ended"
) -> str:
    epoch = Epoch("job", 4, Phase.END, "w", code)
    memory = PeerMemory(0.0, 0.0, ended=epoch, about=About("w", "s", cause=cause, why=why))
    return exit_by(ended_by(Exit(code, reason, cause), memory), 5, None, None).event.sentence


@pytest.mark.parametrize(
    ("code", "cause", "why", "sentence"),
    [
        pytest.param(
            0,
            None,
            "",
            "ending with exit code 0: all ranks of all servers ended with 0",
            id="success",
        ),
        pytest.param(
            69,
            Cause(2, 69, FAULT),
            f"{FAULT}; not tried again",
            f"server 2: {FAULT}; not tried again; ending with exit code 69",
            id="a final fault",
        ),
        pytest.param(
            69,
            Cause(2, 69, FAULT),
            "",
            f"server 2: {FAULT}; ending with exit code 69",
            id="no other reason",
        ),
        pytest.param(
            69,
            Cause(1, 69, "no answer from server 12"),
            "",
            "server 1: no answer from server 12; ending with exit code 69",
            id="another server",
        ),
        pytest.param(
            69,
            Cause(1, 69, LOST),
            "the restart budget of 3 is used up",
            f"{LOST}; the restart budget of 3 is used up; ending with exit code 69",
            id="a loss",
        ),
        pytest.param(
            69,
            Cause(1, 69, LOST, also_lost=(1, 2)),
            "",
            f"{LOST}; server 1 did not come back; server 2 did not come back; "
            "ending with exit code 69",
            id="a loss, and others",
        ),
        pytest.param(
            7,
            Cause(1, 7, "rank 1 exited with status 7", FAILURE),
            "the restart budget of 3 is used up",
            "rank 1 failed first, in generation 3: it exited with status 7 after 2.0 s; the cause "
            "is on server 1; the restart budget of 3 is used up; ending with exit code 7",
            id="a failure",
        ),
        pytest.param(
            7,
            Cause(1, 7, "rank 1 exited with status 7", FAILURE, (2,)),
            "",
            "rank 1 failed first, in generation 3: it exited with status 7 after 2.0 s; the cause "
            "is on server 1; server 2 did not come back; ending with exit code 7",
            id="a failure, and a server that did not come back",
        ),
        pytest.param(
            69,
            Cause(1, 69, LOST, None, (1, 2), ("pod job-1, node n2", "")),
            "",
            f"{LOST}; server 1 (pod job-1, node n2) did not come back; server 2 did not come back; "
            "ending with exit code 69",
            id="a server with a name, and one without",
        ),
        pytest.param(
            143,
            None,
            "all servers were told to stop",
            "all servers were told to stop; ending with exit code 143",
            id="told to stop",
        ),
    ],
)
def test_a_cause_is_told_once(code: int, cause: Cause | None, why: str, sentence: str) -> None:
    assert last_sentence(code, cause, why) == sentence
