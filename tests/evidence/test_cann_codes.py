"""CANN's codes: found in what releases print and log, each with one meaning and one place."""

from __future__ import annotations

import pytest

from ascend_supervisor.evidence.cann_codes import (
    logged_code,
    meaning_of,
    spoken_code,
)

OLD = "EI0006: 2024-08-05-18:15:21.270.506 Getting socket times out. Reason: Remote Rank did not"
WITH_PID = "[rank1]: EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket times out."
NEW = "[PID: 749] 2025-12-29-03:16:15.787.356 Get_Socket_Timeout(EI0006): Getting socket times out"
PREFIXED = "ERROR 07-01 00:40:04 [engine.py:458] EI0006: [PID: 176930] 2025-07-01-00:40:04.135.732"
INNER = "EE9999: Inner Error!"
NEW_INNER = "EE9999[PID: 697] 2026-05-21-12:39:23.687.932 (EE9999):  rtStreamSynchronize failed"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([OLD], "EI0006"),
        ([WITH_PID], "EI0006"),
        ([NEW], "EI0006"),
        ([PREFIXED], "EI0006"),
        ([INNER], "EE9999"),
        ([NEW_INNER], "EE9999"),
        ([INNER, "EJ0001: [PID: 4] Failed to initialize the HCCP process."], "EJ0001"),
        (["EI0002: [PID: 7] The wait", OLD], "EI0002"),
        (["E19999: Inner Error!", INNER], "E19999"),
        (["E10001: Value [x] for parameter [y] is invalid"], "E10001"),
    ],
)
def test_a_printed_code_is_found_and_one_that_tells_something_comes_first(lines, code):
    assert spoken_code(["step 480 loss 1.92", *lines]) == code


@pytest.mark.parametrize(
    "line",
    [
        "[rank1]:[E614 11:14:03.086670611 ProcessGroupNCCL.cpp:1319] [PG 0 Rank 1] Failed",
        "E0325 17:13:24.153000 1874 torch/distributed/elastic/multiprocessing/api.py:869] failed",
        "see EI0006 in the documentation",
        "dataset SEI0006: ready",
        "model.EI0006: ready",
        "EI00061: ready",
        "XE10001: ready",
        "EX0001: ready",
    ],
)
def test_what_only_looks_like_a_code_is_none(line):
    assert spoken_code([line]) is None


HCCL = "[ERROR] HCCL(2717288,python3):2025-07-23-03:49:57.177.194 "
RUNTIME = "[ERROR] RUNTIME(2936187,python3):2022-04-21-14:19:39.429.485 [npu_driver.cc:780]2969960 "


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([HCCL + "[hccl_socket_manager.cc:778] [2734049][Wait][LinkEstablish]wait socket "
          "establish timeout, role[1] rank[12] timeout[120]"], "EI0006"),
        ([HCCL + "[hccl_socket_manager.cc:591]    _______LINK_ERROR_INFO_______"], "EI0006"),
        ([HCCL + "[task_exception_handler.cc:908] [2111665][TaskExecStage][Timeout][Host]Task run "
          "failed, base information is streamID:[2]"], "EI0002"),
        ([HCCL + "[CCU]Task run failed, EI0002, deviceID:[3]"], "EI0002"),
        ([HCCL + "error cqe status[12], qpn[8]"], "EI0013"),
        ([RUNTIME + "DevMemAllocHugePageManaged:report error module_type=1, module_name=EL9999",
          RUNTIME + "[driver interface] halMemAlloc failed: device_id=1, drvRetCode=6!"], "EL0004"),
        ([RUNTIME + "report error module_type=1, module_name=EL9999"], "EL9999"),
        ([RUNTIME + "kernel does not have param info. ErrorCode=EE1001."], "EE1001"),
        (["[INFO] GE(1,python):EI000600 addr=0xAEI0006F"], None),
        ([], None),
    ],
)  # fmt: skip
def test_a_logged_code_is_found_by_its_number_or_by_the_words_for_it(lines, code):
    assert logged_code(lines) == code


def test_the_first_error_of_a_log_counts():
    lines = [HCCL + "error cqe status[12]", HCCL + "wait socket establish timeout", "EI0004"]
    assert logged_code(lines) == "EI0013"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("EI0002", "HCCL_EXEC_TIMEOUT"),
        ("EJ0001", "--release-delay"),
        ("EZ9999", "an operator failed; look at the first [ERROR] in the rank's plog"),
        ("E19999", "CANN's graph engine failed; look at"),
        ("EH0001", "CANN's API (ACL) refused what it was asked for; the rank's log says more"),
    ],
)
def test_a_code_that_is_not_in_the_tables_is_told_by_its_module(code, words):
    assert words in meaning_of(code)
