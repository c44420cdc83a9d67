"""Let go of children that made us their tracer; we trace nobody.

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
"""What a traced process sends itself to wait for its tracer: SIGSTOP by custom; SIGTRAP, which the
kernel sends in its name, after an exec."""


def let_go(pid: int, number: int) -> None:
    """End the tracing of a stopped process, which gets the signal ``number`` that stopped it.

    It goes on as if it had never been traced. Only SIGSTOP and SIGTRAP that it sent itself are
    dropped: they were meant for its tracer. To be called from the main thread, which is its tracer.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    libc.ptrace.restype = ctypes.c_long
    if number in FOR_THE_TRACER:
        info = ctypes.create_string_buffer(SIGINFO_BYTES)
        # It fails where the process is stopped already (a group-stop), which it then remains.
        if libc.ptrace(PTRACE_GETSIGINFO, pid, None, info) == 0:
            code, sender = _SENDER.unpack_from(info)
            if sender == pid and code in (SI_USER, SI_TKILL):
                number = 0
    libc.ptrace(PTRACE_DETACH, pid, None, number)  # fails only if it was killed meanwhile
