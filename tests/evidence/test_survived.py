"""What stood long before the end of a rank, and was followed by training, has not ended it."""

from __future__ import annotations

import pytest

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.evidence.blame import blame, explained
from ascend_supervisor.evidence.diagnosed import diagnosis_of
from ascend_supervisor.outcome import ExitStatus, Failure

CANN_8 = (
    (
        "EI0006: [PID: 1292363] 2026-04-08-18:07:20.444.436 Getting socket times out. Reason: "
        "Remote Rank did not send the data in time. remote rank:[5]"
    ),
    "        Solution: 1. Check the rank service processes with other errors or no errors.",
    "        TraceBack (most recent call last):",
)
CANN_8_NOTIFY = (
    (
        "EI0002: [PID: 7277] 2026-11-28-11:59:30.645.648 The wait execution of the Notify register "
        "times out. Reason: The Notify register has not received the Notify record from remote "
        "rank [5].base information: [streamID:[8]"
    ),
)
CANN_9 = (
    "EE9999: Inner Error!",
    "EE9999[PID: 697] 2026-05-21-12:39:23.687.932 (EE9999):  rtStreamSynchronize failed",
    (
        "[PID: 749] 2026-05-21-12:39:23.687.990 Get_Socket_Timeout(EI0006): Getting socket times "
        "out. Reason: 1. The remote does not initiate a connect request. remote rank:[5]"
    ),
)
GLOO = (
    "terminate called after throwing an instance of 'gloo::IoException'",
    "  what():  [gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.7]:2345",
)
MINDSPORE = (
    (
        "[ERROR] DISTRIBUTED(71,7f,python):2026-11-26-10:00:00.000.001 [mindspore/ccsrc/"
        "distributed/rpc/tcp/connection.cc:1] The connection to remote rank: 5 is closed"
    ),
)
PEERS = (CANN_8, CANN_8_NOTIFY, CANN_9, GLOO, MINDSPORE)
EARLY = (
    ("OSError: [Errno 28] No space left on device: '/board/events.0'",),
    ("tool: error while loading shared libraries: libhccl.so: cannot open shared object file",),
    ("EJ0001: [PID: 4] Failed to initialize the HCCP process.", "        Solution: wait"),
    ("Traceback (most recent call last):", '  File "/code/train.py", line 9, in <module>',
     "ModuleNotFoundError: No module named 'tensorboard'"),
)  # fmt: skip
MEGATRON = [
    f" iteration {n:8}/    5000 | consumed samples: {16 * n:12} | elapsed time per iteration (ms): "
    f"312.{n % 10} | learning rate: 1.0E-04 | lm loss: 2.1E+00 |"
    for n in range(40, 80)
]
EPOCHS = [f"epoch: 1 step: {n}, loss is 2.30{n}" for n in range(1, 41)]
BARS = [f" {n}%|██        | {n}/100 [00:{n % 60:02}<01:00,  1.89it/s]" for n in range(1, 41)]
ONE_STEP = MEGATRON[:1]
NO_STEP = [f"rank 3 loads shard {n}" for n in range(60)]


def failure(*lines: str, status: int = 1) -> Failure:
    return Failure("rank 3", 3, 0, ExitStatus.of(status), 1.0, last_lines=lines)


def of(texts: object) -> str:
    return str(texts[0])[:18] if isinstance(texts, (list, tuple)) else str(texts)


@pytest.mark.parametrize("between", [MEGATRON, EPOCHS, BARS, ONE_STEP, NO_STEP], ids=of)
@pytest.mark.parametrize("early", EARLY[:2], ids=of)
@pytest.mark.parametrize("end", PEERS, ids=of)
@pytest.mark.parametrize("status", [3, -6])
def test_a_rank_whose_last_words_are_a_consequence_names_the_peer(early, between, end, status):
    """Whatever looked like a fault long before."""
    told = failure(*early, *between, *end, status=status)
    found = diagnosis_of(told)
    assert found is not None
    assert (found.is_consequence, blame(told)) == (True, Blame.CONSEQUENCE)
    assert found.remedy in {"look at rank 5", "look at the ranks on 10.0.0.7"}
    assert found.remedy in (explained(told).meaning or "")


@pytest.mark.parametrize("steps", [MEGATRON, EPOCHS, BARS], ids=of)
@pytest.mark.parametrize("early", [*EARLY, *PEERS], ids=of)
def test_what_a_training_has_survived_is_no_cause(early, steps):
    for status in (1, 3, -6):
        told = failure(*early, *steps, "stopped", status=status)
        assert diagnosis_of(told) is None
        assert blame(told) is Blame.UNKNOWN


@pytest.mark.parametrize("after", [[], ONE_STEP, [*ONE_STEP, *ONE_STEP], NO_STEP], ids=len)
@pytest.mark.parametrize("early", EARLY, ids=of)
def test_one_step_more_proves_nothing(early, after):
    """Another thread may have printed it; a bar is also drawn again when it is closed."""
    assert diagnosis_of(failure(*early, *after, "stopped")) is not None


def test_an_exception_that_follows_counts_whatever_was_printed_before():
    raised = (
        "Traceback (most recent call last):",
        '  File "/code/train.py", line 9, in <module>',
        "OSError: [Errno 28] No space left on device",
    )
    found = diagnosis_of(failure(*CANN_8, *MEGATRON, *raised))
    assert found is not None
    assert (found.id, found.rank) == ("disk-full", 3)


def test_steps_of_another_rank_in_the_same_output_prove_nothing():
    lines = ("EI0002 is unknown", *EARLY[0], *MEGATRON, "stopped")
    shared = Failure("torchrun", None, 0, ExitStatus.of(3), 1.0, last_lines=lines, is_shared=True)
    found = diagnosis_of(shared)
    assert found is not None
    assert found.id == "disk-full"
