"""Detach children that made us their tracer; we trace no process.

PTRACE_TRACEME (anti-debug libraries call it) makes the parent the tracer: from then on every signal
stops the process until its tracer says how to go on, and a wait reports the stop.
"""

from __future__ import annotations

import ctypes
import signal
import struct

PTRACE_DETACH = 17
PTRACE_GETSIGINFO = 0x4202
"""linux/ptrace.h; the same on x86-64 and aarch64."""
SIGINFO_BYTES = 128
_SENDER = struct.Struct("=8xi4xi")
"""si_code and si_pid of a siginfo_t on 64-bit machines."""
SI_USER, SI_TKILL = 0, -6
FOR_THE_TRACER = frozenset({signal.SIGSTOP, signal.SIGTRAP})
"""Signals that a traced process gets only to wait for its tracer: SIGSTOP, which it sends itself by
convention; SIGTRAP, which the kernel sends in its name after an exec."""


def let_go(pid: int, number: int) -> None:
    """End the tracing of a stopped process, which gets the signal ``number`` that stopped it.

    It continues as if it had never been traced. Only SIGSTOP and SIGTRAP that it sent itself are
    dropped: they were meant for its tracer. To be called in the main thread, which is the tracer.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    libc.ptrace.restype = ctypes.c_long
    if number in FOR_THE_TRACER:
        info = ctypes.create_string_buffer(SIGINFO_BYTES)
        # This fails if the process is in a group-stop; it then stays stopped.
        if libc.ptrace(PTRACE_GETSIGINFO, pid, None, info) == 0:
            code, sender = _SENDER.unpack_from(info)
            if sender == pid and code in (SI_USER, SI_TKILL):
                number = 0
    libc.ptrace(PTRACE_DETACH, pid, None, number)  # fails only if it was killed meanwhile
