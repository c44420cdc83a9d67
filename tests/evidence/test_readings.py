"""What a line tells that has two readings, or whose reason stands in a line beside it."""

from __future__ import annotations

import pytest

from ascend_supervisor.causes.table import CAUSES
from tests.evidence.test_diagnosed import failure, raising, told

CIRCULAR = "ImportError: cannot import name 'A' from partially initialized module '{}' {} ({})"
LIKELY = "(most likely due to a circular import)"
SEGMENT = "include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv-0-1"
SHM_OPEN = "include/shm.h:27 NCCL WARN Call to shm_open failed : "
FFTS = "fftsplus task execute failed, dev_id=0, stream_id=4, task_id=5, err_type={}[FUNC:GetError]"
SYMBOL = "/v/lib/te.cpython-38-x86_64-linux-gnu.so: undefined symbol: _ZN2at4_ops5zeros4callE"


@pytest.mark.parametrize(
    "line",
    ["NPU function error: c10_npu::SetDevice(device_id_), error code is 507033",
     "Failed to open device, retCode=0x7020014, deviceId=0."],
)  # fmt: skip
def test_an_npu_that_could_not_be_opened_may_be_wrongly_numbered_held_or_faulty(line):
    found = told(failure(*raising(f"RuntimeError: {line}"), "EL0003: The argument is invalid."))
    assert found.layer == "unknown"
    assert "ASCEND_RT_VISIBLE_DEVICES" in found.remedy
    assert "ASCEND_RT_VISIBLE_DEVICES" in found.remedy_zh


@pytest.mark.parametrize(
    ("module", "file", "by", "id_", "layer"),
    [
        ("a", "/code/a.py", "/code/b.py", "circular-import", "user"),
        ("v.q", "/work/v/v/q.py", "/work/v/v/p.py", "circular-import", "unknown"),
        ("v.q", "/e/lib/python3.10/site-packages/v/q.py", "/e/lib/python3.10/site-packages/w.py",
         "package-versions", "framework"),
        ("random", "/code/random.py", "/e/lib/python3.10/site-packages/w.py",
         "circular-import", "unknown"),
    ],
)  # fmt: skip
def test_modules_that_import_each_other_are_the_scripts_or_a_packages(module, file, by, id_, layer):
    begin, _, raised = raising(CIRCULAR.format(module, LIKELY, file))
    run, work = (f'  File "{one}", line 1, in <module>' for one in ("/code/train.py", by))
    found = told(failure(begin, run, work, raised))
    assert (found.id, found.layer) == (id_, layer)


@pytest.mark.parametrize(
    ("lines", "id_"),
    [
        ((SHM_OPEN + "Permission denied", SEGMENT), "permission-denied"),
        ((SHM_OPEN + "No space left on device", SEGMENT), "shared-memory-full"),
        ((SEGMENT,), "shared-memory-full"),
    ],
)
def test_the_error_number_of_shared_memory_stands_in_the_line_above(lines, id_):
    end = "RuntimeError: NCCL error in ProcessGroupNCCL.cpp:290, unhandled system error"
    assert told(failure(*lines, end)).id == id_


@pytest.mark.parametrize("id_", ["nccl-missing", "transformers-too-old"])
def test_a_message_with_two_readings_claims_neither(id_):
    """Each was told as one of them, and was the other."""
    for sign in (one for one in CAUSES[id_].signs if not one.file):
        found = told(failure(*raising(sign.example)))
        assert (found.id, found.layer) == (id_, "unknown")


def test_a_group_of_operators_that_waited_for_a_peer_has_not_failed_by_itself():
    waited = told(failure(FFTS.format("13[hccl fftsplus timeout]"), "error code is 107020"))
    assert (waited.id, waited.is_consequence) == ("EI0002", True)
    failed = told(failure(FFTS.format("11[fftsplus aicore error]"), "error code is 507049"))
    assert (failed.id, failed.is_consequence) == ("ffts-task-failed", False)


def test_a_symbol_that_is_missing_may_be_told_in_a_line_of_its_own():
    because = "RuntimeError: Failed to import a.b because of the following error (look up):"
    assert told(failure(because, SYMBOL)).id == "symbol-missing"
    assert told(failure(*raising(because), SYMBOL)).id == "symbol-missing"


TRIED = (
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.6/tarfile.py", line 189, in nti',
    "ValueError: invalid literal for int() with base 8: 'ightq'",
    "",
    "During handling of the above exception, another exception occurred:",
    "",
)


@pytest.mark.parametrize(
    ("place", "id_"),
    [
        ("/usr/lib/python3.6/tarfile.py", "checkpoint-of-newer-torch"),
        ("/v/lib/python3.6/site-packages/tool/read.py", "number-expected"),
        ("/code/read.py", "number-expected"),
    ],
)
def test_what_pythons_library_raised_is_a_trial_and_what_came_of_it_tells_more(place, id_):
    """A number that the script gave is its own, whatever was raised while that was handled."""
    tried = (line.replace("/usr/lib/python3.6/tarfile.py", place) for line in TRIED)
    raised = raising("RuntimeError: a.pt is a zip archive (did you mean to use torch.jit.load()?)")
    assert told(failure(*tried, *raised)).id == id_


@pytest.mark.parametrize(
    ("place", "id_"),
    [
        ("/v/transformers/models/auto/configuration_auto.py", "transformers-too-old"),
        ("/code/train.py", "key-missing"),
    ],
)
def test_a_sign_may_ask_for_the_file_that_raised_it(place, id_):
    begin, run, raised = raising("KeyError: 'qwen2'")
    assert told(failure(begin, run, f'  File "{place}", line 7, in find', raised)).id == id_
