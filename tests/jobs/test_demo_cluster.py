"""`make demo-cluster`, as a newcomer runs it, and ends it before its time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "scripts" / "demo-cluster"
DEADLINE_SECONDS = 100.0

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None, reason="etcd is not installed here (Debian: etcd-server)"
)


def test_a_rank_and_a_supervisor_are_killed_and_the_result_is_that_of_an_undisturbed_run(tmp_path):
    with demo(tmp_path) as running:
        said, _ = running.communicate(timeout=DEADLINE_SECONDS)
        assert running.returncode == 0, said
        assert "the cause that all of them name: server 1: rank 3 was killed by SIGKILL" in said
        assert "the cause that all of them name: server 2 was lost" in said
        assert "generation 2 has started on servers 0, 1, 3: 6 ranks" in said
        assert said.splitlines()[-1].startswith(
            "The result is exactly that of an undisturbed run: loss 0."
        )
        assert leftovers(tmp_path, running.pid) == []


def test_interrupted_it_leaves_nothing_behind(tmp_path):
    """Where no network namespace can be made, as `ip` is missing."""
    programs = tmp_path / "programs"
    programs.mkdir()
    etcd = shutil.which("etcd")
    assert etcd is not None
    (programs / "etcd").symlink_to(etcd)
    files = tmp_path / "files"
    files.mkdir()
    with demo(files, PATH=str(programs)) as running:
        assert running.stdout is not None
        said = []
        for line in running.stdout:
            said.append(line)
            if "has saved the checkpoint" in line:
                break
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        rest, _ = running.communicate(timeout=DEADLINE_SECONDS)
        assert running.returncode == 130, "".join(said) + rest
        assert "all on loopback" in said[0]
        assert "Traceback" not in rest
        assert leftovers(files, running.pid) == []


@contextmanager
def demo(files: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """What it starts does not outlive the test, whatever happens."""
    with subprocess.Popen(
        [sys.executable, DEMO],
        env={**os.environ, "TMPDIR": str(files), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            yield running
        finally:
            for pid in processes_of(files):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for name in namespaces_of(running.pid):
                subprocess.run(("ip", "netns", "delete", name), check=True)


def leftovers(files: Path, pid: int) -> list[object]:
    """Processes that know these files, the files, and the network namespaces of this demo."""
    return [*processes_of(files), *files.iterdir(), *namespaces_of(pid)]


def processes_of(files: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            knows = f"TMPDIR={files}".encode() in (process / "environ").read_bytes().split(b"\0")
            if knows and (process / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.append(int(process.name))
    return found


def namespaces_of(pid: int) -> list[str]:
    return [path.name for path in Path("/run/netns").glob(f"ascend-demo-{pid}-*")]
