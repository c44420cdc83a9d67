"""What of this machine a bad day needs; a test without it is skipped, by name."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.running import DEADLINE_SECONDS, wait_until

CGROUPS = Path("/sys/fs/cgroup")
_numbers = count()


def program(name: str, package: str) -> str:
    """Where a program is that the Debian ``package`` brings."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing (Debian's package {package})")
    return found


@contextmanager
def cgroup(controller: str, **limits: str) -> Iterator[Path]:
    """A cgroup of our own below the root one, of v1 or v2, with its ``limits`` ("max" -> "20").

    A process joins it when its pid is written to ``cgroup.procs``.
    """
    if os.geteuid():
        pytest.skip(f"a {controller} cgroup of our own needs root")
    version_1 = CGROUPS / controller
    root = version_1 if version_1.is_dir() else CGROUPS
    if root == CGROUPS and controller not in _controllers():
        pytest.skip(f"this machine has no cgroup controller {controller} that can be used")
    made = root / f"bad-day-{os.getpid()}-{next(_numbers)}"
    made.mkdir()
    try:
        for name, value in limits.items():
            (made / f"{controller}.{name}").write_text(value)
        yield made
    finally:
        _empty(made)
        made.rmdir()


def _empty(group: Path) -> None:
    """Where a test has failed, what it started may still be there."""
    end = time.monotonic() + DEADLINE_SECONDS
    while (left := (group / "cgroup.procs").read_text().split()) and time.monotonic() < end:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.01)


def inside(group: Path) -> tuple[str, ...]:
    """Words that put what they start into a cgroup."""
    return ("sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', str(group))


def _controllers() -> list[str]:
    try:
        return (CGROUPS / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []


@contextmanager
def mounted(target: Path, uid: int, *words: str) -> Iterator[Path]:
    """A file system at ``target``, which ``uid`` owns; ``words`` say to mount which."""
    if os.geteuid():
        pytest.skip("mounting a file system needs root")
    target.mkdir()
    done = _run("mount", *words, str(target))
    if done.returncode:
        pytest.skip(f"mount {' '.join(words)}: {done.stderr.strip()}")
    try:
        os.chown(target, uid, -1)
        yield target
    finally:
        _unmount(target)


def small_disk(target: Path, uid: int, size: str = "16m") -> AbstractContextManager[Path]:
    return mounted(target, uid, "-t", "tmpfs", "-o", f"size={size}", "tmpfs")


@contextmanager
def failing_disk(target: Path, uid: int) -> Iterator[Callable[[], object]]:
    """A disk at ``target``; what is given makes it fail: it is read-only from then on."""
    image = target.with_name(f"{target.name}.img")
    program("mkfs.ext4", "e2fsprogs")
    with image.open("wb") as file:
        file.truncate(32 << 20)
    if _run("mkfs.ext4", "-q", str(image)).returncode:
        pytest.skip("no ext4 can be made here")
    with mounted(target, uid, "-t", "ext4", "-o", "loop,errors=remount-ro", str(image)):
        device = Path(_run("findmnt", "-no", "SOURCE", str(target)).stdout.strip()).name
        trigger = Path("/sys/fs/ext4", device, "trigger_fs_error")
        if not trigger.exists():
            pytest.skip("this kernel's ext4 has no errors on demand")
        yield lambda: trigger.write_text("a test")


class Hanging:
    """``target`` shows ``source``, until it is frozen: then whoever asks it anything waits."""

    def __init__(self, place: Path, uid: int) -> None:
        """Everything is below ``place``, which is made."""
        self.name = place.name
        self.source, self.target = place / "source", place / "target"
        self._connections = place / "connections"
        for directory in (place, self.source, self.target, self._connections):
            directory.mkdir()
            os.chown(directory, uid, -1)
        # Nothing is answered by the kernel alone, from what it has seen before.
        options = "allow_other,attr_timeout=0,entry_timeout=0,negative_timeout=0"
        words = [program("bindfs", "bindfs"), "-f", "-o", options]
        self._daemon = subprocess.Popen(
            [*words, str(self.source), str(self.target)], stderr=subprocess.PIPE, text=True
        )
        wait_until(lambda: os.path.ismount(self.target) or self._daemon.poll() is not None)
        if self._daemon.poll() is not None:
            assert self._daemon.stderr is not None
            pytest.skip(f"bindfs: {self._daemon.stderr.read().strip()}")
        self._number = os.minor(self.target.stat().st_dev)
        _run("mount", "-t", "fusectl", "fusectl", str(self._connections))

    def freeze(self) -> None:
        """While no question is under way: who waits for an answer to one cannot even be killed."""
        wait_until(self._frozen_in_silence)

    @property
    def asked(self) -> int:
        """How many questions wait for an answer."""
        return int((self._connections / str(self._number) / "waiting").read_text())

    def thaw(self) -> None:
        self._daemon.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """Whoever waits is told that it is gone."""
        self._daemon.kill()
        self._daemon.wait()
        assert self._daemon.stderr is not None
        self._daemon.stderr.close()
        for mount in (self.target, self._connections):
            _unmount(mount)

    def _frozen_in_silence(self) -> bool:
        self._daemon.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self._daemon.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        if self.asked:
            self.thaw()
            return False
        return True


@contextmanager
def hanging(place: Path, uid: int, *names: str) -> Iterator[list[Hanging]]:
    """A file system below ``place`` for each name that can be frozen."""
    if os.geteuid() or not Path("/dev/fuse").exists():
        pytest.skip("a FUSE mount for others needs root and /dev/fuse")
    made: list[Hanging] = []
    try:
        made.extend(Hanging(place / name, uid) for name in names)
        yield made
    finally:
        for one in made:
            one.remove()


def _unmount(target: Path) -> None:
    """More than once: umount may overlook an entry of mountinfo while others mount and unmount."""

    def gone() -> bool:
        _run("umount", "--lazy", str(target))
        return f" {target} " not in Path("/proc/self/mountinfo").read_text()

    wait_until(gone)


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
