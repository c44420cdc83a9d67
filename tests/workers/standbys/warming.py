"""Runs a Python command cold, and warm as the supervisor does, and gives what was seen of it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ascend_supervisor
from ascend_supervisor.processes.kernel import memory_file

PROGRAM = Path(ascend_supervisor.__file__).parent / "programs" / "warm_rank.py"
SECONDS = 60


Environ = Mapping[str, str]
PYTHON = (sys.executable,)
"""The interpreter, and options of it."""


class Python(NamedTuple):
    """An interpreter in which a rank may run; a supervisor needs 3.10."""

    words: tuple[str, ...]
    version: tuple[int, int]


def older() -> Iterator[Python]:
    """Of 3.7 to 3.9 those of this machine; the suite runs in newer ones as a whole."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    for minor in (7, 8, 9):
        name = f"python3.{minor}"
        usual = (Path("/usr/bin", name), Path("/usr/local/bin", name))
        found = [*pyenv.glob(f"3.{minor}.*/bin/{name}"), *filter(Path.exists, usual)]
        yield from (Python((str(path),), (3, minor)) for path in found[:1])


PYTHONS = (Python(PYTHON, sys.version_info[:2]), *older())


def cold(
    words: Sequence[str], environ: Environ, cwd: Path, python: Sequence[str] = PYTHON
) -> tuple[int, str]:
    """The exit status and the output of a command."""
    done = subprocess.run(
        [*python, *words],
        env=environ,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout.decode()


class Warm:
    """A process that warms; ``go`` is the word."""

    def __init__(
        self,
        words: Sequence[str],
        environ: Environ,
        cwd: Path,
        python: Sequence[str] = PYTHON,
        names: Sequence[str] = (),
    ) -> None:
        self.words = words
        self.cold: str | None = None
        """Why it started cold after the word."""
        self.link, theirs = socket.socketpair()
        self.link.settimeout(SECONDS)
        more = [word for name in names for word in ("--import", name)]
        self.process = subprocess.Popen(
            [*python, str(PROGRAM), str(theirs.fileno()), *more, *words],
            env=environ,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()

    def told(self) -> dict[str, Any]:
        """What it says when it is ready, or to the word."""
        said = b""
        while not said.endswith(b"\n"):
            chunk = self.link.recv(65536)
            assert chunk, self.process.communicate()
            said += chunk
        return dict(json.loads(said))

    def end(self) -> tuple[int, str]:
        """Its status, and what it has said."""
        self.link.close()
        said, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, said.decode()

    def go(
        self, environ: Environ, cwd: Path, words: Sequence[str] | None = None
    ) -> tuple[int, str]:
        """The word; then what was seen of the command, with what it said before if it is warm."""
        read_end, write_end = os.pipe()
        text = json.dumps({"environ": environ, "argv": words or self.words, "cwd": str(cwd)})
        word = memory_file(text.encode())
        socket.send_fds(self.link, [b"\n"], [write_end, word])
        os.close(write_end)
        os.close(word)
        self.cold = self.told()["cold"]
        if self.cold is None:
            self.link.send(b"\n")
        self.link.close()
        with os.fdopen(read_end, "rb") as output:
            said = output.read()
        before, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, (said if self.cold else before + said).decode()


def warm(
    words: Sequence[str], environ: Environ, cwd: Path, python: Sequence[str] = PYTHON
) -> tuple[int, str]:
    """As ``cold``, by way of a process that had made its imports."""
    process = Warm(words, environ, cwd, python)
    told = process.told()
    assert told["refused"] is None, told
    seen = process.go(environ, cwd)
    assert process.cold is None
    return seen


OURS = re.compile(r'  File "[^"]*/warm_rank\.py", line \d+,? in .*\n(?:    .*\n)*')
NUMBERS = re.compile(r"0x[0-9a-f]+|started \d+")


def alike(
    words: Sequence[str], environ: Environ, cwd: Path, python: Sequence[str] = PYTHON
) -> tuple[int, str]:
    """The only differences are addresses, and our frames below those of the script."""
    status, expected = cold(words, environ, cwd, python)
    warm_status, told = warm(words, environ, cwd, python)
    assert NUMBERS.sub("N", OURS.sub("", told)) == NUMBERS.sub("N", expected)
    assert warm_status == status
    return status, expected
