"""The names of system calls."""

from __future__ import annotations

import pytest

from ascend_supervisor.stacks.kernel_side import system_call


@pytest.mark.parametrize(
    ("text", "machine", "name"),
    [
        ("202 0x7f 0x80 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7faf", "x86_64", "futex"),
        ("98 0x7f 0x80 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7faf", "aarch64", "futex"),
        ("0 0x3 0x7f 0x20000", "x86_64", "read"),
        ("63 0x3 0x7f 0x20000", "aarch64", "read"),
        ("219 0x0", "x86_64", "restart_syscall"),
        ("128 0x0", "aarch64", "restart_syscall"),
        ("9999 0x0", "x86_64", "system call 9999"),
        ("202 0x0", "riscv64", "system call 202"),
        ("-1 0x7ffd 0x7faf", "x86_64", ""),
        ("running", "x86_64", ""),
        ("", "x86_64", ""),
    ],
)
def test_a_number_is_named_by_the_table_of_the_machine(text, machine, name):
    assert system_call(text, machine) == name
