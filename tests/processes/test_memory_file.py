"""What others are to read from a descriptor, also where there is no memfd_create."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from ascend_supervisor.processes.kernel import MEMFD_CREATE
from tests.running import FORBIDS

WRITES = """
import os, sys
from ascend_supervisor.processes.kernel import memory_file
number = memory_file(b"x" * 300_000)
print(os.readlink(f"/proc/self/fd/{number}").split(":")[0], os.get_inheritable(number))
print(len(open(number, "rb").read()), os.listdir(sys.argv[1]))
"""
FILLS = """
import resource
from ascend_supervisor.processes.kernel import memory_file
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    memory_file(b"x" * 300)
except OSError as error:
    print(error.strerror)
"""


def said(source: str, directory: str, number: int | None) -> list[str]:
    """Of a Python whose temporary files are there, and whose memfd_create fails with ``number``."""
    call = MEMFD_CREATE[os.uname().machine]
    before = () if number is None else (sys.executable, "-c", FORBIDS, str(number), str(call), "--")
    done = subprocess.run(
        [*before, sys.executable, "-c", source, directory],
        env={"TMPDIR": directory},
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    return done.stdout.decode().splitlines()


def test_it_is_in_memory(tmp_path):
    assert said(WRITES, str(tmp_path), None) == ["/memfd False", "300000 []"]


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM], ids=["old kernel", "seccomp"])
def test_it_is_a_file_without_a_name_where_there_are_none_in_memory(number, tmp_path):
    where, size = said(WRITES, str(tmp_path), number)
    assert where.startswith(str(tmp_path))
    assert where.endswith(" False")
    assert size == "300000 []"


def test_a_disk_that_is_full_is_an_error(tmp_path):
    assert said(FILLS, str(tmp_path), errno.ENOSYS) == ["No space left on device"]
