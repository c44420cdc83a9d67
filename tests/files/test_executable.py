"""What the kernel can execute, told by a file's first bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ascend_supervisor.workers.command import OTHER_FORMATS, is_foreign


@pytest.fixture(autouse=True)
def only_what_the_kernel_knows_by_itself():
    if OTHER_FORMATS.is_dir() and {path.name for path in OTHER_FORMATS.iterdir()} - {
        "register",
        "status",
    }:
        pytest.skip("this kernel executes other formats too (binfmt_misc)")


def test_programs_and_scripts_of_this_machine_are_not(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert not is_foreign(Path(sys.executable))
    assert not is_foreign(Path("/bin/sh"))
    assert not is_foreign(script)


@pytest.mark.parametrize("at", [4, 5, 18])
def test_a_program_for_another_machine_is(tmp_path, at):
    data = bytearray(Path("/bin/sh").read_bytes()[:4096])
    data[at] ^= 0x40
    program = tmp_path / "program"
    program.write_bytes(data)
    assert is_foreign(program)


@pytest.mark.parametrize("content", [b"", b"exit 0\n", b"\x7fELF"])
def test_what_is_neither_is(tmp_path, content):
    program = tmp_path / "program"
    program.write_bytes(content)
    assert is_foreign(program)


def test_what_cannot_be_read_is_left_to_the_kernel(tmp_path):
    assert not is_foreign(tmp_path / "missing")
