"""Why a file was refused: in the kernel's words, and for whom."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_supervisor.files.regular_file import reason_of
from tests.running import DEADLINE_SECONDS


@pytest.mark.parametrize("kind", ["a missing file", "a directory"])
def test_a_refusal_that_concerns_everybody_names_nobody(tmp_path: Path, kind: str):
    path = tmp_path / "absent" if kind == "a missing file" else tmp_path
    with pytest.raises(OSError, match=r".") as refused:
        path.read_bytes()
    assert reason_of(refused.value) == refused.value.strerror


READS = """\
import sys
from ascend_supervisor.files.regular_file import reason_of
try:
    open(sys.argv[1])
except OSError as error:
    print(reason_of(error))
"""


def test_a_missing_permission_names_the_user(tmp_path: Path):
    closed = tmp_path / "closed"
    closed.touch(mode=0)
    without_privileges = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    before = () if os.geteuid() else without_privileges
    words = (*before, sys.executable, "-c", READS, str(closed))
    found = subprocess.run(words, capture_output=True, timeout=DEADLINE_SECONDS, check=True)
    assert found.stdout.decode() == f"Permission denied for user {os.geteuid()}\n"


def test_an_error_without_the_kernels_words_is_said_as_it_is():
    assert reason_of(OSError("the other end is gone")) == "the other end is gone"
