"""Fixtures that more than one file needs."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ascend_supervisor.processes.kernel import PR_SET_CHILD_SUBREAPER
from tests.checking import Check
from tests.running import Running

# How long an example takes says how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A run in the background (nohup, &) has these ignored, and so would have all that it starts.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)

LONG = frozenset({"supervised", "etcd_server"})
"""Fixtures of tests that take long: they start whole jobs, or a real etcd."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Marks who uses one of LONG, before the marks decide who runs, and orders those who do.

    Frameworks come first: they compute much, so one worker begins with them, and the waits of
    others fill that time. What takes minutes comes in the middle, where another worker begins (each
    gets an equal part of the list): begun late, one of these would run alone at the end.
    """
    for item in items:
        if isinstance(item, pytest.Function) and not LONG.isdisjoint(item.fixturenames):
            item.add_marker("long")
    yield
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)
    longest = [item for item in items if item.get_closest_marker("endurance")]
    others = [item for item in items if item not in longest]
    middle = len(others) // 2 + len(longest)  # not before it, at the end of another part
    items[:] = [*others[:middle], *longest, *others[middle:]]


@pytest.fixture(autouse=True)
def adopts_nobody() -> Iterator[None]:
    """Whoever made this process a subreaper has made it one for this test only.

    Nobody here reaps the orphans of later tests, and every supervisor looks at all of /proc: with a
    thousand zombies in it, starts took ten times as long.
    """
    yield
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start supervisors whose processes do not outlive the test: ``supervised(*arguments)``."""
    started: list[Running] = []

    def start(*arguments: str, **options: Any) -> Running:
        root = options.pop("root", tmp_path)
        started.append(Running(root, *arguments, **options))
        return started[-1]

    yield start
    for running in started:
        running.kill()


@pytest.fixture
def check(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Check:
    """Ask ``--check`` in a pod: ``check.plan(variables, *options)``."""
    return Check(tmp_path, capfd)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    if os.geteuid():
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
