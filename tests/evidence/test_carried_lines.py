"""What launchers, loggers and containers put before the lines of a traceback, and what they cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.evidence.diagnosed import diagnosis_of
from ascend_supervisor.outcome import ExitStatus, Failure

RAISED = (
    "Traceback (most recent call last):",
    '  File "/code/train.py", line 74, in <module>',
    "    main()",
    '  File "/usr/lib/python3.10/site-packages/torch/nn/modules/module.py", line 17, in _call_impl',
    "    return forward_call(*args, **kwargs)",
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.json'",
)
MARKS = (
    *("", "[rank0]: ", "[default0]:", "[rank0]:[default0]: ", "(WorkerDict pid=123) "),
    *("(WorkerDict pid=123, ip=192.0.2.1) ", "(EngineCore_0 pid=123) ", "[Stage-0] "),
    "ERROR 05-12 10:11:12 [core.py:400] ",
    "ERROR 03-11 14:48:04 engine.py:387] ",
    "(EngineCore_1 pid=12) (VllmWorker rank=0 pid=14) ERROR 07-01 08:38:50 [executor.py:492] ",
    *(
        "2025-06-09 06:57:54 ",
        "2025-06-09T06:57:54.123456789Z stdout F ",
        "train-1  | ",
        "#12 9.6 ",
    ),
    *("2025-06-09 06:57:54,123 - ERROR - ", "Jun 09 06:57:54 node1 train[123]: ", "worker-1: "),
    *("[Worker 3] ", "[ModelArts Service Log]", "[2026-03-03 03:53:36 TP0] "),
)


def told(*lines: str) -> Diagnosis | None:
    words = ("step 1", *lines, "[ERROR] 2025-06-09-06:57:54 (PID:9, Device:0, RankID:-1) ERR99999")
    return diagnosis_of(Failure("rank 0", 0, 0, ExitStatus(1), 1.0, last_lines=words))


@pytest.mark.parametrize("mark", MARKS)
def test_a_traceback_is_seen_through_what_stands_before_each_of_its_lines(mark):
    known = told(*(f"{mark}{line}" for line in RAISED))
    assert known is not None
    assert (known.id, known.text[-31:]) == ("file-missing", "ner, in /code/train.py, line 74")


@pytest.mark.parametrize("mark", MARKS)
def test_a_log_may_begin_within_a_traceback(mark):
    known = told(*(f"{mark}{line}" for line in RAISED[2:]))
    assert known is not None
    assert known.id == "file-missing"


def vllm_seconds(line: str, at: int) -> str:
    return f"ERROR 05-12 10:11:{at:02} [core.py:400] {line}"


def ray_times(line: str, at: int) -> str:
    return f"(Worker pid={7}) {line} [repeated {at + 2}x across cluster]"


def spaced(line: str, at: int) -> str:
    return f"{line}\n"


def stamped(line: str, at: int) -> str:
    return f"2024-09-26 07:59:{at:02}.732{at:03}: [rank0]: {line}"


@pytest.mark.parametrize("carried", [vllm_seconds, ray_times, spaced, stamped])
def test_what_differs_from_line_to_line_is_seen_through_as_well(
    carried: Callable[[str, int], str],
):
    lines = "\n".join(carried(line, at) for at, line in enumerate(RAISED)).split("\n")
    known = told(*lines)
    assert known is not None
    assert known.text.endswith(", in /code/train.py, line 74")


@pytest.mark.parametrize("said", ["INFO: it goes on", "Message: 'text'", "done", "  more: text"])
def test_frames_without_a_header_that_no_exception_follows_are_no_traceback(said):
    assert told(*RAISED[2:-1], said) is None


@pytest.mark.parametrize(
    ("script", "file", "layer"),
    [
        ("/code/train.py", "/code/train.py", "user"),
        ("/code/train.py", "/code/net.py", "user"),
        ("/code/train.py", "/code/models/deep/net.py", "user"),
        ("train.py", "models/net.py", "unknown"),
        ("/train.py", "/opt/net.py", "unknown"),
        ("/code/train.py", "/code2/net.py", "unknown"),
        ("/code/train.py", "/code/.venv/lib/python3.10/site-packages/net.py", "unknown"),
        ("/code/src/train.py", "/code/src/llamafactory/train/tuner.py", "unknown"),
        ("/code/pretrain.py", "/code/mindspeed_llm/training/training.py", "unknown"),
    ],
)
def test_what_a_file_below_the_script_raised_is_the_script_s(script, file, layer):
    known = told(
        *RAISED[:1],
        f'  File "{script}", line 7, in <module>',
        f'  File "{file}", line 9, in step',
        "TypeError: 'NoneType' object is not iterable",
    )
    assert known is not None
    assert (known.id, known.layer) == ("none-value", layer)
    assert ", in " in known.text


def test_a_program_that_is_not_installed_is_no_file_of_the_settings():
    lines = (
        *RAISED[:3],
        '  File "/usr/lib/python3.10/subprocess.py", line 18, in _execute',
    )
    known = told(*lines, "FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'")
    assert known is not None
    assert (known.id, known.layer) == ("program-missing", "host")
