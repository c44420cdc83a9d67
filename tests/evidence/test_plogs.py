"""Plogs and tracebacks of CANN that people have shown in public: the first cause is told."""

from __future__ import annotations

import pytest

from ascend_supervisor.evidence.diagnosed import diagnosis_of
from ascend_supervisor.outcome import ExitStatus, Failure

HCCL = "[ERROR] HCCL(38011,python):2025-07-15-12:45:32.997.778 "
RUNTIME = "[ERROR] RUNTIME(1365,python):2025-05-12-16:46:26.017.124 "
HCCP = "[ERROR] HCCP(38011,python):2025-07-15-12:45:32.997.682 [ra_hdc_rdma.c:1199]tid:38011,"
LISTEN = (
    HCCL + "[hccl_socket.cc:100] [38011][HcclSocket][Listen] socket type[1], listen on "
    "ip[192.168.20.148] and specific port[16666] fail. Please check the port status and whether"
)
NO_LINK = (
    HCCL + "[hccl_socket_manager.cc:778] [9][Wait][LinkEstablish]wait socket establish timeout"
)
SDMA = (
    RUNTIME + "[device_error_proc.cc:779] The error from device(6), serial number is 11. there is "
    "a sdma error, sdma channel is 0. the value of CQE status is "
)
NOT_OPENED = (
    "        tsd client wait response fail, device response code[1]. unknown device error.",
    "        Start aicpu executor failed, retCode=0x7020009 devId=0[FUNC:DeviceRetain]",
    "        New device failed, retCode=0x7010006[FUNC:SetDevice]",
)


def diagnosed(lines: tuple[str, ...], plog: tuple[str, ...]) -> str | None:
    status = ExitStatus.of(1)
    found = diagnosis_of(Failure("rank 0", 0, 0, status, 1.0, last_lines=lines), plog)
    return None if found is None else found.id


@pytest.mark.parametrize(
    ("plog", "cause"),
    [
        ((HCCP + "ra hdc message process failed ret(-67) phy_id(0)",
          HCCL + "[adapter_hccp.cc:647] [1][Init][RaRdma] rdma init fail. return: ret[328004]",
          LISTEN), "EJ0002"),
        ((LISTEN, NO_LINK), "hccl-port-taken"),
        ((NO_LINK,), "EI0006"),
        ((HCCL + "[p2p_mgmt.cc:305] [1][Wait][P2PConnected]connected p2p timeout, timeout:130 s.",
          NO_LINK), "hccl-p2p-timeout"),
        ((SDMA + "2. the description of CQE status: a Terminate error.",
          RUNTIME + "[task.cc:1582] Memory async copy failed, device_id=0, stream_id=3"),
         "sdma-address-invalid"),
        ((SDMA + "10. the description of CQE status: COMPDATAERR",), "sdma-overflow"),
        ((RUNTIME + "[stars_engine.cc:630] SyncTask:Device[3] lost heartbeat.",
          RUNTIME + "[api_c.cc:721] ErrCode=507046, desc=[stream sync timeout]"),
         "npu-heartbeat-lost"),
    ],
)  # fmt: skip
def test_of_a_plog_the_first_cause_is_told(plog, cause):
    assert diagnosed((), plog) == cause


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("E30006: 2025-11-19-11:14:58.516.606 Failed to verify the OPP", "npu-package-rejected"),
        ("EJ0001: 2024-05-21-11:57:54.167.645 Failed to initialize the HCCP process.", "EJ0001"),
        ("EH9999: Inner Error!", "tsd-open-failed"),
    ],
)
def test_of_a_traceback_of_cann_the_first_cause_is_told(said, cause):
    raised = ("Traceback (most recent call last):", '  File "train.py", line 1, in <module>')
    error = "RuntimeError: NPU function error: c10_npu::SetDevice(device_id_), error code is 507033"
    assert diagnosed((*raised, error, said, *NOT_OPENED), ()) == cause
