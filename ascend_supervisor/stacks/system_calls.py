"""The names of the system calls in which processes wait, by number; pure.

From the kernel's tables: arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h (aarch64).
"""

from __future__ import annotations

from collections.abc import Mapping


def _by_number(**calls: int) -> Mapping[int, str]:
    return {number: name for name, number in calls.items()}


_X86_64 = _by_number(
    read=0,
    write=1,
    open=2,
    close=3,
    poll=7,
    mmap=9,
    munmap=11,
    ioctl=16,
    pread64=17,
    pwrite64=18,
    readv=19,
    writev=20,
    select=23,
    sched_yield=24,
    madvise=28,
    pause=34,
    nanosleep=35,
    connect=42,
    accept=43,
    sendto=44,
    recvfrom=45,
    sendmsg=46,
    recvmsg=47,
    clone=56,
    fork=57,
    vfork=58,
    execve=59,
    wait4=61,
    semop=65,
    msgrcv=70,
    fcntl=72,
    flock=73,
    fsync=74,
    fdatasync=75,
    rt_sigtimedwait=128,
    rt_sigsuspend=130,
    futex=202,
    io_getevents=208,
    restart_syscall=219,
    semtimedop=220,
    clock_nanosleep=230,
    exit_group=231,
    epoll_wait=232,
    waitid=247,
    openat=257,
    newfstatat=262,
    pselect6=270,
    ppoll=271,
    epoll_pwait=281,
    accept4=288,
    statx=332,
    io_uring_enter=426,
    clone3=435,
    epoll_pwait2=441,
    futex_waitv=449,
)
_AARCH64 = _by_number(
    io_getevents=4,
    epoll_pwait=22,
    fcntl=25,
    ioctl=29,
    flock=32,
    openat=56,
    close=57,
    read=63,
    write=64,
    readv=65,
    writev=66,
    pread64=67,
    pwrite64=68,
    pselect6=72,
    ppoll=73,
    newfstatat=79,
    fsync=82,
    fdatasync=83,
    exit_group=94,
    waitid=95,
    futex=98,
    nanosleep=101,
    clock_nanosleep=115,
    sched_yield=124,
    restart_syscall=128,
    rt_sigsuspend=133,
    rt_sigtimedwait=137,
    msgrcv=188,
    semtimedop=192,
    semop=193,
    accept=202,
    connect=203,
    sendto=206,
    recvfrom=207,
    sendmsg=211,
    recvmsg=212,
    munmap=215,
    clone=220,
    execve=221,
    mmap=222,
    madvise=233,
    accept4=242,
    wait4=260,
    statx=291,
    io_uring_enter=426,
    clone3=435,
    epoll_pwait2=441,
    futex_waitv=449,
)
_TABLES: Mapping[str, Mapping[int, str]] = {"x86_64": _X86_64, "aarch64": _AARCH64}


def system_call(text: str, machine: str) -> str:
    """What /proc/PID/syscall says: a name, ``system call 999``, or nothing if it is in none.

    ``machine`` is that of uname(2).
    """
    number = text.partition(" ")[0]
    if not number.isdecimal():  # "running", or -1: it waits, but not in a system call
        return ""
    return _TABLES.get(machine, {}).get(int(number), f"system call {number}")
