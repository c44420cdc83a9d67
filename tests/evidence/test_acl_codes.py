"""The return codes of CANN's API: in the words of real failures, the telling one comes first."""

from __future__ import annotations

import re

import pytest

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.evidence.acl_codes import (
    GENERIC,
    acl_codes,
    is_generic,
    of_module,
)
from ascend_supervisor.evidence.blame import blame, explained
from ascend_supervisor.evidence.cann_codes import spoken_code
from ascend_supervisor.outcome import ExitStatus, Failure

FRAMES = 'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    main()\n'
AI_CORE = (
    "RuntimeError: npuSynchronizeDevice:torch_npu/csrc/core/npu/NPUStream.cpp:506 NPU function "
    "error: AclrtSynchronizeDeviceWithTimeout, error code is 507015\n"
    "[ERROR] 2025-11-08-21:35:27 (PID:1234255, Device:0, RankID:-1) ERR00100 PTA call acl api "
    "failed\n[Error]: The aicore execution is abnormal. \n        Rectify the fault based on the "
    "error information in the ascend log.\n"
)
INNER = "EE9999: Internal error!\nEE9999[PID: 2962977] 2026-09-14-14:32:30.313.787 (EE9999):  "
OPERATOR = "EZ9999: Inner Error!\nEZ9999: [PID: 12] 2025-11-08-21:35:27.904.479 The error from "
NOT_STARTED = (
    "RuntimeError: Initialize:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:146 NPU function "
    "error: c10_npu::SetDevice(device_id_), error code is 507033\n[ERROR] 2025-06-24-11:20:49 "
    "(PID:528886, Device:-1, RankID:-1) ERR00100 PTA call acl api failed\n"
    "[Error]: Failed to start the device. \n"
)
BUSY = "EL0003: [PID: 528886] 2025-06-24-11:20:41.662.506 The device is busy. Reason: x.\n"
VISIBLE = (
    "RuntimeError: init:compiler_depend.ts:292 NPU function error: aclrtGetDeviceCount, error code "
    "is 107001\nEE1001: [PID: 42] 2025-11-18-09:33:13.673.064 The argument is invalid.Reason: set"
)
_OPERATOR = "look at the operator and its input in the rank's plog"


def failure(words: str, **more) -> Failure:
    lines = tuple((FRAMES + words).split("\n"))
    return Failure("rank 1", 1, 0, ExitStatus(1), runtime_seconds=1.0, last_lines=lines, **more)


@pytest.mark.parametrize(
    ("words", "meaning", "blamed"),
    [
        (AI_CORE + INNER, ("CANN's return code 507015 (The aicore execution is abnormal): an "
         f"operator failed on the AI Core; {_OPERATOR}"), Blame.UNKNOWN),
        (AI_CORE + OPERATOR, ("CANN's return code 507015 (The aicore execution is abnormal): an "
         f"operator failed on the AI Core; {_OPERATOR}"), Blame.UNKNOWN),
        (NOT_STARTED + INNER, ("CANN's return code 507033 (Failed to start the device): the NPU "
         "could not be started: it may be held by others, faulty, or wrongly numbered; look at "
         "npu-smi info, /dev/davinci* and ASCEND_RT_VISIBLE_DEVICES"), Blame.UNKNOWN),
        ("RuntimeError: x, error code is 507054", ("CANN's return code 507054: the HBM of this NPU "
         "has an ECC error of several bits; look at npu-smi info, the device must be repaired or "
         "reset"), Blame.UNKNOWN),
        ("RuntimeError: NPU function error: SUSPECT REMOTE ERROR, error code is 507057",
         ("CANN's return code 507057: the memory of another rank's device may have failed, or this "
         "rank left its own, a consequence: look at the first error among the ranks of all "
         "servers"), Blame.CONSEQUENCE),
        (VISIBLE, ("CANN's return code 107001: there is no NPU with this number; look at "
         "ASCEND_RT_VISIBLE_DEVICES"), Blame.OWN),
        ("RuntimeError: x\n" + BUSY + INNER, ("EL0003: the driver of the NPU says: The device is "
         "busy; the rank's log says more after this code"), Blame.UNKNOWN),
        ("RuntimeError: x\n" + INNER + "\n" + OPERATOR, ("EZ9999: an operator failed; look at the "
         "first [ERROR] in the rank's plog"), Blame.UNKNOWN),
        ("RuntimeError: x, error code is 507999\n[Error]: A new trouble.\n" + INNER,
         ("CANN's return code 507999 (A new trouble): CANN's runtime failed; look at the first "
         "[ERROR] in the rank's plog"), Blame.UNKNOWN),
    ],
)  # fmt: skip
def test_the_specific_code_wins_and_is_explained_in_canns_own_words(words, meaning, blamed):
    found = explained(failure(words))
    assert (found.meaning, blame(found)) == (meaning, blamed)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["EE9999: Inner Error!", "error code is 507015"], "507015"),
        (["error code is 500002", "EI0004: the rank table"], "EI0004"),
        (["error code is 507033", "EJ0001: Failed to initialize the HCCP process."], "EJ0001"),
        (["error code is 507899", "EE9999: Inner Error!"], "507899"),
        (["error code is 500002", "EZ9999: Inner Error!"], "EZ9999"),
        (["error code is 507000", "error code is 507035"], "507035"),
        (["[ERROR] aclrtSynchronizeStream(stream) failed: 507015 (/tmp/main.cpp:108)"], "507015"),
        (["AclNN_Runtime_Error(EZ9903): aclrtLaunchKernel failed, return: 507018"], "507018"),
        (["acl set device 0 failed, errorCode = 507033"], "507033"),
        (["open device 0 failed, runtime result = 507033."], "507033"),
        (["ACL stream synchronize failed, error code:507015"], "507015"),
    ],
)
def test_of_several_codes_the_most_telling_comes_first(lines, code):
    assert spoken_code(lines) == code


@pytest.mark.parametrize(
    "line",
    [
        "error code is 12345",
        "error code is 5070150",
        "return 404404",
        "step 507015: loss 2.1",
        "downloaded 507015 bytes",
        "error code is 909090",
    ],
)
def test_what_only_looks_like_a_return_code_is_none(line):
    assert acl_codes([line]) == []


@pytest.mark.parametrize("code", sorted(GENERIC))
def test_a_generic_code_is_told_by_its_module(code):
    assert acl_codes([f"error code is {code}"]) == [code]
    assert is_generic(code)
    assert re.match(r"CANN's |an operator ", of_module(code))
