"""Commands that print and end, where stdout is closed, full, or read by nobody."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ascend_supervisor import __version__
from tests.running import DEADLINE_SECONDS

RANKS = 16
CHECK = ("--standalone", str(RANKS), "--check", "--", "true", "x" * 100_000)
"""A plan of more bytes than a pipe holds."""
ANSWERS = [
    ("-m", "ascend_supervisor", "--version"),
    ("-m", "ascend_supervisor", "--help"),
    ("-m", "ascend_supervisor", *CHECK),
    ("-m", "ascend_supervisor.ctl", "--version"),
    ("-m", "ascend_supervisor.ctl", "--help"),
]
NAMES = ["version", "help", "check", "ctl version", "ctl help"]


def asked(
    words: tuple[str, ...], redirection: str, place: Path
) -> subprocess.CompletedProcess[bytes]:
    """One call by a shell that redirects its output."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, *words],
        env={"PATH": os.environ["PATH"], "ASCEND_SUPERVISOR_LOG_DIR": str(place)},
        cwd=place,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("words", ANSWERS, ids=NAMES)
@pytest.mark.parametrize(
    ("redirection", "reason"),
    [(">&-", b"Bad file descriptor"), (">/dev/full", b"No space left on device")],
)
def test_what_cannot_be_printed_is_one_sentence_and_73(tmp_path, words, redirection, reason):
    found = asked(words, redirection, tmp_path)
    program = b"ascend-supervisorctl" if "ctl" in words[1] else b"ascend_supervisor"
    assert found.stderr == b"%b: stdout cannot be written: %b\n" % (program, reason)
    assert found.returncode == 73


@pytest.mark.parametrize("words", ANSWERS, ids=NAMES)
@pytest.mark.parametrize("redirection", [">&- 2>&-", ">/dev/full 2>/dev/full"])
def test_without_stderr_there_is_the_exit_code(tmp_path, words, redirection):
    assert asked(words, redirection, tmp_path).returncode == 73


@pytest.mark.parametrize("words", ANSWERS, ids=NAMES)
def test_a_reader_that_went_away_is_told_by_the_exit_code_alone(tmp_path, words):
    read_end, write_end = os.pipe()
    os.close(read_end)
    found = subprocess.run(
        [sys.executable, *words],
        env={"PATH": os.environ["PATH"]},
        cwd=tmp_path,
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    os.close(write_end)
    code = found.returncode
    assert (code if code >= 0 else 128 - code) == 128 + signal.SIGPIPE
    assert found.stderr == b""


def test_a_stdout_that_somebody_made_non_blocking_is_waited_for(tmp_path):
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    process = subprocess.Popen(
        [sys.executable, "-m", "ascend_supervisor", *CHECK],
        env={"PATH": os.environ["PATH"]},
        cwd=tmp_path,
        stdout=write_end,
    )
    size = fcntl.fcntl(write_end, fcntl.F_GETPIPE_SZ)
    os.close(write_end)
    read: list[bytes] = []

    def read_all() -> None:
        with os.fdopen(read_end, "rb") as pipe:
            read.append(pipe.read())

    reader = threading.Thread(target=read_all)
    reader.start()
    assert process.wait(DEADLINE_SECONDS) == 0
    reader.join(DEADLINE_SECONDS)
    assert len(read[0]) > size
    assert len(json.loads(read[0])["processes"]) == RANKS


def test_with_stderr_closed_the_answer_is_the_same(tmp_path):
    found = asked(ANSWERS[0], "2>&-", tmp_path)
    assert (found.returncode, found.stdout.decode()) == (0, f"ascend_supervisor {__version__}\n")
