"""Exceptions without the line that begins a traceback: a log was cut, filtered or quoted."""

from __future__ import annotations

import pytest

from ascend_supervisor.evidence.diagnosed import diagnosis_of
from ascend_supervisor.evidence.last_words import words_of
from ascend_supervisor.evidence.lone_exceptions import lone_exception
from ascend_supervisor.evidence.statement import unheeded
from tests.cost import cpu_seconds
from tests.evidence.test_diagnosed import failure, raising, told

FULL = "OSError: [Errno 28] No space left on device: '/out/7.bin'"
SKIPPED = "FileNotFoundError: [Errno 2] No such file or directory: '/data/7.jpg'"
TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/code/train.py", line 90, in <module>',
    "    main()",
    '  File "/code/model.py", line 7, in main',
    "    return a @ b",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
)
ENGINE = "(EngineCore_DP0 pid=14400) ERROR 09-23 03:01:22 [core.py:718] "
NAMED = "AttributeError: module 'torch_npu' has no attribute 'npu_geglu'"
HUB = (
    (
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', "
        "port=443): Max retries exceeded with url: /a/b/resolve/main/config.json"
    ),
    "",
    "OSError: no file named config.json in a/b.",
)
WENT_ON = tuple(f"sample {n} of the list is read" for n in range(11))


@pytest.mark.parametrize("mark", ["", "[rank3]: ", ENGINE])
@pytest.mark.parametrize("first", range(len(TRACEBACK)))
def test_a_traceback_that_is_cut_anywhere_tells_its_cause(first, mark):
    found = told(failure(*(mark + line for line in TRACEBACK[first:])))
    assert found.id == "tensor-shapes"
    assert found.text.endswith("in /code/model.py, line 7") == (first < len(TRACEBACK) - 2)


@pytest.mark.parametrize(
    ("lines", "id_"),
    [
        ((NAMED,), "module-attribute-missing"),
        ((f"{ENGINE}{NAMED}",), "module-attribute-missing"),
        ((f"2026-01-01 00:00:00,123 - train - ERROR - {FULL}",), "disk-full"),
        ((f"CRITICAL:train:{SKIPPED}",), "file-missing"),
        (HUB, "hub-unreachable"),
        (
            ("socket.gaierror: [Errno -3] Temporary failure in name resolution",),
            "name-server-silent",
        ),
        (("ValueError: 3 of 4", FULL, "", "2026-01-01 00:00:00 INFO closed"), "disk-full"),
        ((*TRACEBACK[:-1], *raising(NAMED)), "module-attribute-missing"),
    ],
)
def test_the_exception_that_a_log_ends_with_tells_its_cause(lines, id_):
    assert told(failure(*lines)).id == id_


def test_a_type_of_any_name_follows_the_frames_of_a_cut_traceback():
    end = "socket.gaierror: [Errno -2] Name or service not known"
    assert told(failure(*TRACEBACK[3:-1], end)).id == "name-unknown"


@pytest.mark.parametrize(
    "lines",
    [
        (SKIPPED, *WENT_ON),
        ("trainer.Trainer: No module named 'apex', amp is off", "trainer.error: 0.03", "done"),
        (f"2026-01-01 00:00:00,123 - data - WARNING - {SKIPPED}",),
        (f"2026-01-01 00:00:00,123 - data - INFO - {SKIPPED}",),
        (f"skipped because of {SKIPPED}",),
    ],
)
def test_what_was_handled_is_no_cause(lines):
    assert diagnosis_of(failure(*lines)) is None


@pytest.mark.parametrize("status", [3, -11])
def test_who_was_not_ended_by_an_exception_has_none_at_its_end(status):
    assert diagnosis_of(failure(SKIPPED, status=status)) is None


def test_the_real_end_comes_before_an_exception_that_was_handled():
    for handled in ((SKIPPED,), ('  File "/code/data.py", line 3, in read', SKIPPED)):
        assert told(failure(*handled, *raising(NAMED))).id == "module-attribute-missing"
    assert told(failure(SKIPPED, "torch.save: No space left on device")).id == "disk-full"


def test_only_a_type_without_a_traceback_claims_nothing():
    assert told(failure("ValueError: bad")).layer == "unknown"
    assert told(failure("ValueError: bad", "No space left on device")).id == "disk-full"


def test_the_stack_of_a_log_record_is_no_traceback():
    stack = "Stack (most recent call last):", *TRACEBACK[1:-1], SKIPPED
    assert words_of(failure(*stack, *WENT_ON)).raised is None
    assert diagnosis_of(failure(*stack, *WENT_ON)) is None


@pytest.mark.parametrize("first", range(1, len(TRACEBACK)))
def test_in_the_output_of_a_success_it_is_no_death(first):
    assert unheeded(TRACEBACK[first:]) is None


def test_a_type_may_be_written_without_a_blank():
    """As some packages raise what they have caught."""
    begin, script, raised = raising("RuntimeError:No module named 'deepspeed'")
    assert told(failure(begin, script, raised)).id == "package-missing"


@pytest.mark.parametrize("line", ["a." * 500, "A" * 1000, "] " * 500, "Aa.Error" * 120 + ": "])
def test_no_line_is_slow_to_look_at(line):
    assert cpu_seconds(lambda: lone_exception([line] * 4000)) < 1
