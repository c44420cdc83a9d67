"""One archive for a support ticket: what is taken, how, and what was left out and why.

The layout is that of Huawei's ascend-fd (MindCluster Ascend FaultDiag), from its user guide,
"Log Collection Directory Structure", and its program of August 2026: files of CANN are below
``process_log/debug`` and ``process_log/run``, logs of ranks have ``rank-`` in their names and end
in ``.txt``, the kernel's messages are in ``dmesg``, what npu-smi and hccn_tool say is in
``environment_check/npu_info_after.txt``. Other files have names that it does not look at.
"""
